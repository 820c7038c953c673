"""A host forks for every snapshot. What its operators drop is collected all the same, also when it hangs together in cycles."""

from __future__ import annotations

import gc
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from perseid import Operator, state
from perseid.host import garbage
from perseid.host.shards import OperatorSpec, Shards
from perseid.host.snapshot_writer import Snapshots
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, OperatorName

NAME = OperatorName("rings")
FORKS = 30


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
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    spec = OperatorSpec(NAME, Rings(), {"rows": ("count",)}, ("int64",), ("rows",), None, schema, retained=False)
    held = Shards(Store.at(str(tmp_path / "root")), None, tmp_path, [spec])
    entry = {"operator": NAME, "index": 0, "slots": [0, SLOTS], "epoch": 0, "parts": (), "homes": [], "upto": 0}
    (shard,), _ = held.restored({"version": 1, "retain_from": 1, "shards": [entry], "before": []})
    held.adopt([shard])
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    snapshots = Snapshots(held._store, None, lambda kind, **fields: said.put({"kind": kind, **fields}))
    most = 0
    for epoch in range(1, FORKS + 1):
        request = {"operator": NAME, "shard": 0, "epoch": epoch, "version": 1, "recall": False, "wanted": True}
        request |= {"release": epoch, "time_ms": epoch, "at_ms": epoch, "watermark_ms": None, "aside": False}
        rows = pa.table({"count": [count], "weight": [weight]})
        assert isinstance(held.answer({**request, "report": True}, rows), tuple)
        slots = {"operator": NAME, "index": 0, "slots": [0, SLOTS], "path": f"checkpoints/{epoch}/rings.snapshot"}
        command = {"checkpoint": epoch, "unit": "main", "epoch": epoch, "synchronous": False, "shards": [slots]}
        rest = snapshots.take(command, [shard])
        assert rest is not None
        rest()
        while (told := said.get(timeout=60))["kind"] != "written":
            assert told["kind"] == "forked", told
        most = max(most, Ring.alive)
    assert most <= FORKS * count // 2, f"{most} rings of {FORKS * count} were alive, {count} in use"
    del shard, held, snapshots
    gc.unfreeze()
    gc.collect()
