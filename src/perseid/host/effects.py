"""What a host does to the world for its machine (``engine.host``): operators in memory, snapshots, kept input and answers on disk."""

from __future__ import annotations

import contextlib
import gc
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from perseid.channel.connection import Connection
from perseid.channel.kept_rows import KeptRows
from perseid.channel.rows import split_inputs, within
from perseid.engine.host_effects import Captured, Done, Finished, Loaded, Raised, Received, Untouched
from perseid.engine.messages import (
    Address,
    ApplyEpoch,
    BackedUp,
    CopyShards,
    FromHost,
    KeepBackup,
    Report,
    Restore,
    SendCopy,
    ShardLoad,
    Snapshot,
)
from perseid.errors import ChannelError, OperatorMistake, StorageFailed
from perseid.host.answers import Answer, Spill
from perseid.host.apply import Applied, Inputs, OperatorSpec, apply_epoch
from perseid.host.backups import KeptBackups
from perseid.host.copies import CopySender, Image, fetch_rows, image_of, receive_images, table_of
from perseid.host.input_log import InputFiles
from perseid.host.key_load import KeyLoad
from perseid.host.low_priority import at_low_priority
from perseid.host.phases import Phases, since
from perseid.host.restore import read_shards
from perseid.host.snapshot_writer import SnapshotWriter
from perseid.operators.operator import Operator
from perseid.state.buffer import partition_buffer_state
from perseid.state.changes import Sent
from perseid.state.changes import apply as apply_changes
from perseid.state.shard_state import ShardState, restore_state
from perseid.state.size_estimate import SizeEstimate
from perseid.state.undeclared import UndeclaredState
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange


@dataclass(slots=True)
class LiveShard:
    """A shard's operator, and what is measured of it."""

    shard: ShardId
    operator: Operator
    spec: OperatorSpec
    schema: pa.Schema
    size: SizeEstimate
    load: KeyLoad
    busy_s: float = 0.0  # at its epochs, since the last report of its load
    worked_s: float = 0.0  # on epochs since it was restored
    begun: tuple[float, float] = (0.0, 0.0)  # its last epoch: by the clock, and of this thread's own time
    last: tuple[Applied, Inputs] | None = None  # what came of it, until it is reported


