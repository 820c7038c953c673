"""The data's way: one epoch of one unit as a job, and replays; what ``spark.unit_worker``, ``frames`` and ``exchange`` do with Spark.

A stage asks every shard of one operator, in random order and in a few steps, so that anything may happen in between. Tasks are tried
again, outlive their job, or are cut short (``Scenario.mishaps``), as Spark's are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.messages import ApplyEpoch, RecallAnswer, Request
from perseid.engine.shard import Refusal
from perseid.engine.stream_store import StreamGone
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.scaling.routing import Route, RoutingTable
from perseid.simulation.checkers import broken
from perseid.simulation.disk import Came
from perseid.simulation.streams import Block
from perseid.simulation.values import NO_ROWS, Rows, State, answers, event_time_ms, share, together
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

REPLAY_EPOCHS = 16
_KINDS: Mapping[str, on.FailureKind] = {
    "raised": "operator",
    "mistake": "mistake",
    "poisoned": "poisoned",
    "gap": "poisoned",
    "released": "released",
}


class JobFailed(Exception):
    """A task failed for good."""

    def __init__(
        self, kind: on.FailureKind, message: str, hosts: tuple[HostId, ...] = (), shards: tuple[ShardId, ...] = ()
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.hosts, self.shards = kind, message, hosts, shards


class Stuck(Exception):
    """A host does not answer; the task waits."""


class Job:
    """What epochs and replays have in common."""

    def __init__(self, driver: SimulatedDriver, command: do.RunEpoch | do.ReplayShards) -> None:
        self.driver, self.world = driver, driver.world
        self.unit: UnitName = command.unit
        self.attempt, self.routing, self.again = command.attempt, command.routing, command.again
        self.shape = driver.topology.unit(command.unit)
        self.cancelled = self.ended = False

    def step(self, action: Any, ms: int, *args: Any) -> None:
        """Go on in a while, unless the job was taken back."""
        self.world.clock.after(ms, self._step, action, args)

    def _step(self, action: Any, args: tuple[Any, ...]) -> None:
        if self.ended or not self.driver.alive:
            return
        if self.driver.asleep:
            self.world.clock.at(self.driver.asleep_ms, self._step, action, args)
            return
        if self.cancelled:
            self.fail("cancelled", "taken back")
            return
        try:
            action(*args)
        except Stuck:
            self.step(action, 40, *args)
        except JobFailed as error:
            self.fail(error.kind, error.message, error.hosts, error.shards)
        except StreamGone as error:
            self.fail("released", str(error))
        except Fenced as error:
            self.fail("fenced", str(error))
        except StorageFailed as error:
            self.fail("storage", str(error))
        except CorruptData as error:
            self.fail("corrupt", str(error))

    def fail(
        self, kind: on.FailureKind, message: str, hosts: tuple[HostId, ...] = (), shards: tuple[ShardId, ...] = ()
    ) -> None:
        if not self.ended:
            self.end()
            self.outlived()
            self.driver.tell(on.UnitFailed(self.unit, self.epoch, self.attempt, kind, message, hosts, shards), 3)

    def end(self) -> None:
        self.ended = True
        self.driver.jobs.pop(self.attempt, None)

    @property
    def epoch(self) -> Epoch:
        raise NotImplementedError

    def outlived(self) -> None:
        """Tasks that do not hear at once that their job is over."""

    def released(self, operator: OperatorName, consumed: Epoch, covered: Epoch) -> Epoch:
        return min(consumed, covered) if operator in self.driver.topology.retaining else consumed

    def input(self, epoch: Epoch) -> Rows:
        """The unit's rows of an epoch."""
        parts = self.driver.source_rows(self.unit, epoch)
        for stream in self.driver.inputs[self.unit]:
            parts.append(self.driver.stream_rows(stream, epoch, self.routing, again=self.again))
        return together(parts)


