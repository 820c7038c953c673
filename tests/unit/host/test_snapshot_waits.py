"""The first epoch after a fork lets the child that writes the snapshot be done, for a moment; the epochs after it wait for nobody. A child
that stands still is ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from host_pieces import TestHost, shard_to_restore, snapshot, spec_of

from perseid import Operator, state
from perseid.engine.messages import Forked, GaveWay, NotSaved, Saved
from perseid.host import snapshot_writer
from perseid.vocabulary import OperatorName, ShardId


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


HOLDS = ShardId(OperatorName("holds"), 0)


def host_with(gate: Gate, folder: Path) -> TestHost:
    spec = spec_of("holds", Holds(), "k", "int64", pa.schema([("k", pa.int64())]))
    host = TestHost(folder / "host", [spec], folder / "root")
    host.restore(shard_to_restore(HOLDS))
    host.operator(HOLDS).gate = gate
    return host


def test_a_child_that_stands_still_is_ended_and_one_that_runs_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "_SILENCE_MS", 150)
    gate = Gate(tmp_path / "open")
    host = host_with(gate, tmp_path)
    others = psutil.Process().children()  # of tests before
    host.machine.handle(snapshot(HOLDS, 1, 0))
    assert isinstance(host.next(), Forked)
    time.sleep(1)
    assert host.said.empty(), "it waits, and looks again and again"
    (child,) = set(psutil.Process().children()) - set(others)
    child.suspend()
    failed = host.next()
    assert isinstance(failed, NotSaved) and failed.checkpoint == 1 and "hung" in failed.message
    gate.path.touch()
    host.machine.handle(snapshot(HOLDS, 2, 0))
    assert [type(host.next()) for _ in range(2)] == [Forked, Saved]


def test_an_epoch_waits_once_and_not_for_ever_for_the_newest_child(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "open")
    host = host_with(gate, tmp_path)

    def taken(checkpoint: int) -> None:
        host.machine.handle(snapshot(HOLDS, checkpoint, 0))
        assert isinstance(host.next(), Forked)

    host.effects.give_way()
    assert host.said.empty(), "there is nobody to wait for"
    taken(1)
    host.effects.give_way()
    waited = host.next()
    assert isinstance(waited, GaveWay) and waited.checkpoint == 1
    host.effects.give_way()
    assert host.said.empty(), "it has waited for this one"
    taken(2)
    taken(3)
    host.effects.give_way()
    waited = host.next()
    assert isinstance(waited, GaveWay) and waited.checkpoint == 3
    gate.path.touch()
    assert {host.next(Saved).checkpoint for _ in range(3)} == {1, 2, 3}
