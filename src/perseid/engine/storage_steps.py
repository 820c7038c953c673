"""What the controller wants of storage, step by step: in which order things are written, and what a failure means.

Invariant: what a manifest covers is durable before the manifest is, the commits of its epochs included; a checkpoint is deleted before
anything that only it needed is trimmed. So after a crash between any two steps the root has more than it needs, never less.

The shell calls ``carry_out`` with one command after the other, in their order, and ``failed`` when that raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, assert_never

from perseid.checkpoint.lifecycle import CompletedCheckpoint, PendingCheckpoint
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.graph.topology import Topology
from perseid.storage import layout
from perseid.storage.records import Admitted, Partitioned, Record
from perseid.vocabulary import CheckpointId, Epoch, Offset, OperatorName, SourceName, StreamName


class Checkpoints(Protocol):
    """The checkpoints of a root. Raises ``Fenced`` if another driver has taken over."""

    def check(self) -> None:
        """Is the root still ours?"""

    def commit(
        self, done: CompletedCheckpoint, event_times_ms: Mapping[OperatorName, int], command: do.CommitCheckpoint
    ) -> None:
        """Write the manifest: from now on it is a checkpoint."""

    def delete(self, checkpoint: CheckpointId) -> None:
        """The manifest first, then what it names."""


class Ledger(Protocol):
    """What is read and written of the ledger beside admissions and commits."""

    def admitted(self, epoch: Epoch, /) -> Admitted | None: ...
    def event_times_ms(self, epoch: Epoch, /) -> Mapping[OperatorName, int]: ...
    def append(self, *records: Record) -> None: ...
    def trim(self, epoch: Epoch, /) -> None: ...


class Streams(Protocol):
    """The streams between units (``StreamStore``)."""

    def save(self, stream: StreamName, epoch: Epoch, path: str, /) -> int: ...
    def trim(self, stream: StreamName, epoch: Epoch, /) -> None: ...


class Hosts(Protocol):
    """What hosts are told of checkpoints."""

    def covered(self, cuts: Mapping[OperatorName, Epoch]) -> None:
        """A checkpoint is committed: they let go of the input they keep, up to these epochs."""

    def back_up(self, done: CompletedCheckpoint) -> None:
        """And keep copies of its snapshots."""

    def forget(self, folders: Iterable[str]) -> None:
        """These checkpoints are deleted: their copies may go."""


class StorageSteps:
    """Carries out, in order, what the controller wants of storage."""

    def __init__(
        self,
        topology: Topology,
        checkpoints: Checkpoints,
        ledger: Ledger,
        streams: Streams,
        hosts: Hosts,
        write_commits: Callable[[], None],
        trim_source: Callable[[SourceName, Offset], None],
        post: Callable[[on.Event], None],
        saved: Callable[[do.SaveInflight, int], None] = lambda command, size: None,
    ) -> None:
        self._topology, self._checkpoints, self._ledger = topology, checkpoints, ledger
        self._streams, self._hosts, self._write_commits = streams, hosts, write_commits
        self._trim_source, self._post, self._saved = trim_source, post, saved

    def carry_out(self, command: do.StorageCommand) -> None:
        """Do it, and tell the controller. Whatever it raises goes to ``failed``."""
        match command:
            case do.SaveInflight(checkpoint, stream, epoch):
                path = layout.inflight(checkpoint, stream, epoch)
                self._saved(command, self._streams.save(stream, epoch, path))
                self._post(on.InflightSaved(checkpoint, stream, epoch, path))
            case do.CommitCheckpoint():
                self._commit(command)
            case do.WritePartition(operator, declared, shards, version):
                self._ledger.append(Partitioned(operator, declared, shards))
                self._post(on.PartitionWritten(operator, version))
            case do.AbortCheckpoint(checkpoint):
                self._checkpoints.delete(checkpoint)
                self._hosts.forget([layout.checkpoint(checkpoint)])
            case do.Trim(delete, oldest):
                self._trim(delete, oldest)
            case _:
                assert_never(command)

    def failed(self, command: do.StorageCommand, error: str) -> bool:
        """Tell the controller that it could not be done. False: there is nothing to tell, the root has more than it needs."""
        match command:
            case do.SaveInflight(checkpoint) | do.CommitCheckpoint(PendingCheckpoint(id=checkpoint)):
                self._post(on.CheckpointFailed(checkpoint, error))
            case do.WritePartition(operator, _, _, version):
                self._post(on.PartitionWritten(operator, version, error))
            case do.AbortCheckpoint() | do.Trim():
                return False
            case _:
                assert_never(command)
        return True

    def _commit(self, command: do.CommitCheckpoint) -> None:
        pending = command.pending
        self._checkpoints.check()
        self._write_commits()  # first: after a crash in between nobody would commit these epochs any more
        done = CompletedCheckpoint(pending.id, dict(pending.cuts), dict(pending.saved), dict(pending.inflight))
        event_times_ms = self._ledger.event_times_ms(min(pending.cuts.values()))
        self._checkpoints.commit(done, event_times_ms, command)
        covered = {**pending.cuts, **command.covered}
        cuts = {o: epoch for unit, epoch in covered.items() for o in self._topology.unit(unit).operators}
        self._hosts.covered(cuts)
        self._post(on.CheckpointCommitted(pending.id))
        self._hosts.back_up(done)

    def _trim(self, delete: tuple[CheckpointId, ...], oldest: CompletedCheckpoint) -> None:
        for checkpoint in delete:
            self._checkpoints.delete(checkpoint)
        if delete:
            self._hosts.forget([layout.checkpoint(checkpoint) for checkpoint in delete])
        for unit in self._topology.units:
            first = self._ledger.admitted(Epoch(oldest.cuts[unit.name] + 1))
            for source in unit.sources if first is not None else ():
                assert first is not None
                self._trim_source(source, first.slice_of(source)[0])
        upto: dict[StreamName, Epoch] = {}
        for stream in self._topology.streams:
            if stream.durable:  # as far as the slowest of its consumers needs it
                cut = oldest.cuts[stream.consumer]
                upto[stream.name] = min(cut, upto.get(stream.name, cut))
        for name, epoch in upto.items():
            self._streams.trim(name, epoch)
        self._ledger.trim(Epoch(min(oldest.cuts.values())))
