"""Between the controller and hosts: its commands as messages to a host, what a host says as events; and where hosts keep input.

A host that takes a shard over may read the input that earlier homes of the shard kept, if it can reach their folders: only on one machine.

Invariant: of a shard at most ``HOMES`` homes are remembered, the newest; a short cut needs no long memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from perseid.checkpoint.size_reports import SizeHalved, SizeTurned
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import messages as msg
from perseid.scaling.routing import Route
from perseid.vocabulary import CheckpointId, HostId, OperatorName, ShardId, UnitName

HOMES = 4


@dataclass(frozen=True, slots=True)
class Home:
    """A host: the machine it lives on, and its folder there."""

    host: HostId
    machine: str
    folder: str


class Homes:
    """All hosts that live, and the last homes of every shard, of which some may be dead."""

    def __init__(self) -> None:
        self._living: dict[HostId, Home] = {}
        self._of: dict[ShardId, list[Home]] = {}

    def came(self, home: Home) -> None:
        """A host has registered."""
        self._living[home.host] = home

    def gone(self, host: HostId) -> None:
        """It is given up, or let go."""
        self._living.pop(host, None)

    def restore(
        self,
        command: do.RestoreShards,
        unit_of: Callable[[OperatorName], UnitName],
        backup: Callable[[str], msg.Address | None],
    ) -> msg.Restore:
        """``backup`` says where another host is to be found that keeps a copy of a file."""
        shards = []
        for route, parts, epoch in command.shards:
            read = tuple([msg.PartToRead(p.snapshot, p.slots, backup(p.snapshot.path)) for p in parts])
            upto = command.upto.get(unit_of(route.shard.operator), epoch)
            homes = self._moved(route.shard, command.host)
            shards.append(msg.ShardToRestore(route.shard, route.slots, epoch, read, upto, homes))
        before = tuple([msg.ShardBefore(r.shard, r.slots, self._left(r.shard, command.host)) for r in command.before])
        return msg.Restore(command.version, command.retain_from, tuple(shards), before, command.beside)

    def catch_up(self, command: do.CatchUpShards) -> msg.CatchUp:
        """The shards before live, on hosts whose folders may be in reach."""
        shards = tuple([msg.ShardToCatchUp(route.shard, route.slots) for route in command.shards])
        before = tuple([msg.ShardBefore(r.shard, r.slots, self._folder(r.host, command.host)) for r in command.before])
        return msg.CatchUp(command.version, command.upto, shards, before)

    def _moved(self, shard: ShardId, host: HostId) -> tuple[str, ...]:
        """A shard comes to this host. Folders of its earlier homes on the same machine, the newest first."""
        home, before = self._living.get(host), self._of.setdefault(shard, [])
        if home is None:
            return ()
        self._of[shard] = [home, *(other for other in before if other.host != host)][:HOMES]
        return tuple([other.folder for other in before if other.machine == home.machine])

    def _left(self, shard: ShardId, host: HostId) -> str | None:
        """The folder of the last home of a shard that others take over from, if this host can read it."""
        home, before = self._living.get(host), self._of.get(shard)
        if home is None or not before or before[0].machine != home.machine:
            return None
        return before[0].folder

    def _folder(self, of: HostId | None, host: HostId) -> str | None:
        """The folder of one host, if another one can read it."""
        one, other = self._living.get(of) if of is not None else None, self._living.get(host)
        if one is None or other is None or one.machine != other.machine:
            return None
        return one.folder


def snapshot_message(command: do.TakeSnapshots, path: Callable[[CheckpointId, OperatorName, int], str]) -> msg.Snapshot:
    """``path`` says where under the root a shard's snapshot of a checkpoint lies."""

    def entry(route: Route) -> msg.ShardToSave:
        return msg.ShardToSave(route.shard, route.slots, path(command.checkpoint, *route.shard))

    shards = tuple([entry(route) for route in command.shards])
    return msg.Snapshot(command.checkpoint, command.unit, command.epoch, shards, command.synchronous)


def standby_message(
    command: do.SendCopy | do.AnswerShards | do.SuspendShards | do.StartHeart, addresses: Mapping[HostId, msg.Address]
) -> msg.ToHost | None:
    """What a host is told about second copies; None if the host that it is about is gone."""
    match command:
        case do.SendCopy(_, to, number, shards, full, back, answers):
            entries = tuple([msg.ShardToCopy(shard, consumed) for shard, consumed in shards.items()])
            address = addresses.get(to)
            return msg.SendCopy(number, entries, address, full, back, answers) if address is not None else None
        case do.AnswerShards(host, upto, both):
            mine = addresses.get(host)
            others = {a.machine: a for a in addresses.values() if mine is None or a.machine != mine.machine}
            return msg.AnswerShards(upto, tuple(others.values()), both)
        case do.SuspendShards(_, shards):
            return msg.SuspendShards(shards)
        case do.StartHeart(_, beat_ms):
            return msg.StartHeart(beat_ms)
        case _:
            assert_never(command)


def event_of(host: HostId, message: msg.FromHost) -> on.Event | None:
    """What a host said, if it is for the controller."""
    match message:
        case msg.Heartbeat():
            return on.HeartbeatArrived(host)
        case msg.Restored(version, reached, _, phases_ms):
            return on.ShardsRestored(host, version, phases_ms, reached)
        case msg.NotRestored(version, text, corrupt, storage):
            return on.RestoreFailed(host, version, text, corrupt, storage)
        case msg.CaughtUp(version, reached):
            return on.ShardsCaughtUp(host, version, reached)
        case msg.Forked(checkpoint, unit):
            return on.SnapshotsForked(host, checkpoint, unit)
        case msg.Saved(checkpoint, snapshot):
            shard = ShardId(OperatorName(snapshot.operator), snapshot.index)
            return on.SnapshotWritten(checkpoint, shard, snapshot)
        case msg.NotSaved(checkpoint, text):
            return on.CheckpointFailed(checkpoint, text, host)
        case msg.Sizes(query, sizes):
            return on.SizesReported(host, query, sizes)
        case SizeHalved() | SizeTurned():
            return message
        case msg.CopyTaken(number, epochs, size, ms, full):
            return on.CopyTaken(host, number, epochs, size, ms, full)
        case msg.CopyNotSent(number, text):
            return on.CopyNotTaken(number, text)
        case msg.CopyMissing(shards, text):
            return on.CopyMissing(host, shards, text)
        case msg.CopiesStand(epochs):
            return on.CopiesStand(host, epochs)
        case msg.AnswerDiffered(shard, epoch):
            return on.AnswerDiffered(host, shard, epoch)
        case msg.Report() | msg.LoadMeasured() | msg.GaveWay() | msg.BackedUp() | msg.Warned() | msg.Advised():
            return None  # for others beside the controller
        case _:
            assert_never(message)