class HostEffects:
    """Of one host."""

    def __init__(
        self,
        store: Store,
        copies: Path | None,
        folder: Path,
        specs: Iterable[OperatorSpec],
        send: Callable[[FromHost], None],
        backups: KeptBackups | None = None,
        stop: Callable[[bool], None] = lambda for_good: None,
        secret: bytes = b"",
        beat: Callable[[int], None] = lambda beat_ms: None,
    ) -> None:
        self._store, self._copies, self._send, self._backups, self._stop = store, copies, send, backups, stop
        self._specs = {spec.name: spec for spec in specs}
        self.retaining = frozenset(spec.name for spec in self._specs.values() if spec.retained)
        self._spill = Spill(folder / "spill")
        self._input = InputFiles(folder / "input")
        self._writer = SnapshotWriter(store, copies, send)
        self._secret, self._beat = secret, beat
        self._sender = CopySender(secret, send)
        self.rows = KeptRows(secret)
        self._gone = False  # has state been let go since garbage was last collected?
        self._said: dict[OperatorName, set[str]] = {}  # fields whose size is not known, by operator
        self._undeclared: dict[OperatorName, UndeclaredState] = {}

    def send(self, message: FromHost) -> None:
        self._send(message)

    def now_ms(self) -> int:
        return round(time.monotonic() * 1000)

    def unexpected(self, error: Exception) -> str:
        return "".join(traceback.format_exception(error, limit=8))

    def stop(self, for_good: bool) -> None:
        self._stop(for_good)

    # -- state ----------------------------------------------------------------------------------------------------

    def slowly(self, work: Callable[[], None], *, low_priority: bool) -> None:
        at_low_priority(work) if low_priority else work()

    def load(self, restore: Restore) -> Loaded[LiveShard]:
        phases = Phases()
        fetch = self._backups.fetch if self._backups is not None else None
        states = read_shards(self._store, self._copies, restore.shards, self._specs, phases, fetch)
        live = {}
        for entry in restore.shards:
            live[entry.shard] = self._live(entry.shard, states.pop(entry.shard, None))
        return Loaded(live, phases.ms, phases.copies)

    def _live(self, shard: ShardId, state: ShardState | None) -> LiveShard:
        spec = self._specs[shard.operator]
        if spec.name not in self._undeclared:
            self._undeclared[spec.name] = UndeclaredState(spec.name, spec.prototype)
        operator = restore_state(spec.prototype, state)
        schema = pa.ipc.read_schema(pa.py_buffer(spec.output))
        size = SizeEstimate(spec.name, operator, told=self._said.setdefault(spec.name, set()))
        return LiveShard(shard, operator, spec, schema, size, KeyLoad(spec.inputs, spec.key, spec.key_types))

    def settle(self, shards: Sequence[LiveShard]) -> list[int]:
        sizes = [shard.size.now() for shard in shards]
        if self._gone:  # what is frozen is never collected; but to look through it holds up shards that are at work
            gc.unfreeze()
            self._gone = False
        gc.collect()
        gc.freeze()
        return sizes

    def let_go(self, shard: LiveShard) -> None:
        self._gone = True

    def save(self, command: Snapshot, shards: Sequence[LiveShard]) -> Callable[[], None]:
        return self._writer.take(command, [shard.operator for shard in shards])

    def give_way(self) -> None:
        self._writer.give_way()

    # -- epochs ---------------------------------------------------------------------------------------------------

    def apply(self, shard: LiveShard, request: ApplyEpoch, rows: pa.Table) -> Done[Answer] | Raised | Untouched:
        shard.begun = time.monotonic(), time.thread_time()
        inputs = split_inputs(rows, shard.spec.inputs)
        try:
            applied = apply_epoch(self._store, shard.operator, shard.spec, shard.schema, request, inputs)
        except StorageFailed as error:
            return Untouched(str(error))
        except Exception as error:
            trace = "".join(traceback.format_exception(error.__cause__ or error)[-6:])
            return Raised(f"{error}\n{trace}", mistake=isinstance(error, OperatorMistake))
        shard.last = applied, inputs
        advice = self._undeclared[shard.spec.name].after_epoch(shard.operator) if rows.num_rows else ()
        return Done(self._spill.keep(applied.output, shard.shard, request.epoch), tuple(advice))

    def finish(self, shard: LiveShard, request: ApplyEpoch, rows: pa.Table) -> Finished:
        assert shard.last is not None
        (applied, inputs), shard.last = shard.last, None
        begun, worked_s = shard.begun
        size = shard.size.after_epoch(time.monotonic() - begun)
        warnings = shard.size.warnings() if size is not None and request.at_ms is not None else ()
        shard.load.came(rows, begun)
        shard.busy_s += time.thread_time() - worked_s
        shard.worked_s += time.monotonic() - begun
        context = applied.context
        report = Report(
            shard=shard.shard,
            epoch=request.epoch,
            rows_in=sum(t.num_rows for t in inputs.values()) - applied.rows_aside,
            rows_out=applied.output.num_rows,
            late_rows=context.late_rows,
            event_times_ms=context.max_event_time_ms,
            next_timer_ms=context.timers.next_ms("processing"),
            next_event_timer_ms=context.timers.next_ms("event"),
            state_bytes=shard.size.bytes,
            dead_letters=applied.rows_aside,
            timers_aside=applied.timers_aside,
            dead_letter_error=applied.error,
            ms=since(begun),
            worked_ms=shard.worked_s * 1000,
            sizing_ms=shard.size.spent_s * 1000,
        )
        return Finished(report, size, tuple(warnings))

    def forget_answers(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            self._spill.forget(answer)

    def shrink(self, answers: dict[Epoch, Answer]) -> Epoch | None:
        return self._spill.shrink(answers)

    def table(self, shard: LiveShard, answer: Answer | None) -> pa.Table:
        """The rows of an answer; none where nobody looks at it."""
        return shard.schema.empty_table() if answer is None else self._spill.table(answer)

    def loads(self, shards: Iterable[LiveShard]) -> tuple[ShardLoad, ...]:
        """What each shard had to do since it was asked last, and what it saw of its keys."""
        said = []
        for shard in shards:
            rows, slots, hot = shard.load.report()
            said.append(ShardLoad(shard.shard, round(shard.busy_s * 1000), slots, hot, rows))
            shard.busy_s = 0.0
        return tuple(said)

    # -- kept input -----------------------------------------------------------------------------------------------

    def take_over_input(self, shard: ShardId, homes: Sequence[str]) -> Mapping[Epoch, int]:
        return self._input.take_over(shard, [_input_of(home) for home in homes])

    def write_input(self, request: ApplyEpoch, rows: pa.Table) -> int | None:
        return self._input.write(request, rows)

    def read_input(self, folder: str | None, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, pa.Table] | None:
        files = self._input if folder is None else InputFiles(_input_of(folder))
        return files.read(shard, epoch)

    def delete_input(self, shard: ShardId, epochs: Sequence[Epoch]) -> None:
        self._input.delete(shard, epochs)

    def forget_input(self, shard: ShardId) -> None:
        self._input.forget(shard)

    def divide(self, shard: LiveShard, kept: Mapping[int, tuple[SlotRange, pa.Table]], slots: SlotRange) -> pa.Table:
        epoch, index, spec = Epoch(0), shard.shard.index, shard.spec

        def picked(rows: pa.Table, slots: SlotRange) -> pa.Table:
            return within(rows, spec.inputs, spec.key, spec.key_types, slots)

        rows = {number: {epoch: table} for number, (_, table) in kept.items()}
        before = {number: mine for number, (mine, _) in kept.items()}
        return partition_buffer_state(rows, before, {index: slots}, picked)[index][epoch]

    # -- second copies --------------------------------------------------------------------------------------------

    def capture(self, shard: LiveShard, answers: Mapping[Epoch, Answer], before: object) -> tuple[Image, Sent | None]:
        tables = {epoch: self._spill.table(answer) for epoch, answer in answers.items()}
        return image_of(shard.operator, tables, before if isinstance(before, Sent) else None)

    def change(self, shard: LiveShard, changes: object) -> None:
        assert isinstance(changes, dict)
        apply_changes(shard.operator, changes)

    def send_copy(self, command: SendCopy, shards: Sequence[Captured]) -> None:
        self._sender.send(command, shards)

    def receive_copy(
        self, connection: Connection, message: CopyShards
    ) -> tuple[list[Received[LiveShard, Answer]], int]:
        """What another host sends, and its bytes. Nobody knows these shards yet."""
        images, size = receive_images(connection, message)
        received: list[Received[LiveShard, Answer]] = []
        for entry, (state, image) in zip(message.shards, images, strict=True):
            whole = entry.since is None
            live = self._live(entry.shard, ShardState(state, entry.epoch, entry.slots)) if whole else None
            keep = self._spill.keep
            answers = {epoch: keep(table_of(data), entry.shard, epoch) for epoch, data in image.answers.items()}
            received.append(Received(entry, live, state, answers))
        return received, size

    def read_rows(self, shard: ShardId, epoch: Epoch, peers: Sequence[Address]) -> tuple[ApplyEpoch, pa.Table] | None:
        found = self.rows.read(shard, epoch)
        path = self.rows.path(shard, epoch)
        for peer in peers if found is None else ():
            if fetch_rows(peer, self._secret, shard, epoch, lambda connection: self.rows.receive(connection, path)):
                found = self.rows.read(shard, epoch)
                if found is not None:
                    break
        return found

    def forget_rows(self, upto: Mapping[ShardId, Epoch]) -> None:
        self.rows.forget(upto)

    def start_heart(self, beat_ms: int) -> None:
        self.rows.sweep()  # whoever has a heart may have second copies
        self._beat(beat_ms)

    # -- backups --------------------------------------------------------------------------------------------------

    def keep_backup(self, command: KeepBackup) -> None:
        if self._backups is not None:
            threading.Thread(target=self._back_up, args=(command, self._backups), daemon=True).start()

    def _back_up(self, command: KeepBackup, backups: KeptBackups) -> None:
        size = backups.keep(command.source, command.path)
        if size is not None:
            with contextlib.suppress(ChannelError):
                self._send(BackedUp(command.path, size))

    def forget_backups(self, paths: Sequence[str]) -> None:
        if self._backups is not None:
            self._backups.forget(paths)

    def forget_copies(self, paths: Sequence[str]) -> None:
        if self._copies is not None:
            for path in paths:
                shutil.rmtree(self._copies / path, ignore_errors=True)


def _input_of(folder: str) -> Path:
    return Path(folder) / "input"
