"""A host's machine with its real effects, and what it tells the driver."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid.engine import messages as msg
from perseid.engine.host import Answered, HostMachine
from perseid.engine.hosted_shard import HostedShard
from perseid.engine.shard import Refusal
from perseid.host.answers import Answer
from perseid.host.apply import OperatorSpec
from perseid.host.effects import HostEffects, LiveShard
from perseid.storage.store import Store
from perseid.vocabulary import SLOTS, CheckpointId, Epoch, OperatorName, ShardId, SlotRange, UnitName, Version

Machine = HostMachine[LiveShard, pa.Table, Answer]


class TestHost:
    """One host of a test, in its folder."""

    __test__ = False

    def __init__(self, folder: Path, specs: Iterable[OperatorSpec], root: Path | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.said: queue.Queue[Any] = queue.Queue()
        self.store = Store.at(str(root if root is not None else folder / "root"))
        self.effects = HostEffects(self.store, None, folder, specs, self.said.put)
        self.machine: Machine = HostMachine(self.effects, self.effects.retaining)

    def held(self, shard: ShardId) -> HostedShard[LiveShard, Answer]:
        return self.machine.shards[shard]

    def operator(self, shard: ShardId) -> Any:
        return self.held(shard).live.operator

    def told(self) -> list[Any]:
        """What it has said since the last look."""
        found = []
        while not self.said.empty():
            found.append(self.said.get())
        return found

    def restore(self, *shards: msg.ShardToRestore, version: int = 1, retain_from: int = 1,
                before: tuple[msg.ShardBefore, ...] = ()) -> msg.Restored:  # fmt: skip
        self.told()
        self.machine.handle(msg.Restore(Version(version), Epoch(retain_from), shards, before))
        (restored,) = [m for m in self.told() if not isinstance(m, msg.Report)]
        assert isinstance(restored, msg.Restored), restored
        return restored

    def ask(self, request: msg.ApplyEpoch, rows: pa.Table) -> Answered[LiveShard, Answer] | Refusal:
        return self.machine.ask(request, rows)

    def next(self, *kinds: type) -> Any:
        """The next message, of one of these kinds if any are named."""
        while True:
            message = self.said.get(timeout=60)
            if not kinds or isinstance(message, kinds):
                return message


def shard_to_restore(shard: ShardId, slots: SlotRange = (0, SLOTS), epoch: int = 0,
                     parts: tuple[msg.PartToRead, ...] = (), upto: int | None = None,
                     homes: tuple[str, ...] = ()) -> msg.ShardToRestore:  # fmt: skip
    return msg.ShardToRestore(shard, slots, Epoch(epoch), parts, Epoch(epoch if upto is None else upto), homes)


def apply_epoch(shard: ShardId, epoch: int, **more: Any) -> msg.ApplyEpoch:
    given = {"version": 1, "release": 0, "time_ms": epoch, **more}
    return msg.ApplyEpoch(shard, Epoch(epoch), **given)


def snapshot(shard: ShardId, checkpoint: int, epoch: int) -> msg.Snapshot:
    path = f"checkpoints/{checkpoint}/{shard.operator}-{shard.index}.snapshot"
    shards = (msg.ShardToSave(shard, (0, SLOTS), path),)
    return msg.Snapshot(CheckpointId(checkpoint), UnitName("main"), Epoch(epoch), shards, synchronous=False)


def spec_of(name: str, operator: Any, key: str, key_type: str, schema: pa.Schema, **more: Any) -> OperatorSpec:
    output = schema.serialize().to_pybytes()
    return OperatorSpec(
        OperatorName(name),
        operator,
        {"rows": (key,)},
        (key_type,),
        ("rows",),
        None,
        output,
        more.get("retained", False),
    )
