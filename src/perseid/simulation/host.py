"""A simulated host: a real host's machine (``engine.host``) in a process of virtual time, with numbers for state.

It knows only what it was told. Asleep, it does nothing; awake again, it goes on as if nothing had been: a zombie, which the
shard logs and the controller must not believe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from perseid.engine import events as on
from perseid.engine.host import HostMachine
from perseid.engine.host_effects import Captured, Done, Finished, Loaded, Raised, Untouched
from perseid.engine.messages import (
    Address,
    ApplyEpoch,
    BackedUp,
    Forked,
    FromHost,
    KeepBackup,
    NotSaved,
    PartToRead,
    Report,
    Restore,
    Saved,
    SendCopy,
    ShardToSave,
    ToHost,
)
from perseid.engine.messages import Snapshot as TakeSnapshot
from perseid.errors import StorageFailed
from perseid.simulation.checkers import broken
from perseid.simulation.copies import CopyLines
from perseid.simulation.disk import Came
from perseid.simulation.root import Snapshot
from perseid.simulation.site import Machine, lasting
from perseid.simulation.values import State, applied, event_time_ms, fresh, joined, part, share
from perseid.vocabulary import CheckpointId, Epoch, Generation, HostId, ShardId, SlotRange

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

Key = TypeVar("Key")
Link = on.HostRegistered | on.HostDisconnected
"""What a host's connection says of it."""


@dataclass(slots=True)
class Live:
    """A shard's state in memory."""

    shard: ShardId
    state: State


@dataclass(slots=True)
class Host:
    """One process."""

    id: HostId
    machine: Machine
    generation: Generation
    logic: HostMachine[Live, Came, State] = field(init=False)
    alive: bool = True
    dropped: bool = False  # the controller has given it up; it may not know yet
    busy: bool = False  # with a restore: messages wait, tasks do not
    inbound_ms: int = 0  # messages keep their order
    outbound_ms: int = 0
    inbox: list[ToHost] = field(default_factory=list)  # until it is awake, can be reached and is not busy
    outbox: list[FromHost | Link] = field(default_factory=list)  # until it can be reached
    deaf_ms: int = 0  # until then pickle holds the interpreter, and with it the heart
    heartbeat: on.HeartbeatArrived = field(init=False)  # always the same

    def __post_init__(self) -> None:
        self.heartbeat = on.HeartbeatArrived(self.id)

    @property
    def folder(self) -> str:
        """Its own, on its machine's disk."""
        return f"{self.generation}-{self.id}"

    @property
    def address(self) -> Address:
        return Address(f"machine-{self.machine.number}", self.id, machine=str(self.machine.number), name=self.folder)


