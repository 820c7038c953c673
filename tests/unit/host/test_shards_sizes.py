"""Shards in a host: sized after epochs, silent until asked, telling of halvings and turns when they should (M5c, M5d)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from perseid import Operator, state
from perseid.channel.size_messages import ask_message, read_report
from perseid.checkpoint.size_reports import AskSizes, SizesReported
from perseid.host.shards import OperatorSpec, Shards
from perseid.state import size_estimate
from perseid.storage.store import Store
from perseid.vocabulary import HostId, OperatorName


class Pool(Operator):
    rows: list[bytes] = state(default_factory=list, element_size=1000)
    broken: list[int] = state(default_factory=list, length=lambda value: 1 // 0)

    def process(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            self.rows = []
        self.rows += [b""] * rows.num_rows


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shards:
    monkeypatch.setattr(size_estimate, "SHARE", 1.0)  # every epoch is sized
    schema = pa.schema([("n", pa.int64())])
    spec = OperatorSpec(
        OperatorName("pool"),
        Pool(),
        {"rows": ("k",)},
        ("int64",),
        ("rows",),
        None,
        schema.serialize().to_pybytes(),
        retained=False,
    )
    shards = Shards(Store.at(str(tmp_path / "root")), None, tmp_path, [spec])
    entries = [
        {
            "operator": "pool",
            "index": i,
            "slots": [128 * i, 128 * (i + 1)],
            "parts": [],
            "epoch": 0,
            "homes": [],
            "upto": 0,
        }
        for i in range(2)
    ]
    shards.adopt(shards.restored({"version": 1, "retain_from": 1, "shards": entries, "before": []})[0])
    return shards


def run(held: Shards, epoch: int, rows: int, shard: int = 0) -> list[dict[str, Any]]:
    request = {
        "operator": "pool", "shard": shard, "epoch": epoch, "version": 1, "recall": False, "wanted": False, "release": 0,
        "time_ms": 0, "at_ms": 1000 * epoch, "watermark_ms": None, "aside": None, "report": True,
    }  # fmt: skip
    found = held.answer(request, pa.table({"k": pa.array(range(rows), pa.int64())}))
    assert isinstance(found, tuple), found
    notices, found[0].notices = found[0].notices, []
    return notices


def test_a_shard_is_silent_until_it_has_halved(held: Shards) -> None:
    assert [n["kind"] for n in run(held, 1, 100)] == ["warning"]
    assert run(held, 2, 0) == [] and run(held, 3, 50) == [], "nobody has asked yet"
    held.sizes(ask_message(AskSizes(1, observed=True)))
    assert run(held, 4, 100) == []
    assert run(held, 5, 0) == []
    (halved,) = run(held, 6, 10)
    assert halved["kind"] == "halved" and halved["bytes"] * 2 < halved["before"]


def test_a_question_is_answered_with_size_rate_and_what_was_seen(held: Shards) -> None:
    held.sizes(ask_message(AskSizes(1, observed=True)))
    for epoch, rows in enumerate((10, 20, 0, 30), start=1):
        run(held, epoch, rows)
    message = held.sizes(ask_message(AskSizes(2, observed=True, watch=True)))
    assert message is not None
    answer = read_report(HostId(1), message)
    assert isinstance(answer, SizesReported) and answer.query == 2
    one, two = answer.sizes
    assert one.bytes >= 30_000 and one.rate == pytest.approx(30_000, rel=0.02)
    assert one.observed is not None and one.observed.dynamic and len(one.observed.points) == 4
    assert two.bytes == 0 and two.observed is not None and two.observed.samples == 0, "it has seen no epoch yet"
    assert [n["kind"] for n in run(held, 5, 0)] == ["turned"]
    held.quieten()
    assert [n["kind"] for n in run(held, 6, 5)] == ["halved"]
    assert held.sizes(ask_message(AskSizes(3, frozenset()))) is None, "none of its shards was asked"


def test_what_is_wrong_with_a_hint_is_told_once_per_operator(held: Shards) -> None:
    (warning,) = run(held, 1, 1, shard=0)
    assert "operator 'pool': the size of state field 'broken' is not known" in warning["message"]
    assert "ZeroDivisionError" in warning["message"]
    assert run(held, 2, 1, shard=0) == [] and run(held, 1, 1, shard=1) == []