class EpochJob(Job):
    """One epoch of one unit, from its input to its sink."""

    def __init__(self, driver: SimulatedDriver, command: do.RunEpoch) -> None:
        super().__init__(driver, command)
        self.command = command
        self.operators = driver.order[self.unit]
        self.said: dict[OperatorName, Rows] = {}
        self.waiting: list[tuple[ApplyEpoch, Came]] = []
        self.states: dict[ShardId, State] = {}
        self.whole: Rows | None = None
        self.step(self._next_operator, self.world.some("job"))

    @property
    def epoch(self) -> Epoch:
        return self.command.epoch

    def _next_operator(self) -> None:
        if self.whole is None:
            spoiled = self.world.spoiled(self.command)
            if spoiled is not None:
                raise spoiled
            self.whole = self.input(self.epoch)
        if len(self.said) == len(self.operators):
            self._output()
            return
        operator = self.operators[len(self.said)]
        feeders = self.shape.feeders.get(operator)
        rows = together([self.said[o] for o in sorted(feeders)]) if feeders else self.whole
        release = self.released(operator, self.command.release, self.command.release_covered)
        epoch, version, routes, now = (
            self.epoch,
            self.routing.version,
            self.routing.of(operator),
            self.world.clock.now_ms,
        )
        self.waiting = [
            (ApplyEpoch(r.shard, epoch, version, release, now, at_ms=now), Came(rows, share(rows, r.slots)))
            for r in routes
        ]
        self.states = {}
        if len(self.waiting) > 1:
            self.world.random.shuffle(self.waiting)
        self._ask(operator, rows)

    def _ask(self, operator: OperatorName, rows: Rows) -> None:
        size = -(-len(self.routing.of(operator)) // self.world.scenario.chunks)
        ask, routing, waiting, states = self.driver.ask, self.routing, self.waiting, self.states
        draw, mishaps = self.world.random.random, self.world.mishaps
        for _ in range(min(size, len(waiting))):
            request, came = waiting[-1]
            answer = ask(routing, request, came)
            if draw() < mishaps and ask(routing, request, came) != answer:
                broken("sinks", f"shard {request.shard} gave two answers to epoch {request.epoch}")
            states[request.shard] = answer
            del waiting[-1]
        pace = self.driver.pace_of(self.routing, self.shape)
        if waiting:
            self.step(self._ask, int(self.world.some("job") * pace), operator, rows)
            return
        self.said[operator] = answers([states[route.shard] for route in self.routing.of(operator)], rows)
        self.step(self._next_operator, int(self.world.some("job") * pace))

    def _output(self) -> None:
        driver, world = self.driver, self.world
        assert self.whole is not None
        last = driver.outlets[self.unit]
        rows = together([self.said[o] for o in last]) if last else self.whole
        admitted = driver.admitted(self.epoch)
        for stream in driver.outputs[self.unit]:
            driver.streams.put(stream, self.epoch, admitted.digest, Block(stream, self.epoch, rows, self.routing))
        held = world.root.sinks.get((self.unit, self.epoch))
        if held is None or held[0] != admitted.digest:
            world.root.write_sink(driver.generation, world.clock.now_ms, self.unit, admitted, rows)
        if not driver.fenced:  # such a driver wrote nothing: the epoch was there
            world.witness.sink_written(self.unit, self.epoch, rows)
        self.end()
        driver.unit_finished(self.unit, self.epoch, {o: event_time_ms(rows) for o, rows in self.said.items()})
        driver.tell(on.UnitFinished(self.unit, self.epoch, self.attempt), 1)

    def outlived(self) -> None:
        for request, (rows, came, _) in self.waiting:
            if self.world.mishap(6):
                cut = self.world.random.randint(0, came) if self.world.mishap(6) else came
                self.driver.ask_late(self.routing, request, Came(rows, cut, came - cut))


class ReplayJob(Job):
    """Epochs fed again to shards that were restored; nothing reaches sinks."""

    def __init__(self, driver: SimulatedDriver, command: do.ReplayShards) -> None:
        super().__init__(driver, command)
        self.command = command
        self.lost = frozenset(command.shards)
        self.operators = [
            o for o in driver.order[self.unit] if any(s.operator == o for s in self.lost) or self._stood_on(o)
        ]
        self.asked = [s for s in self.routing.shards_of(self.operators) if s in self.lost or self._stood_on(s.operator)]
        self.step(self._feed, self.world.some("replay"), command.first)

    @property
    def epoch(self) -> Epoch:
        return self.command.last

    def _stood_on(self, operator: OperatorName) -> bool:
        return any(operator in self.shape.feeders.get(s.operator, ()) for s in self.lost)

    def _feed(self, first: Epoch) -> None:
        last = min(self.command.last, first + REPLAY_EPOCHS - 1)
        self.driver.reach(self.routing, self.asked)  # before anything is applied: a task that waits has applied nothing
        for number in range(first, last + 1):
            self._one(Epoch(number))
        self.driver.replayed(self.unit, self.lost, first, Epoch(last))
        if last == self.command.last:
            self.end()
            self.driver.tell(on.ReplayFinished(self.unit, self.attempt), 2)
        else:
            pace = self.driver.pace_of(self.routing, self.shape)
            self.step(self._feed, int(self.world.some("replay") * pace), Epoch(last + 1))

    def _one(self, epoch: Epoch) -> None:
        whole = self.input(epoch)
        said: dict[OperatorName, Rows] = {}
        for operator in self.operators:
            feeders = self.shape.feeders.get(operator)
            rows = together([said[o] for o in sorted(feeders)]) if feeders else whole
            release = self.released(operator, self.command.release, Epoch(0))
            wanted = self._stood_on(operator)
            states = []
            for route in self.routing.of(operator):
                recall = route.shard not in self.lost
                if recall and not wanted:
                    continue
                states.append(
                    self.driver.ask(self.routing, *self._request(route, epoch, rows, release, wanted, recall))
                )
            if wanted:
                said[operator] = answers(states, rows)

    def _request(
        self, route: Route, epoch: Epoch, rows: Rows, release: Epoch, wanted: bool, recall: bool
    ) -> tuple[Request, Came | None]:
        version = self.routing.version
        if recall:
            return RecallAnswer(route.shard, epoch, version), None
        request = ApplyEpoch(route.shard, epoch, version, release, 0, at_ms=self.world.clock.now_ms, wanted=wanted)
        return request, Came(rows, share(rows, route.slots))


def rebuilt(driver: SimulatedDriver, unit: UnitName, epoch: Epoch, routing: RoutingTable) -> Rows:
    """A unit's output of an epoch once more, from the answers its hosts keep."""
    last = driver.outlets[unit]
    if not last:
        parts = driver.source_rows(unit, epoch)
        return together([*parts, *(driver.stream_rows(s, epoch, routing, again=True) for s in driver.inputs[unit])])
    said = []
    for operator in last:
        states = [
            driver.ask(routing, RecallAnswer(r.shard, epoch, routing.version), None) for r in routing.of(operator)
        ]
        said.append(answers(states, NO_ROWS))
    return together(said)


def failure_of(refusal: Refusal, shard: ShardId) -> JobFailed:
    """How a refusal fails the job."""
    kind = _KINDS.get(refusal.kind, "other")
    return JobFailed(kind, refusal.message, (), (shard,) if kind in ("operator", "mistake", "poisoned") else ())
