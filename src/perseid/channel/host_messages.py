"""What the driver and its hosts say to each other about shards, as messages on the control connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perseid.channel.size_messages import read_report
from perseid.checkpoint.lifecycle import SnapshotPart
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.scaling.routing import Route
from perseid.storage import layout
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import CheckpointId, Epoch, HostId, OperatorName, ShardId, UnitName

Message = dict[str, Any]


def restore_message(
    command: do.RestoreShards,
    unit_of: Callable[[OperatorName], UnitName],
    homes: Callable[[ShardId], list[str]],
    left: Callable[[ShardId], str | None],
    backup: Callable[[str], Message | None],
) -> Message:
    """``homes`` are folders on the host's machine where earlier homes of a shard kept its input, ``left`` that of one that is no more;
    ``backup`` is where another host is to be found that keeps a copy of a snapshot."""
    shards = [
        {
            **_route(route),
            "parts": [_part(part, backup) for part in parts],
            "epoch": epoch,
            "upto": command.upto.get(unit_of(route.shard.operator), epoch),
            "homes": homes(route.shard),
        }
        for route, parts, epoch in command.shards
    ]
    return {
        "kind": "restore",
        "version": command.version,
        "retain_from": command.retain_from,
        "shards": shards,
        "before": [{**_route(route), "folder": left(route.shard)} for route in command.before],
        "beside": command.beside,
    }


def _route(route: Route) -> Message:
    return {"operator": route.shard.operator, "index": route.shard.index, "slots": list(route.slots)}


def _part(part: SnapshotPart, backup: Callable[[str], Message | None]) -> Message:
    snapshot = part.snapshot
    assert isinstance(snapshot, ShardSnapshot)
    file = {"path": snapshot.file.path, "bytes": snapshot.file.bytes, "digest": snapshot.file.digest}
    ranges = {"of": list(snapshot.slots), "slots": list(part.slots)}
    return {"file": file, "index": snapshot.index, **ranges, "backup": backup(snapshot.file.path)}


def catch_up_message(command: do.CatchUpShards, folder: Callable[[HostId | None], str | None]) -> Message:
    """``folder`` is that of a host, if it lies on the machine of the host that is told."""
    return {
        "kind": "catch_up",
        "version": command.version,
        "upto": command.upto,
        "shards": [_route(route) for route in command.shards],
        "before": [{**_route(route), "folder": folder(route.host)} for route in command.before],
    }


def drop_message(command: do.DropShards) -> Message:
    return {"kind": "drop", "shards": [list(shard) for shard in command.shards]}


def snapshot_message(command: do.TakeSnapshots) -> Message:
    def entry(route: Route) -> Message:
        operator, index = route.shard
        path = layout.snapshot(command.checkpoint, operator, index)
        return {"operator": operator, "index": index, "slots": list(route.slots), "path": path}

    return {
        "kind": "snapshot",
        "checkpoint": command.checkpoint,
        "unit": command.unit,
        "epoch": command.epoch,
        "synchronous": command.synchronous,
        "shards": [entry(route) for route in command.shards],
    }


def read_event(host: HostId, message: Mapping[str, Any]) -> on.Event | None:
    """What a host said, if it is for the controller."""
    match message["kind"]:
        case "restored":
            return on.ShardsRestored(host, message["version"], message["phases"], _reached(message))
        case "restore_failed":
            corrupt, storage = message["corrupt"], message["storage"]
            return on.RestoreFailed(host, message["version"], message["message"], corrupt, storage)
        case "caught_up":
            return on.ShardsCaughtUp(host, message["version"], _reached(message))
        case "forked":
            return on.SnapshotsForked(host, CheckpointId(message["checkpoint"]), UnitName(message["unit"]))
        case "written":
            shard = _shard(message["shard"])
            saved = ShardSnapshot(
                shard.operator,
                shard.index,
                (message["slots"][0], message["slots"][1]),
                Epoch(message["epoch"]),
                SnapshotFile(**message["file"]),
                message["state_bytes"],
            )
            return on.SnapshotWritten(CheckpointId(message["checkpoint"]), shard, saved)
        case "snapshot_failed":
            return on.CheckpointFailed(CheckpointId(message["checkpoint"]), message["message"], host)
        case "sizes" | "halved" | "turned":
            return read_report(host, message)
    return None


def _reached(message: Mapping[str, Any]) -> dict[ShardId, Epoch]:
    return {_shard(entry): Epoch(entry[2]) for entry in message["reached"]}


def _shard(name: list[Any]) -> ShardId:
    return ShardId(OperatorName(name[0]), name[1])
