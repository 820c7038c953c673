"""The data's way: one epoch of one unit as a job, and replays; what ``spark.unit_worker``, ``frames`` and ``exchange`` do with Spark.

A stage asks every shard of one operator, in random order and in a few steps, so that anything may happen in between. Tasks are tried
again, outlive their job, or are cut short (``Scenario.mishaps``), as Spark's are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.messages import ApplyEpoch, RecallAnswer, Request
from perseid.engine.reports import NoReport
from perseid.engine.unit_job import (
    LEFT_OUT_MS,
    REPORT_LIMIT_MS,
    Cancelled,
    Replay,
    TaskFailed,
    left_out,
    released,
    replay_again,
    replay_groups,
    unit_failed,
)
from perseid.errors import PerseidError, PropertyBroken
from perseid.scaling.routing import Route, RoutingTable
from perseid.simulation.checkers import broken
from perseid.simulation.copies import Stuck
from perseid.simulation.disk import Came
from perseid.simulation.streams import Block
from perseid.simulation.values import NO_ROWS, Rows, State, answers, event_time_ms, share, together
from perseid.storage.records import Admitted
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, UnitName

if TYPE_CHECKING:
    from perseid.simulation.driver import SimulatedDriver

GATHER_MS = 5  # how often a job looks for reports that are on their way,
LOOK_MS = 100  # and for those that are late


class JobFailed(Exception):
    """Something else fails a job (``World.spoiled``)."""

    def __init__(
        self, kind: on.FailureKind, message: str, hosts: tuple[HostId, ...] = (), shards: tuple[ShardId, ...] = ()
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.hosts, self.shards = kind, message, hosts, shards


class Job:
    """What epochs and replays have in common."""

    def __init__(self, driver: SimulatedDriver, command: do.RunEpoch | do.ReplayShards) -> None:
        self.driver, self.world = driver, driver.world
        self.command = command
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
            self._failed(Cancelled("taken back"))
            return
        try:
            action(*args)
        except Stuck:
            self.step(action, 40, *args)
        except JobFailed as error:
            self.fail(error.kind, error.message, error.hosts, error.shards)
        except PropertyBroken:
            raise
        except (TaskFailed, PerseidError) as error:
            self._failed(error)

    def fail(
        self, kind: on.FailureKind, message: str, hosts: tuple[HostId, ...] = (), shards: tuple[ShardId, ...] = ()
    ) -> None:
        self._told(on.UnitFailed(self.unit, self.epoch, self.attempt, kind, message, hosts, shards))

    def _failed(self, error: BaseException) -> None:
        driver = self.driver
        self._told(unit_failed(self.command, error, cancelled=self.cancelled, taken_over=lambda: driver.fenced))

    def _told(self, failed: on.UnitFailed) -> None:
        if not self.ended:
            self.end()
            self.outlived()
            self.driver.tell(failed, 3)

    def end(self) -> None:
        self.ended = True
        self.driver.jobs.pop(self.attempt, None)

    @property
    def epoch(self) -> Epoch:
        raise NotImplementedError

    def outlived(self) -> None:
        """Tasks that do not hear at once that their job is over."""

    def missing(self, shards: Iterable[ShardId], epoch: Epoch) -> list[ShardId]:
        """Shards that have not reported this epoch."""
        return self.driver.reports.book.missing(shards, epoch)

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
        self.run = command
        self.operators = driver.order[self.unit]
        self.release = released(self.operators, driver.topology.retaining, command.release, command.release_covered)
        self.shards = command.routing.shards_of(self.operators)
        self.said: dict[OperatorName, Rows] = {}
        self.came: dict[OperatorName, Rows] = {}
        self.waiting: list[tuple[ApplyEpoch, Came]] = []
        self.states: dict[ShardId, State] = {}
        self.whole: Rows | None = None
        self.step(self._next_operator, self.world.some("job"))

    @property
    def epoch(self) -> Epoch:
        return self.run.epoch

    def _next_operator(self) -> None:
        if self.whole is None:
            spoiled = self.world.spoiled(self.run)
            if spoiled is not None:
                raise spoiled
            self.whole = self.input(self.epoch)
        if len(self.said) == len(self.operators):
            self._output()
            return
        operator = self.operators[len(self.said)]
        feeders = self.shape.feeders.get(operator)
        rows = together([self.said[o] for o in sorted(feeders)]) if feeders else self.whole
        self.came[operator] = rows
        self.waiting = self._requests(operator)
        self.states = {}
        if len(self.waiting) > 1:
            self.world.random.shuffle(self.waiting)
        self._ask(operator, rows)

    def _requests(self, operator: OperatorName) -> list[tuple[ApplyEpoch, Came]]:
        epoch, version, now = self.epoch, self.routing.version, self.world.clock.now_ms
        rows, release = self.came[operator], self.release[operator]
        return [
            (ApplyEpoch(r.shard, epoch, version, release, now, at_ms=now), Came(rows, share(rows, r.slots)))
            for r in self.routing.of(operator)
        ]

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
        self._gather(LEFT_OUT_MS)

    def _gather(self, left_ms: int) -> None:
        """Wait for reports, which come a moment behind the answers."""
        if not self.missing(self.shards, self.epoch):
            self._finished()
        elif left_ms <= 0:
            self._left_out()
        else:
            self.step(self._gather, GATHER_MS, left_ms - GATHER_MS)

    def _left_out(self) -> None:
        """Ask once more whom nobody has asked, as it seems."""
        for operator in left_out(self.missing(self.shards, self.epoch)):
            for request, came in self._requests(operator):
                self.driver.ask(self.routing, request, came)
        self._await_reports(REPORT_LIMIT_MS)

    def _await_reports(self, left_ms: int) -> None:
        missing = self.missing(self.shards, self.epoch)
        if not missing:
            self._finished()
        elif left_ms <= 0:
            raise NoReport(self.epoch, missing, REPORT_LIMIT_MS / 1000)
        else:
            self.step(self._await_reports, LOOK_MS, left_ms - LOOK_MS)

    def _finished(self) -> None:
        driver = self.driver
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
        self.feed = command
        epochs = (driver.admitted(Epoch(number)) for number in range(command.first, command.last + 1))
        self.groups = replay_groups(epochs, lambda admitted: sum(b - a for a, b in admitted.slices.values()))
        self.release = released(driver.order[self.unit], driver.topology.retaining, command.release, Epoch(0))
        self.step(self._next_group, self.world.some("replay"))

    @property
    def epoch(self) -> Epoch:
        return self.feed.last

    def _next_group(self) -> None:
        group = next(self.groups, None)
        if group is None:
            self._await_reports(REPORT_LIMIT_MS)
        else:
            self._feed(group)

    def _feed(self, group: list[Admitted]) -> None:
        lost = frozenset(self.feed.shards)
        replay = Replay(self.shape, lost)
        operators = [o for o in self.driver.order[self.unit] if o in replay.operators]
        asked = [s for s in self.routing.shards_of(operators) if replay.feeds(s) or replay.recalls(s)]
        try:
            self.driver.reach(self.routing, asked)  # before anything is applied: a task that waits has applied nothing
        except Stuck:
            self.step(self._feed, 40, group)
            return
        for admitted in group:
            self._one(replay, operators, admitted.epoch)
        self._fed(group, operators, LEFT_OUT_MS)

    def _fed(self, group: list[Admitted], operators: list[OperatorName], left_ms: int) -> None:
        lost, last = frozenset(self.feed.shards), group[-1].epoch
        missing = self.missing(lost, last)
        if missing and left_ms > 0:
            self.step(self._fed, GATHER_MS, group, operators, left_ms - GATHER_MS)
            return
        again = replay_again(missing, lost)
        if again:
            replay = Replay(self.shape, again)
            self._one(replay, [o for o in operators if o in replay.operators], last)
        self.driver.replayed(self.unit, lost, group[0].epoch, last)
        pace = self.driver.pace_of(self.routing, self.shape)
        self.step(self._next_group, int(self.world.some("replay") * pace) if last < self.feed.last else 0)

    def _one(self, replay: Replay, operators: list[OperatorName], epoch: Epoch) -> None:
        whole = self.input(epoch)
        said: dict[OperatorName, Rows] = {}
        for operator in operators:
            feeders = self.shape.feeders.get(operator)
            rows = together([said[o] for o in sorted(feeders)]) if feeders else whole
            wanted = operator in replay.stood_on
            states = []
            for route in self.routing.of(operator):
                recall = replay.recalls(route.shard)
                if not recall and not replay.feeds(route.shard):
                    continue
                release = self.release[operator]
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

    def _await_reports(self, left_ms: int) -> None:
        missing = self.missing(self.feed.shards, self.feed.last)
        if not missing:
            self.end()
            self.driver.tell(on.ReplayFinished(self.unit, self.attempt), 2)
        elif left_ms <= 0:
            raise NoReport(self.feed.last, missing, REPORT_LIMIT_MS / 1000)
        else:
            self.step(self._await_reports, LOOK_MS, left_ms - LOOK_MS)


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
