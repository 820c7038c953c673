"""A simulated host: the engine's shard logs around numbers for state. It does what ``host.process`` does, without a process.

It knows only what it was told. Asleep, it does nothing; awake again, it goes on as if nothing had been: a zombie, which the
shard logs and the controller must not believe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perseid.checkpoint.lifecycle import SnapshotPart
from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine import events as on
from perseid.engine.shard import Refusal, ShardLog
from perseid.scaling.routing import Route
from perseid.simulation.root import Root, Snapshot
from perseid.simulation.site import Machine
from perseid.simulation.values import Rows, State, applied, fresh, joined, part
from perseid.vocabulary import Epoch, Generation, HostId, OperatorName, ShardId, Version


class Request(NamedTuple):
    """One task's question: this epoch, these rows, under this version of the routing."""

    shard: ShardId
    epoch: Epoch
    version: Version
    rows: Rows
    came: int  # how many of the rows came; a task cut short brings fewer
    release: Epoch
    recall: bool = False  # give the answer that was kept, apply nothing
    wanted: bool = True  # does anybody look at the answer?
    missing: int = 0  # rows that were cut off


@dataclass(slots=True)
class Held:
    """A shard in memory."""

    log: ShardLog[State]
    state: State
    watch: SizeWatch
    kept: dict[Epoch, Request] = field(default_factory=dict)  # its input, on the machine's disk (``host.input_log``)

    def apply(self, request: Request) -> State:
        self.log.release(request.release)
        self.state = applied(self.state, request.epoch, request.rows, request.missing)
        self.log.applied_epoch(request.epoch, self.state, request.came)
        return self.state


@dataclass(slots=True)
class Host:
    """One process with its shards."""

    id: HostId
    machine: Machine
    generation: Generation
    shard_log: type[ShardLog[State]]
    retaining: frozenset[OperatorName]  # operators whose answers are kept until a checkpoint covers them
    shards: dict[ShardId, Held] = field(default_factory=dict)
    alive: bool = True
    dropped: bool = False  # the controller has given it up; it may not know yet
    inbound_ms: int = 0  # messages keep their order
    outbound_ms: int = 0
    inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(
        default_factory=list
    )  # until it is awake and can be reached
    outbox: list[on.Event] = field(default_factory=list)  # until it can be reached
    deaf_ms: int = 0  # until then pickle holds the interpreter, and with it the heart
    heartbeat: on.HeartbeatArrived = field(init=False)  # always the same

    def __post_init__(self) -> None:
        self.heartbeat = on.HeartbeatArrived(self.id)

    def ask(self, request: Request) -> State | Refusal:
        """What ``host.process`` answers a task."""
        held = self.shards.get(request.shard)
        if held is None:
            return Refusal("stale", f"shard {request.shard} is not on this host")
        log = held.log
        came = None if request.recall else request.came
        decision = log.ask(request.epoch, request.version, came, wanted=request.wanted)
        if decision == "apply":
            if request.recall:
                return Refusal("gap", f"shard {request.shard} has not applied epoch {request.epoch}: nothing to recall")
            held.kept[request.epoch] = request
            return held.apply(request)
        return log.answers.get(request.epoch, ()) if decision == "answer" else decision

    def restore(
        self,
        root: Root,
        now_ms: int,
        version: Version,
        route: Route,
        parts: tuple[SnapshotPart, ...],
        epoch: Epoch,
        retain: Epoch,
    ) -> State:
        """Hold a shard as parts of snapshots have it; its state. Raises ``CorruptData`` or ``StorageFailed``."""
        found = []
        for piece in parts:
            saved = piece.snapshot
            assert isinstance(saved, Snapshot) and saved.epoch == epoch
            found.append(part(root.read_snapshot(now_ms, saved), piece.slots))
        state = joined(found) if parts else fresh(route.slots)
        if route.shard.operator in self.retaining:
            retain = Epoch(epoch + 1)
        log = self.shard_log(route.shard, version, epoch, retain_from=retain)
        self.shards[route.shard] = Held(log, state, SizeWatch(route.shard))
        return state

    def forget(self, shards: tuple[ShardId, ...]) -> None:
        """Others have taken over from these, or never will these take over from others."""
        for shard in shards:
            self.shards.pop(shard, None)

    def catch_up(self, shard: ShardId, upto: Epoch, found: Callable[[Epoch], Request | None]) -> Epoch:
        """Apply input that was kept on this machine; where the shard stands then."""
        held = self.shards[shard]
        while (
            not held.log.poisoned
            and held.log.applied < upto
            and (request := found(Epoch(held.log.applied + 1))) is not None
        ):
            held.apply(request)
            held.kept[request.epoch] = request
        return held.log.applied

    def states_at(self, shards: tuple[Route, ...], epoch: Epoch) -> list[tuple[Route, State]] | None:
        """What a snapshot of these shards at this epoch holds; None if it cannot be taken."""
        states = []
        for route in shards:
            held = self.shards.get(route.shard)
            if held is None or held.log.applied != epoch or held.log.poisoned:
                return None
            states.append((route, held.state))
        return states
