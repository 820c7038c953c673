"""A snapshot of spilled state by a real fork: it is the state of that moment, whatever the parent does while the child writes."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid import Operator, state
from perseid.host.shards import OperatorSpec, Shards
from perseid.host.snapshot_writer import Snapshots
from perseid.state import Spilled
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, OperatorName, ShardId

O = OperatorName("hoard")  # noqa: E741
KEYS = 3_000


class Hoard(Operator):
    totals: Spilled[int, int] = state(spill="64 KB")
    texts: Spilled[int, list[str]] = state(spill="64 KB")

    def process(self, rows: pa.Table) -> None:
        keys = rows["k"].to_pylist()
        self.totals.put_many(keys, [n + 1 for n in self.totals.get_many(keys, 0)])
        for key in keys[::10]:
            self.texts.setdefault(key, []).append("x" * 50)


def host(path: Path) -> Shards:
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    spec = OperatorSpec(O, Hoard(), {"rows": ("k",)}, ("int64",), ("rows",), None, schema, retained=False)
    path.mkdir()
    return Shards(Store.at(str(path.parent / "root")), None, path, [spec])


def made(held: Shards, epoch: int = 0, parts: tuple[dict[str, Any], ...] = ()) -> Any:
    entry = {"operator": O, "index": 0, "slots": [0, SLOTS], "epoch": epoch, "parts": parts, "homes": [], "upto": epoch}
    helds, _ = held.restored({"version": 1, "retain_from": 1, "shards": [entry], "before": []})
    held.adopt(helds)
    return helds[0]


def apply(held: Shards, epoch: int) -> None:
    keys = [n * 7_919 % KEYS for n in range(epoch * 700, (epoch + 1) * 700)]
    request = {"operator": O, "shard": 0, "epoch": epoch, "version": 1, "recall": False, "wanted": True, "release": 0}
    request |= {"time_ms": epoch, "watermark_ms": None, "aside": None, "report": True}
    assert isinstance(held.answer(request, pa.table({"k": pa.array(keys, pa.int64())})), tuple)


def contents(shard: Any) -> dict[str, dict[int, Any]]:
    return {name: {k: list(v) if isinstance(v, list) else v for k, v in getattr(shard.operator, name).items()}
            for name in ("totals", "texts")}  # fmt: skip


def test_a_child_writes_the_state_of_its_fork_while_the_parent_goes_on(tmp_path: Path) -> None:
    held = host(tmp_path / "one")
    shard = made(held)
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    snapshots = Snapshots(held._store, None, lambda kind, **fields: said.put({"kind": kind, **fields}))
    epoch = 0
    for checkpoint in range(1, 6):
        for _ in range(3):
            epoch += 1
            apply(held, epoch)
        expected = contents(shard)
        entry = {"operator": O, "index": 0, "slots": [0, SLOTS], "path": f"checkpoints/{checkpoint}/hoard-0.snapshot"}
        command = {"checkpoint": checkpoint, "unit": "main", "epoch": epoch, "synchronous": False, "shards": [entry]}
        rest = snapshots.take(command, [shard])
        assert rest is not None
        rest()
        for _ in range(3):
            epoch += 1
            apply(held, epoch)
        written = said.get(timeout=60)
        while written["kind"] != "written":
            assert written["kind"] == "forked", written
            written = said.get(timeout=60)
        part = {"file": written["file"], "index": 0, "of": [0, SLOTS], "slots": [0, SLOTS]}
        again = made(host(tmp_path / f"restored-{checkpoint}"), epoch - 3, (part,))
        assert contents(again) == expected
        assert len(again.operator.totals) == len(expected["totals"])
    assert sum(contents(shard)["totals"].values()) == 700 * epoch
    assert held[ShardId(O, 0)] is shard