class HostWorld:
    """What a simulated host does to the world, for its machine."""

    def __init__(self, driver: SimulatedDriver, host: Host) -> None:
        self._driver, self._world, self._host = driver, driver.world, host
        self._clock, self._root = driver.clock, driver.root
        self._disk, self._folder, self._copied = host.machine.disk, host.folder, driver.world.scenario.copies
        self._loaded: list[tuple[ShardId, SlotRange, Epoch, State]] = []
        self._lines = CopyLines(driver, host)

    def send(self, message: FromHost) -> None:
        self._driver.hosts.word(self._host, message)

    def now_ms(self) -> int:
        return self._clock.now_ms

    def unexpected(self, error: Exception) -> str:
        raise error  # a bug, of which a real host would only tell

    def stop(self, for_good: bool) -> None:
        self._driver.hosts.ends(self._host)

    def _lasting(self, ms: float) -> int:
        """How long a host takes for what usually takes so long."""
        now, machine, root = self._clock.now_ms, self._host.machine, self._root
        if machine.slow_ms <= now and root.slow_ms <= now:  # as nearly always
            return int(ms)
        return lasting(ms, now, machine.slow, root.slow)

    # -- state ----------------------------------------------------------------------------------------------------

    def slowly(self, work: Callable[[], None], *, low_priority: bool) -> None:
        host, ms = self._host, self._lasting(self._world.some("restore"))
        host.busy, host.deaf_ms = True, self._clock.now_ms + ms

        def done() -> None:
            work()
            loaded, self._loaded = self._loaded, []
            for one in loaded if not self._driver.fenced else ():
                self._world.witness.loaded(*one)

        self._clock.at(host.deaf_ms, self._driver.hosts.finish_work, host, done)

    def load(self, restore: Restore) -> Loaded[Live]:
        self._loaded = []
        shards = {}
        for entry in restore.shards:
            read = [part(self._read(one, entry.epoch), one.slots) for one in entry.parts]
            state = joined(read) if read else fresh(entry.slots)
            shards[entry.shard] = Live(entry.shard, state)
            self._loaded.append((entry.shard, entry.slots, entry.epoch, state))
        return Loaded(shards)

    def _read(self, one: PartToRead, epoch: Epoch) -> State:
        saved = one.snapshot
        assert isinstance(saved, Snapshot) and saved.epoch == epoch
        copy = self._disk.copies.get(saved.path)
        if copy is None and one.backup is not None:
            copy = self._fetched(one.backup, saved.path)
            if copy is not None:
                self._disk.copies[saved.path] = copy
                self._world.tally.from_backups += 1
        if copy is not None and copy.digest == saved.digest:
            return copy.digest
        return self._root.read_snapshot(self._clock.now_ms, saved)

    def settle(self, shards: Sequence[Live]) -> list[int]:
        return [self._world.scenario.state_bytes] * len(shards)

    def let_go(self, shard: Live) -> None:
        pass

    def give_way(self) -> None:
        pass

    # -- epochs ---------------------------------------------------------------------------------------------------

    def apply(self, shard: Live, request: ApplyEpoch, rows: Came) -> Done[State] | Raised | Untouched:
        shard.state = applied(shard.state, request.epoch, rows.rows, rows.missing)
        return Done(shard.state)

    def finish(self, shard: Live, request: ApplyEpoch, rows: Came) -> Finished:
        event_times = {"rows": event_time_ms(rows.rows)}
        report = Report(request.shard, request.epoch, rows.num_rows, rows.num_rows, 0, event_times)
        size = self._world.size_of(request.shard, request.epoch) if self._world.sized else None
        return Finished(report, size)

    def forget_answers(self, answers: Iterable[State]) -> None:
        pass

    def shrink(self, answers: dict[Epoch, State]) -> Epoch | None:
        return None

    # -- kept input -----------------------------------------------------------------------------------------------

    def take_over_input(self, shard: ShardId, homes: Sequence[str]) -> Mapping[Epoch, int]:
        kept, mine = self._disk.input, (self._folder, shard)
        for home in homes:
            if mine in kept:
                break
            if (home, shard) in kept:
                kept[mine] = kept.pop((home, shard))
        return {epoch: rows.num_rows for epoch, (_, rows) in kept.setdefault(mine, {}).items()}

    def write_input(self, request: ApplyEpoch, rows: Came) -> int | None:
        kept = self._disk.input.get((self._folder, request.shard))
        if kept is None or self._world.mishap(0.1):  # somebody has taken over; the disk is full
            return None
        kept[request.epoch] = request, rows
        return rows.num_rows

    def read_input(self, folder: str | None, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, Came] | None:
        found = self._disk.input.get((folder or self._folder, shard), {}).get(epoch)
        return found if found is not None and self._world.random.random() < self._world.scenario.kept else None

    def delete_input(self, shard: ShardId, epochs: Sequence[Epoch]) -> None:
        kept = self._disk.input.get((self._folder, shard), {})
        for epoch in epochs:
            kept.pop(epoch, None)

    def forget_input(self, shard: ShardId) -> None:
        self._disk.input.pop((self._folder, shard), None)

    def divide(self, shard: Live, kept: Mapping[int, tuple[SlotRange, Came]], slots: SlotRange) -> Came:
        pieces = [rows for _, rows in kept.values()]
        rows, missing = pieces[0].rows, sum(piece.missing for piece in pieces)
        return Came(rows, share(rows, slots) - missing, missing)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def save(self, command: TakeSnapshot, shards: Sequence[Live]) -> Callable[[], None]:
        states = [(entry, live.state) for entry, live in zip(command.shards, shards, strict=True)]

        def rest() -> None:
            if not command.synchronous:
                self._forked(command)
            usual, last = 0.0, 0
            for saving in states:
                usual += self._world.some("snapshot")
                last = self._lasting(usual)
                if not command.synchronous:
                    self._clock.after(last, self._write, command, [saving])
            if command.synchronous:
                self._clock.after(last, self._write, command, states)

        return rest

    def _forked(self, command: TakeSnapshot) -> None:
        message = Forked(command.checkpoint, command.unit)
        self._world.snapshots_taken(message)
        self.send(message)

    def _write(self, command: TakeSnapshot, states: list[tuple[ShardToSave, State]]) -> None:
        """A forked child goes on when its host is killed; it sleeps and falls with the machine."""
        now, host, machine = self._clock.now_ms, self._host, self._host.machine
        if now < machine.asleep_ms:
            self._clock.at(machine.asleep_ms, self._write, command, states)
            return
        if now < machine.down_ms or (command.synchronous and not host.alive):
            return
        results = [self._write_one(command.checkpoint, command.epoch, entry, state) for entry, state in states]
        if host.alive:
            if command.synchronous:
                self._forked(command)
            for result in results:
                self.send(result)

    def _write_one(self, checkpoint: CheckpointId, epoch: Epoch, entry: ShardToSave, state: State) -> Saved | NotSaved:
        shard, size = entry.shard, self._world.scenario.state_bytes
        saved = Snapshot(shard.operator, shard.index, entry.slots, epoch, entry.path, state, size)
        try:
            self._root.write_snapshot(self._clock.now_ms, saved)
        except StorageFailed as error:
            return NotSaved(checkpoint, str(error))
        if self._copied:
            self._disk.copies[entry.path] = saved
        return Saved(checkpoint, saved)

    # -- second copies --------------------------------------------------------------------------------------------

    def capture(
        self, shard: Live, answers: Mapping[Epoch, State], before: object
    ) -> tuple[tuple[object, State, dict[Epoch, State]], State]:
        return (before, shard.state, dict(answers)), shard.state

    def change(self, shard: Live, changes: object) -> None:
        both: Any = changes
        before, now = both
        if shard.state != before:
            broken("copies", f"shard {shard.shard}: changes to another state than the copy has")
        shard.state = now

    def send_copy(self, command: SendCopy, shards: Sequence[Captured]) -> None:
        self._lines.send(command, shards)

    def read_rows(self, shard: ShardId, epoch: Epoch, peers: Sequence[Address]) -> tuple[ApplyEpoch, Came] | None:
        return self._lines.read_rows(shard, epoch, peers)

    def forget_rows(self, upto: Mapping[ShardId, Epoch]) -> None:
        self._lines.forget_rows(upto)

    def start_heart(self, beat_ms: int) -> None:
        self._driver.hearts.wanted(self._host.id, beat_ms)

    # -- backups --------------------------------------------------------------------------------------------------

    def keep_backup(self, command: KeepBackup) -> None:
        if self._copied:
            self._clock.after(self._world.some("message"), self._keep, command)

    def _keep(self, command: KeepBackup) -> None:
        if not self._host.alive or not self._host.machine.well(self._clock.now_ms):
            return
        found = self._fetched(command.source, command.path)
        if found is not None:
            self._disk.backups[self._folder, command.path] = found
            self.send(BackedUp(command.path, found.state_bytes))

    def _fetched(self, source: Address, path: str) -> Snapshot | None:
        """From another host, as long as it lives and can be reached."""
        other = self._driver.hosts.all[HostId(source.port)]
        if not other.alive or not other.machine.well(self._clock.now_ms):
            return None
        disk = other.machine.disk
        return disk.backups.get((other.folder, path)) or disk.copies.get(path)

    def forget_backups(self, paths: Sequence[str]) -> None:
        _forget(self._disk.backups, [key for key in self._disk.backups if key[0] == self._folder], paths)

    def forget_copies(self, paths: Sequence[str]) -> None:
        _forget(self._disk.copies, list(self._disk.copies), paths)


def _forget(held: dict[Key, Snapshot], keys: Sequence[Key], paths: Sequence[str]) -> None:
    """Files, or folders of checkpoints."""
    for key in keys:
        if any(held[key].path == path or held[key].path.startswith(f"{path}/") for path in paths):
            del held[key]
