"""A host forks for every snapshot. What its operators drop is collected all the same, also when it hangs together in cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from host_pieces import TestHost, apply_epoch, shard_to_restore, snapshot, spec_of

from perseid import Operator, state
from perseid.engine.host import Answered
from perseid.engine.messages import NotSaved, Saved
from perseid.host import garbage
from perseid.vocabulary import OperatorName, ShardId

NAME = OperatorName("rings")
FORKS = 16


class Ring:
    """Two objects that know each other: reference counts alone never let them go."""

    alive: ClassVar[int] = 0

    def __init__(self, weight: int) -> None:
        Ring.alive += 1
        self.other = [self, bytearray(weight)]

    def __del__(self) -> None:
        Ring.alive -= 1


class Rings(Operator):
    """Holds so many rings, all of them new in every epoch."""

    rings: Any = state(default_factory=list)

    def process(self, rows: pa.Table) -> None:
        count, weight = rows["count"][0].as_py(), rows["weight"][0].as_py()
        self.rings = [Ring(weight) for _ in range(count)]

    def get_checkpoint(self) -> Any:
        return len(self.rings)


@pytest.fixture
def collector() -> Iterator[None]:
    """As in a host: its own thresholds, under which the oldest generation is hardly ever looked at."""
    usual = gc.get_threshold()
    gc.set_threshold(50_000, 50, 100)
    yield
    gc.set_threshold(*usual)
    gc.unfreeze()
    gc.collect()


@pytest.mark.parametrize(("count", "weight"), [(10_000, 0), (20, 1_000_000)], ids=["many small", "few large"])
def test_dropped_cycles_are_collected_over_many_forks(
    count: int, weight: int, tmp_path: Path, collector: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "SLACK_BLOCKS", 5_000)  # a test's process is small
    monkeypatch.setattr(garbage, "SLACK_BYTES", 4 << 20)
    monkeypatch.setattr(garbage, "GROWTH", 1.05)  # and large, where other tests ran in it before
    monkeypatch.setattr(garbage, "URGENT_GROWTH", 1.1)
    spec = spec_of("rings", Rings(), "count", "int64", pa.schema([("k", pa.int64())]))
    host, shard = TestHost(tmp_path / "host", [spec]), ShardId(NAME, 0)
    host.restore(shard_to_restore(shard))
    most = 0
    for epoch in range(1, FORKS + 1):
        rows = pa.table({"count": [count], "weight": [weight]})
        assert isinstance(host.ask(apply_epoch(shard, epoch, release=epoch), rows), Answered)
        host.machine.handle(snapshot(shard, epoch, epoch))
        assert isinstance(host.next(Saved, NotSaved), Saved)
        most = max(most, Ring.alive)
    assert most <= FORKS * count // 2, f"{most} rings of {FORKS * count} were alive, {count} in use"
    del host
    gc.unfreeze()
    gc.collect()
