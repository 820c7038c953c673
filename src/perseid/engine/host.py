"""The machine of a host: what every message to it does to its shards, and what it tells the driver and tasks.

It holds shards, applies epochs to them in order and once (``ShardLog``), keeps their answers and their input, restores, catches up, saves
and drops them when told. All that touches the world is behind ``Effects``: a host's own (``host.effects``), and the simulation's.

Threads of a real host call it together; what must happen alone happens under the lock that it was given. Restored shards are made without
it: nobody knows them yet.

Invariant: a shard that is not held, or is being restored, answers nobody. A shard is adopted only when it stands where the command and kept
input have brought it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, assert_never

from perseid.checkpoint.size_reports import AskSizes, Quieten
from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine.copies import Copies
from perseid.engine.host_effects import Answer, Effects, Live, Raised, Received, Rows, Untouched
from perseid.engine.hosted_shard import HostedShard
from perseid.engine.messages import (
    Address,
    Advised,
    AnswerShards,
    ApplyEpoch,
    CatchUp,
    CaughtUp,
    CopiesStand,
    CopyMissing,
    CopyShards,
    CopyTaken,
    Covered,
    Drop,
    ForgetCheckpoints,
    ForgetRows,
    KeepBackup,
    NotRestored,
    NotSaved,
    RecallAnswer,
    ReleaseBackup,
    Request,
    Restore,
    Restored,
    SendCopy,
    ShardBefore,
    ShardToRestore,
    Sizes,
    Snapshot,
    StartHeart,
    Stop,
    SuspendShards,
    ToHost,
    Warned,
)
from perseid.engine.shard import Refusal, ShardLog
from perseid.errors import CorruptData, PerseidError, StorageFailed
from perseid.state.buffer import replay_buffer_state
from perseid.vocabulary import Epoch, OperatorName, ShardId, SlotRange

NO_ROOM = (
    "its machine's disk has no room for all answers since the last checkpoint (1 GiB for each shard), and the oldest were let go;"
    " a host lost below this operator now takes the whole application back to the checkpoint: checkpoint more often"
)


@dataclass(frozen=True, slots=True)
class Answered(Generic[Live, Answer]):
    """What a task gets: the answer to its epoch, or nothing where nobody looks at it."""

    live: Live
    answer: Answer | None


class HostMachine(Generic[Live, Rows, Answer]):
    """One host."""

    def __init__(
        self,
        effects: Effects[Live, Rows, Answer],
        retaining: frozenset[OperatorName],
        *,
        keep_input: bool = True,
        alone: AbstractContextManager[Any] | None = None,
        shard_log: type[ShardLog[Answer]] = ShardLog,
    ) -> None:
        """``retaining``: operators whose answers are kept until a checkpoint covers them."""
        self._effects, self._retaining, self._keep_input, self._log = effects, retaining, keep_input, shard_log
        self._alone = alone if alone is not None else contextlib.nullcontext()
        self.shards: dict[ShardId, HostedShard[Live, Answer]] = {}
        self.copies = Copies(self.shards, effects, shard_log)
        self._peers: tuple[Address, ...] = ()
        self._told_stands: dict[ShardId, Epoch] = {}

    # -- messages of the driver -----------------------------------------------------------------------------------

    def handle(self, message: ToHost) -> None:
        """One after the other, in the order in which they were sent."""
        match message:
            case Restore():
                with self._alone:  # from here on nobody reaches them, until they are what they should be
                    for entry in message.shards:
                        self._vacate(entry.shard)
                low_priority = message.beside and not self.shards
                self._effects.slowly(lambda: self._restore(message), low_priority=low_priority)
            case CatchUp():
                self._catch_up(message)
            case Drop(shards):
                with self._alone:
                    for shard in shards:
                        self._drop(shard)
            case Snapshot():
                self._save(message)
            case Covered(cuts):
                with self._alone:
                    for shard, held in self.shards.items():
                        gone = held.kept.covered(cuts.get(shard.operator, Epoch(0)))
                        if gone:
                            self._effects.delete_input(shard, gone)
            case AskSizes():
                self._answer_sizes(message)
            case Quieten(anew):
                with self._alone:
                    for held in self.shards.values():
                        held.watch.quieten(anew)
            case KeepBackup():
                self._effects.keep_backup(message)
            case ReleaseBackup(path):
                self._effects.forget_backups([path])
            case ForgetCheckpoints(paths):
                self._effects.forget_backups(paths)
                self._effects.forget_copies(paths)
            case SendCopy():
                with self._alone:
                    captured = self.copies.captured(message)
                if captured:
                    self._effects.send_copy(message, captured)
            case AnswerShards(upto, peers, both):
                self._answer_from_now_on(upto, peers, both=both)
            case SuspendShards(shards):
                with self._alone:
                    self.copies.suspend(shards)
            case ForgetRows(upto):
                self._effects.forget_rows(upto)
            case StartHeart(beat_ms):
                self._effects.start_heart(beat_ms)
            case Stop(for_good):
                self._effects.stop(for_good)
            case _:
                assert_never(message)

    def _vacate(self, shard: ShardId) -> HostedShard[Live, Answer] | None:
        held = self.shards.pop(shard, None) or self.copies.pop(shard)
        if held is not None:
            self._effects.let_go(held.live)
        return held

    def _drop(self, shard: ShardId) -> None:
        held = self._vacate(shard)
        if held is not None:
            self._effects.forget_input(shard)
            self._effects.forget_answers(held.log.answers.values())

    def _answer_sizes(self, ask: AskSizes) -> None:
        with self._alone:
            mine = [held for shard, held in self.shards.items() if ask.shards is None or shard in ask.shards]
            sizes = tuple([held.watch.answer(ask) for held in mine])
        if sizes:
            self._effects.send(Sizes(ask.query, sizes))

    # -- second copies --------------------------------------------------------------------------------------------

    def take_copy(self, message: CopyShards, received: Sequence[Received[Live, Answer]], size: int, ms: int) -> str:
        """Another host sent the state of shards. Returns why nothing was taken, if so."""
        with self._alone:
            refusal = self.copies.take(message, received)
        if not refusal:
            epochs = {one.entry.shard: one.entry.epoch for one in received}
            self._effects.send(CopyTaken(message.number, epochs, size, ms, message.full))
        return refusal

    def _answer_from_now_on(self, upto: Mapping[ShardId, Epoch], peers: tuple[Address, ...], *, both: bool) -> None:
        """Copies become shards, as soon as they have made up what they lack."""
        with self._alone:
            self._peers = peers
            helds = self.copies.answer(upto, both=both)
            for held in helds:
                self._make_up(held, upto[held.log.shard])
            behind = [held for held in helds if held.log.applied < upto[held.log.shard]]
            gone = upto.keys() - {held.log.shard for held in helds}
        self._tell_reports(helds)
        self._effects.send(CopiesStand({held.log.shard: held.log.applied for held in helds}))
        if gone or behind:
            lacks = [f"{h.log.shard} at epoch {h.log.applied} of {upto[h.log.shard]}" for h in behind]
            lacks += [f"{shard}, which is not there" for shard in sorted(gone)]
            shards = (*sorted(gone), *(held.log.shard for held in behind))
            self._effects.send(
                CopyMissing(shards, f"kept input does not bring the copy up to date: {', '.join(lacks)}")
            )

    def _make_up(self, held: HostedShard[Live, Answer], upto: Epoch) -> None:
        """Apply what the other host of the shard has applied meanwhile, from the input that tasks keep."""
        kept = _Kept(functools.partial(self._kept_rows, held.log.shard))
        self._replay(held, kept, upto, keep=True)

    def _kept_rows(self, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, Rows] | None:
        return self._effects.read_rows(shard, epoch, self._peers)

    def stands(self) -> CopiesStand | None:
        """Where shards stand that have a second copy which answers, too; None if there are none, or nothing is new."""
        helds = [held for held in (*self.shards.values(), *self.copies.shards.values()) if held.both]
        found = {held.log.shard: held.log.applied for held in helds}
        if found == self._told_stands:
            return None
        self._told_stands = found
        return CopiesStand(found)

    # -- restores -------------------------------------------------------------------------------------------------

    def _restore(self, restore: Restore) -> None:
        version = restore.version
        try:
            helds, restored = self._restored(restore)
            with self._alone:
                self.shards |= {held.log.shard: held for held in helds}
        except PerseidError as error:
            corrupt, storage = isinstance(error, CorruptData), isinstance(error, StorageFailed)
            self._effects.send(NotRestored(version, str(error), corrupt, storage))
        except Exception as error:
            self._effects.send(NotRestored(version, self._effects.unexpected(error), corrupt=False, storage=False))
        else:
            self._tell_reports(helds)
            self._effects.send(restored)

    def _restored(self, restore: Restore) -> tuple[list[HostedShard[Live, Answer]], Restored]:
        """Its shards: state from snapshots, then the input that was kept on this machine. Nobody else knows them yet."""
        loaded = self._effects.load(restore)
        begun_ms, helds = self._effects.now_ms(), []
        for entry in restore.shards:
            held = self._hosted(restore, entry, loaded.shards[entry.shard])
            entries = self._effects.take_over_input(entry.shard, entry.homes)
            self._effects.delete_input(entry.shard, held.kept.taken_over(entries, entry.upto))
            mine = _Kept(functools.partial(self._effects.read_input, None, entry.shard))
            self._replay(held, mine, entry.upto, keep=False)
            self._follow(held, restore.before, entry.upto)
            helds.append(held)
        phases = {**loaded.phases_ms, "catch_up": self._effects.now_ms() - begun_ms}
        found = self._effects.settle([held.live for held in helds])
        sizes = {held.log.shard: size for held, size in zip(helds, found, strict=True)}
        return helds, Restored(restore.version, _reached(helds), sizes, phases, loaded.copies)

    def _hosted(self, restore: Restore, entry: ShardToRestore, live: Live) -> HostedShard[Live, Answer]:
        retained = entry.shard.operator in self._retaining
        retain = Epoch(entry.epoch + 1) if retained else restore.retain_from
        log = self._log(entry.shard, restore.version, entry.epoch, retain_from=retain)
        return HostedShard(log, entry.slots, live, SizeWatch(entry.shard))

    def _catch_up(self, command: CatchUp) -> None:
        """The shards get no requests yet. What kept input cannot do, a replay will: nothing that goes wrong is worth more than a word."""
        helds = []
        try:
            found = [self.shards[entry.shard] for entry in command.shards if entry.shard in self.shards]
            for held in found:
                self._follow(held, command.before, command.upto)
            helds = found
        except Exception as error:
            self._effects.send(Warned(f"kept input cannot be used: {self._effects.unexpected(error)}"))
        self._tell_reports(helds)
        self._effects.send(CaughtUp(command.version, _reached(helds)))

    def _follow(self, held: HostedShard[Live, Answer], before: Sequence[ShardBefore], upto: Epoch) -> None:
        """Apply what the shards that had these slots before have kept on this machine, as far as it goes."""
        operator, (first, last) = held.log.shard.operator, held.slots
        mine = [b for b in before if b.shard.operator == operator and b.slots[0] < last and first < b.slots[1]]
        if mine:
            self._replay(held, _Kept(functools.partial(self._kept_before, held, mine)), upto, keep=True)

    def _kept_before(
        self, held: HostedShard[Live, Answer], before: Sequence[ShardBefore], epoch: Epoch
    ) -> tuple[ApplyEpoch, Rows] | None:
        """One epoch as the shards before applied it, as this one's (buffer state, S2); None if any of it is not here."""
        kept: dict[int, tuple[SlotRange, Rows]] = {}
        request, aside = None, None
        for source in before:
            found = self._effects.read_input(source.folder, source.shard, epoch) if source.folder is not None else None
            if found is None:
                return None
            request, rows = found
            aside = aside or request.aside
            kept[source.shard.index] = source.slots, rows
        assert request is not None
        mine = self._effects.divide(held.live, kept, held.slots)
        return replace(request, shard=held.log.shard, aside=aside), mine

    def _replay(
        self, held: HostedShard[Live, Answer], kept: _Kept[tuple[ApplyEpoch, Rows]], upto: Epoch, *, keep: bool
    ) -> None:
        for _, (request, rows) in replay_buffer_state(kept, after=held.log.applied, upto=upto):
            # What is put aside was decided long ago, and when it was sent says nothing of now.
            again = replace(request, aside=request.aside and "read", at_ms=None)
            if isinstance(self._apply(held, again, rows, keep=keep), Refusal):
                break

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _save(self, command: Snapshot) -> None:
        with self._alone:
            for entry in command.shards:
                held = self._any(entry.shard)
                if held is not None and held.log.applied < command.epoch:  # another host has answered meanwhile
                    self._make_up(held, command.epoch)
            wrong = next(
                filter(None, (self._not_savable(entry.shard, command.epoch) for entry in command.shards)), None
            )
            if wrong is None:
                helds = [held for entry in command.shards if (held := self._any(entry.shard)) is not None]
                for held in helds:
                    held.kept.snapshot_taken()
                rest = self._effects.save(command, [held.live for held in helds])
        if wrong is not None:
            self._effects.send(NotSaved(command.checkpoint, wrong))
        else:
            rest()

    def _any(self, shard: ShardId) -> HostedShard[Live, Answer] | None:
        """It may have been suspended since it was asked for."""
        return self.shards.get(shard) or self.copies.shards.get(shard)

    def _not_savable(self, shard: ShardId, epoch: Epoch) -> str | None:
        """Why a shard cannot be saved at this epoch, if so."""
        held = self._any(shard)
        if held is None:
            return f"shard {shard} cannot be saved at epoch {epoch}: it is not on this host"
        if held.log.poisoned is not None:
            return f"shard {shard} cannot be saved at epoch {epoch}: it must be restored first: {held.log.poisoned}"
        if held.log.applied != epoch:
            return f"shard {shard} cannot be saved at epoch {epoch}: it stands at epoch {held.log.applied}"
        return None

    # -- epochs ---------------------------------------------------------------------------------------------------

    def ask(self, request: Request, rows: Rows | None) -> Answered[Live, Answer] | Refusal:
        """A task's request, with the rows of its epoch. Reports come before the answer does."""
        with self._alone:
            self._effects.give_way()
            found = self._ask(request, rows)
            if isinstance(found, Refusal):
                return found
            held, answer = found
            told, held.notices = held.notices, []
            if held.report is not None and held.report.epoch == request.epoch:
                told.insert(0, held.report)
        for message in told:
            self._effects.send(message)
        return Answered(held.live, answer)

    def _ask(self, request: Request, rows: Rows | None) -> tuple[HostedShard[Live, Answer], Answer | None] | Refusal:
        shard, epoch = request.shard, request.epoch
        held = self.shards.get(shard)
        if held is None:
            held = self.copies.shards.get(shard)
            if held is None:
                return Refusal("stale", f"shard {shard} is not on this host")
            if not held.both:
                return Refusal("suspended", f"shard {shard} is suspended on this host: another one answers for it")
        match request:
            case RecallAnswer():
                if epoch > held.log.applied:
                    self._make_up(held, epoch)
                decision = held.log.ask(epoch, request.version)
                if decision == "apply":
                    return Refusal(
                        "gap", f"shard {shard} has not applied epoch {epoch} yet: there is no answer to recall"
                    )
            case ApplyEpoch():
                assert rows is not None
                if request.aside == "find" and held.log.poisoned and not held.searched:
                    # It raised before rows might be put aside, at the same time as another shard: it has its search before it.
                    return Refusal("poisoned", f"shard {shard} must be restored first: {held.log.poisoned}")
                if epoch > held.log.applied + 1:  # another host has answered meanwhile
                    self._make_up(held, Epoch(epoch - 1))
                decision = held.log.ask(epoch, request.version, rows.num_rows, wanted=request.wanted)
                if decision == "apply":
                    applied = self._apply(held, request, rows, keep=True)
                    return applied if isinstance(applied, Refusal) else (held, applied)
            case _:
                assert_never(request)
        return decision if isinstance(decision, Refusal) else (held, held.log.answers.get(epoch))

    def _apply(
        self, held: HostedShard[Live, Answer], request: ApplyEpoch, rows: Rows, *, keep: bool
    ) -> Answer | Refusal:
        """Apply one epoch: all of it, or the shard is poisoned and must be restored."""
        log, epoch = held.log, request.epoch
        self._effects.forget_answers(log.release(request.release))
        done = self._effects.apply(held.live, request, rows)
        if isinstance(done, Untouched):
            return Refusal("storage", done.message)
        if isinstance(done, Raised):
            held.searched = request.aside == "find"
            return log.failed(epoch, done.message, mistake=done.mistake)
        held.notices += [Advised(message) for message in done.advice]
        log.applied_epoch(epoch, done.answer, rows.num_rows)
        if keep and self._keep_input:
            self._keep(held, request, rows)
        if log.shard.operator in self._retaining:
            self._shrink(held)
        finished = self._effects.finish(held.live, request, rows)
        held.report = finished.report
        if finished.size is not None and request.at_ms is not None:  # nothing of what is past
            held.notices += held.watch.sized(request.at_ms, finished.size)
            held.notices += [Warned(message) for message in finished.warnings]
        return done.answer

    def _keep(self, held: HostedShard[Live, Answer], request: ApplyEpoch, rows: Rows) -> None:
        size = self._effects.write_input(request, rows) if held.kept.has_room() else None
        held.kept.kept(request.epoch, size)
        if size is None:
            self._effects.delete_input(request.shard, [request.epoch])

    def _shrink(self, held: HostedShard[Live, Answer]) -> None:
        """Keep the answers within their bounds: what does not fit is let go, which is said once until all fits again."""
        no_room = self._effects.shrink(held.log.answers)
        if no_room is not None:
            self._effects.forget_answers(held.log.release(no_room))
            if not held.short_of_room:
                held.notices.append(Warned(f"shard {held.log.shard}: {NO_ROOM}"))
        held.short_of_room = no_room is not None

    def _tell_reports(self, helds: Iterable[HostedShard[Live, Answer]]) -> None:
        for held in helds:
            if held.report is not None:
                self._effects.send(held.report)

    def check(self) -> None:
        """Assert the invariants."""
        for shard, held in (*self.shards.items(), *self.copies.shards.items()):
            assert held.log.shard == shard
            held.log.check()
            held.watch.check()
        assert not self.shards.keys() & self.copies.shards.keys()


Found = TypeVar("Found", covariant=True)


@dataclass(frozen=True, slots=True)
class _Kept(Generic[Found]):
    """Epochs that are kept, looked up one by one."""

    look: Callable[[Epoch], Found | None]

    def get(self, epoch: Epoch, /) -> Found | None:
        return self.look(epoch)


def _reached(helds: Iterable[HostedShard[Any, Any]]) -> dict[ShardId, Epoch]:
    return {held.log.shard: held.log.applied for held in helds}
