"""Shards in a host: sized after epochs, silent until asked, telling of halvings and turns when they should (M5c, M5d)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from host_pieces import TestHost, apply_epoch, shard_to_restore, spec_of

from perseid import Operator, state
from perseid.checkpoint.size_reports import AskSizes, Quieten, SizeHalved, SizeTurned
from perseid.engine.host import Answered
from perseid.engine.messages import Report, Sizes, Warned
from perseid.state import size_estimate
from perseid.vocabulary import OperatorName, ShardId

POOL = OperatorName("pool")


class Pool(Operator):
    rows: list[bytes] = state(default_factory=list, element_size=1000)
    broken: list[int] = state(default_factory=list, length=lambda value: 1 // 0)

    def process(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            self.rows = []
        self.rows += [b""] * rows.num_rows


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestHost:
    monkeypatch.setattr(size_estimate, "SHARE", 1.0)  # every epoch is sized
    spec = spec_of("pool", Pool(), "k", "int64", pa.schema([("n", pa.int64())]))
    host = TestHost(tmp_path, [spec])
    host.restore(*(shard_to_restore(ShardId(POOL, i), (128 * i, 128 * (i + 1))) for i in range(2)))
    return host


def run(held: TestHost, epoch: int, rows: int, shard: int = 0) -> list[Any]:
    request = apply_epoch(ShardId(POOL, shard), epoch, at_ms=1000 * epoch, wanted=False)
    found = held.ask(request, pa.table({"k": pa.array(range(rows), pa.int64())}))
    assert isinstance(found, Answered), found
    report, *notices = held.told()
    assert isinstance(report, Report) and report.epoch == epoch
    return notices


def test_a_shard_is_silent_until_it_has_halved(held: TestHost) -> None:
    assert [type(n) for n in run(held, 1, 100)] == [Warned]
    assert run(held, 2, 0) == [] and run(held, 3, 50) == [], "nobody has asked yet"
    held.machine.handle(AskSizes(1, observed=True))
    held.told()
    assert run(held, 4, 100) == []
    assert run(held, 5, 0) == []
    (halved,) = run(held, 6, 10)
    assert isinstance(halved, SizeHalved) and halved.bytes * 2 < halved.before


def test_a_question_is_answered_with_size_rate_and_what_was_seen(held: TestHost) -> None:
    held.machine.handle(AskSizes(1, observed=True))
    held.told()
    for epoch, rows in enumerate((10, 20, 0, 30), start=1):
        run(held, epoch, rows)
    held.machine.handle(AskSizes(2, observed=True, watch=True))
    (answer,) = held.told()
    assert isinstance(answer, Sizes) and answer.query == 2
    one, two = answer.sizes
    assert one.bytes >= 30_000 and one.rate == pytest.approx(30_000, rel=0.02)
    assert one.observed is not None and one.observed.dynamic and len(one.observed.points) == 4
    assert two.bytes == 0 and two.observed is not None and two.observed.samples == 0, "it has seen no epoch yet"
    assert [type(n) for n in run(held, 5, 0)] == [SizeTurned]
    held.machine.handle(Quieten())
    assert [type(n) for n in run(held, 6, 5)] == [SizeHalved]
    held.machine.handle(AskSizes(3, frozenset()))
    assert held.told() == [], "none of its shards was asked"


def test_what_is_wrong_with_a_hint_is_told_once_per_operator(held: TestHost) -> None:
    (warning,) = run(held, 1, 1, shard=0)
    assert "operator 'pool': the size of state field 'broken' is not known" in warning.message
    assert "ZeroDivisionError" in warning.message
    assert run(held, 2, 1, shard=0) == [] and run(held, 1, 1, shard=1) == []
