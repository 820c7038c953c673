"""The world of one run: clock, site, root, the driver there is, and the faults that come upon them.

Invariant: everything random comes from the scenario's seed, so a run can be repeated to the last event.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field, fields
from functools import cache

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.event_log import EventCodec, EventLog, sealed_plainly
from perseid.engine.messages import Forked
from perseid.engine.shard import ShardLog
from perseid.errors import StorageFailed
from perseid.recovery.plan import RecoveryPlan
from perseid.scaling.machine import ScaleRequest
from perseid.scaling.split import split_slots
from perseid.simulation.checkers import Witness, broken
from perseid.simulation.clock import Clock
from perseid.simulation.driver import SimulatedDriver
from perseid.simulation.faults import Planned, lasts_ms
from perseid.simulation.host import Host
from perseid.simulation.inject import inject
from perseid.simulation.jobs import JobFailed
from perseid.simulation.root import Manifest, Root, Snapshot
from perseid.simulation.scenario import Ask, Scale, Scenario, Times
from perseid.simulation.site import Machine, Room
from perseid.simulation.values import State
from perseid.vocabulary import Epoch, ShardId, SourceName, UnitName

STORY_ENTRIES = 20_000


@cache
def event_codec() -> EventCodec:
    """For events of simulated runs."""
    return EventCodec(Snapshot)


@dataclass(frozen=True, slots=True)
class Engine:
    """The machines under test. Tests put broken ones here, to see that the checkers find them."""

    controller: type[Controller] = Controller
    shard_log: type[ShardLog[State]] = ShardLog


@dataclass(slots=True)
class Tally:
    """What a run adds up."""

    faults: Counter[str] = field(default_factory=Counter)
    recoveries_ms: list[int] = field(default_factory=list)
    modes: Counter[str] = field(default_factory=Counter)
    replayed_rows: int = 0
    checkpoints: int = 0
    checkpoint_ms: int = 0
    drivers: int = 0
    scaled: int = 0  # operators, out or in
    epochs: int = 0  # finished by a unit, again or not
    from_backups: int = 0  # snapshots that were read from another host


class World:
    """Everything there is."""

    def __init__(
        self,
        scenario: Scenario,
        engine: Engine | None = None,
        *,
        checked: bool = True,
        story: int = STORY_ENTRIES,
        recorded: bool = False,
    ) -> None:
        self.scenario, self.topology = scenario, scenario.topology
        self.machines_of_engine = engine or Engine()
        self.checked = checked  # the engine's invariants after every event, not only after those that command something
        self.random = random.Random(scenario.seed)
        self.clock, self.root = Clock(), Root()
        self.machines = [Machine(i) for i in range(scenario.site.machines)]
        self.processes: list[list[Host]] = [[] for _ in self.machines]
        self._room = Room(self.machines, scenario.slots)
        self.waiting: list[SimulatedDriver] = []  # for a machine to start a host on
        individual = scenario.settings.scheme.individual
        self.witness = Witness(self.topology, self.root, scenario.settings.keep, individual=individual)
        self.log: deque[tuple[int, int, object]] = deque(maxlen=story)
        self.recordings: dict[int, list[bytes]] | None = {} if recorded else None  # events of each driver
        self.tally = Tally()
        self._times: dict[str, tuple[int, int]] = {f.name: getattr(scenario.times, f.name) for f in fields(Times)}
        self.sized = scenario.settings.scheme.name == "adaptive"  # then shards tell of their sizes
        self.instant = scenario.times.message == (0, 0)
        self.mishaps = scenario.mishaps
        self.slow_until_ms = 0
        self.calm_ms = 0  # from then on nothing goes wrong any more
        self.pulse = scenario.settings.heartbeat_ms
        self._furthest: dict[UnitName, Epoch] = {}
        self.starting = 0  # drivers on their way
        self.by_epoch: list[Planned] = []
        self.to_come = list(scenario.plan.faults)
        for planned in scenario.plan.faults:
            if planned.at_epoch is not None:
                self.by_epoch.append(planned)
            else:
                assert planned.at_ms is not None
                self.clock.at(planned.at_ms, self.strike, planned)
                self.calm_ms = max(self.calm_ms, planned.at_ms + lasts_ms(planned.fault))
        for number, scale in enumerate(scenario.scales):
            self.clock.at(scale.at_ms, self.ask_to_scale, number, scale)
            self.calm_ms = max(self.calm_ms, scale.at_ms)
        for number, ask in enumerate(scenario.asks):
            self.clock.at(ask.at_ms, self.ask_for_state, number, ask)
            self.calm_ms = max(self.calm_ms, ask.at_ms)
        self.driver: SimulatedDriver | None = None
        self.done = False  # the driver has stopped
        self.drivers: list[SimulatedDriver] = []

    def event_log(self, generation: int) -> EventLog | None:
        """Where a driver writes down what its controller is given."""
        if self.recordings is None:
            return None
        lines = self.recordings[generation] = []
        return EventLog(event_codec(), lines.append, sealed_plainly)

    # -- time -----------------------------------------------------------------------------------------------------

    def run(self) -> Tally:
        """To the end. Raises ``PropertyBroken`` at the first thing that must never be."""
        self.start_driver()
        clock, patience_ms = self.clock, self.scenario.patience_ms
        committed, since_ms, look_ms = 0, 0, patience_ms
        while not self.done and clock.step():
            if clock.now_ms > look_ms:  # and no fault has come meanwhile, nor is one on its way
                look_ms = max(self.calm_ms, since_ms) + patience_ms
                if clock.now_ms > look_ms and (not self.by_epoch or clock.now_ms > self.scenario.limit_ms):
                    if self.witness.commits == committed:
                        self._hanging()
                    committed, since_ms = self.witness.commits, clock.now_ms
        driver = self.driver
        if driver is None or driver.stopped is None:
            self._hanging()
        elif driver.stopped.error is not None:
            broken("progress", f"the application stopped: {driver.stopped.error}")
        self.last_look()
        return self.tally

    def forget(self) -> None:
        """It is over: let go of everything at once, instead of having it looked for."""
        for driver in self.drivers:
            vars(driver).clear()
        vars(self).clear()

    def last_look(self) -> None:
        """All sinks once more, now that everything is over."""
        self.witness.ended(self.scenario.epochs)

    def _hanging(self) -> None:
        controller = self.driver.controller if self.driver is not None else None
        seen = f"{controller.phase}, {controller.recovering}" if controller is not None else "no driver"
        patience_s = self.scenario.patience_ms / 1000
        broken(
            "progress", f"nothing is wrong since {self.calm_ms} ms; no commit for {patience_s:g} s, nor done: {seen}"
        )

    def some(self, what: str) -> int:
        """How long it takes this time."""
        low, high = self._times[what]
        return low + int(self.random.random() * (high - low + 1))

    def mishap(self, factor: float = 1.0) -> bool:
        return self.random.random() < self.mishaps * factor

    def pulse_ms(self, driver: SimulatedDriver) -> int:
        """When hearts beat next."""
        return self.pulse

    def next_slice_ms(self, epoch: Epoch) -> int:
        """How long the sources make the next epoch wait."""
        return 0

    def has_more(self, epoch: Epoch) -> bool:
        """Do the sources have rows for this epoch?"""
        return epoch <= self.scenario.epochs

    def arrived(self, source: SourceName) -> int:
        """How many rows came since the last epoch; now and then none."""
        return 0 if self.random.random() < 0.1 else self.random.randint(1, self.scenario.epoch_rows)

    def size_of(self, shard: ShardId, epoch: Epoch) -> int:
        """How large a shard is, to be told: sizes rise and fall, each shard's in its own time."""
        return 100 * ((epoch + 3 * shard.index) % 7)

    def spoiled(self, command: do.RunEpoch) -> JobFailed | None:
        """Does this epoch fail by itself, for instance because user code raises? A seam for tests."""
        return None

    # -- drivers --------------------------------------------------------------------------------------------------

    def start_driver(self) -> None:
        try:
            self.root.reach(self.clock.now_ms)
        except StorageFailed:
            self.clock.after(500, self.start_driver)
            return
        self.starting = 0
        self.tally.drivers += 1
        self.driver = SimulatedDriver(self)
        self.drivers.append(self.driver)

    # -- faults ---------------------------------------------------------------------------------------------------

    def strike(self, planned: Planned) -> None:
        """A fault comes."""
        if not self.done:
            self.to_come.remove(planned)
            self.log.append((self.clock.now_ms, 0, planned))
            self.calm_ms = max(self.calm_ms, self.clock.now_ms + lasts_ms(planned.fault))
            inject(self, planned.fault)

    def ask_to_scale(self, number: int, scale: Scale) -> None:
        """Somebody wants an operator scaled; nobody hears it while no driver is there."""
        if self.driver is not None and not self.done:
            slots = split_slots(scale.shards, scale.weights)
            self.driver.handle(on.ScaleRequested(ScaleRequest(number, scale.operator, slots)))

    def ask_for_state(self, number: int, ask: Ask) -> None:
        """Somebody wants a checkpoint now, or the newest one restored."""
        if self.driver is not None and not self.done:
            if ask.standby is not None:
                self.driver.handle(on.StandbyRequested(number, *ask.standby))
                return
            wanted = (
                on.RestoreRequested(number, ask.restored)
                if ask.restored is not None
                else on.CheckpointRequested(number)
            )
            self.driver.handle(wanted)

    # -- machines -------------------------------------------------------------------------------------------------

    def free_machine(self) -> Machine | None:
        """Where Spark would start a host: a machine that is up and has room, the emptiest."""
        return self._room.emptiest(self.clock.now_ms)

    def process_started(self, host: Host) -> None:
        self.processes[host.machine.number].append(host)
        self._room.taken(host.machine, 1)

    def process_ended(self, host: Host) -> None:
        host.alive = False
        self.processes[host.machine.number].remove(host)
        self._room.taken(host.machine, -1)
        self.serve_waiting()

    def serve_waiting(self) -> None:
        """There may be room again."""
        waiting, self.waiting = self.waiting, []
        for driver in waiting:
            driver.hosts.place()

    # -- what drivers tell ----------------------------------------------------------------------------------------

    def recovery_began(self, generation: int, reason: str) -> None:
        pass

    def recovery_ended(self, plan: RecoveryPlan, duration_ms: int) -> None:
        self.tally.modes[plan.name] += 1
        self.tally.recoveries_ms.append(duration_ms)

    def scaled(self, shards: int, before: int) -> None:
        self.tally.scaled += 1

    def epoch_finished(self, unit: UnitName, epoch: Epoch) -> None:
        self.tally.epochs += 1
        if epoch <= self._furthest.get(unit, 0):  # the application went back
            self.tally.replayed_rows += self.rows_of(unit, epoch)
        else:
            self._furthest[unit] = epoch
        if self.by_epoch and self.driver is not None:
            done = min(self.driver.finished.values())
            for planned in [p for p in self.by_epoch if p.at_epoch is not None and p.at_epoch <= done]:
                self.by_epoch.remove(planned)
                self.clock.after(self.random.randint(0, 20), self.strike, planned)

    def replayed(
        self, driver: SimulatedDriver, unit: UnitName, shards: frozenset[ShardId], first: Epoch, last: Epoch
    ) -> None:
        total = len(driver.controller.routing.shards_of(self.topology.unit(unit).operators))
        for number in range(first, last + 1):
            self.tally.replayed_rows += self.rows_of(unit, Epoch(number)) * len(shards) // max(total, 1)

    def rows_of(self, unit: UnitName, epoch: Epoch) -> int:
        """How many rows it means to work on this epoch again."""
        return self.witness.oracle.output(unit, epoch).size

    def trimmed(self, epoch: Epoch) -> None:
        """Up to here everything is covered by checkpoints."""

    def snapshots_commanded(self, command: do.TakeSnapshots) -> None:
        """A host must take snapshots; a synchronous scheme stops the unit until it has."""

    def snapshots_taken(self, event: Forked) -> None:
        """It has, and the unit may go on."""

    def checkpoint_committed(self, duration_ms: int, manifest: Manifest) -> None:
        self.tally.checkpoints += 1
        self.tally.checkpoint_ms += duration_ms
