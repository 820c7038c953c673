"""The first epoch after a fork lets the child that writes the snapshot be done, for a moment; the epochs after it wait for nobody. A child
that stands still is ended."""

from __future__ import annotations

import queue
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from perseid import Operator, state
from perseid.host import snapshot_writer
from perseid.host.shards import HeldShard, OperatorSpec, Shards
from perseid.host.snapshot_writer import Snapshots
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, OperatorName


class Gate:
    """Can be pickled once its file is there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[type[Gate], tuple[Path]]:
        while not self.path.exists():
            time.sleep(0.01)
        return Gate, (self.path,)


class Holds(Operator):
    gate: Any = state(default=None)

    def process(self, rows: pa.Table) -> None: ...


def shard_with(gate: Gate, folder: Path) -> tuple[Store, HeldShard]:
    store, operator = Store.at(str(folder / "root")), OperatorName("holds")
    schema = pa.schema([("k", pa.int64())]).serialize().to_pybytes()
    spec = OperatorSpec(operator, Holds(), {"rows": ("k",)}, ("int64",), ("rows",), None, schema, retained=False)
    shards = Shards(store, None, folder, [spec])
    entry = {"operator": operator, "index": 0, "slots": [0, SLOTS], "epoch": 0, "parts": (), "homes": [], "upto": 0}
    (held,), _ = shards.restored({"version": 1, "retain_from": 1, "shards": [entry], "before": []})
    held.operator.gate = gate
    return store, held


def take(snapshots: Snapshots, held: HeldShard, checkpoint: int) -> None:
    entry = {"operator": "holds", "index": 0, "slots": [0, SLOTS], "path": f"checkpoints/{checkpoint}/holds-0.snapshot"}
    command = {"checkpoint": checkpoint, "unit": "main", "epoch": 0, "synchronous": False, "shards": [entry]}
    rest = snapshots.take(command, [held])
    assert rest is not None
    rest()


def test_a_child_that_stands_still_is_ended_and_one_that_runs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "_SILENCE_MS", 150)
    gate = Gate(tmp_path / "open")
    store, held = shard_with(gate, tmp_path)
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    snapshots = Snapshots(store, None, lambda kind, **fields: said.put({"kind": kind, **fields}))
    others = psutil.Process().children()  # of tests before
    take(snapshots, held, 1)
    assert said.get(timeout=60)["kind"] == "forked"
    time.sleep(1)
    assert said.empty(), "it waits, and looks again and again"
    (child,) = set(psutil.Process().children()) - set(others)
    child.suspend()
    failed = said.get(timeout=60)
    assert (failed["kind"], failed["checkpoint"]) == ("snapshot_failed", 1) and "hung" in failed["message"]
    gate.path.touch()
    take(snapshots, held, 2)
    assert [said.get(timeout=60)["kind"] for _ in range(2)] == ["forked", "written"]


def test_an_epoch_waits_once_and_not_for_ever_for_the_newest_child(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "open")
    store, held = shard_with(gate, tmp_path)
    said: queue.Queue[dict[str, Any]] = queue.Queue()
    snapshots = Snapshots(store, None, lambda kind, **fields: said.put({"kind": kind, **fields}))

    def taken(checkpoint: int) -> None:
        take(snapshots, held, checkpoint)
        assert said.get(timeout=60)["kind"] == "forked"

    snapshots.give_way()
    assert said.empty(), "there is nobody to wait for"
    taken(1)
    snapshots.give_way()
    waited = said.get(timeout=60)
    assert (waited["kind"], waited["checkpoint"]) == ("gave_way", 1)
    snapshots.give_way()
    assert said.empty(), "it has waited for this one"
    taken(2)
    taken(3)
    snapshots.give_way()
    waited = said.get(timeout=60)
    assert (waited["kind"], waited["checkpoint"]) == ("gave_way", 3)
    gate.path.touch()
    written = [said.get(timeout=60) for _ in range(3)]
    assert {(w["kind"], w["checkpoint"]) for w in written} == {("written", 1), ("written", 2), ("written", 3)}
