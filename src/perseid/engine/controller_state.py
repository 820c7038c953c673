"""What the controller knows, and its parts. It is changed only by events, and by what the parts want changed (``make_changes``)."""

from __future__ import annotations

from dataclasses import dataclass, field

from perseid.checkpoint.acknowledgements import Acknowledgements
from perseid.checkpoint.schemes import UnitSchemes
from perseid.engine import commands as do
from perseid.engine.checkpointing import Checkpointing
from perseid.engine.host_starts import HostStarts
from perseid.engine.notices import Outcome
from perseid.engine.pipeline import Pipeline
from perseid.engine.progress import Phase
from perseid.engine.recovering import Recovering
from perseid.engine.recovery_steps import RecoverySteps
from perseid.engine.scaling_steps import ScalingSteps
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.engine.standby_steps import StandbySteps
from perseid.engine.state_requests import StateRequestSteps
from perseid.engine.view import View
from perseid.graph.topology import Topology
from perseid.recovery.detection import Detector
from perseid.scaling.bottleneck import Bottlenecks
from perseid.scaling.machine import Scaling
from perseid.scaling.pool import Pool
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.vocabulary import Attempt, Epoch, HostId, OperatorName, UnitName


@dataclass(slots=True)
class ControllerState:
    """Everything that is known."""

    topology: Topology
    settings: EngineSettings
    past: RootHistory
    now_ms: int
    phase: Phase = "starting"
    hosts: frozenset[HostId] = frozenset()
    admitting: bool = False  # an AdmitEpoch is out
    abandoning: bool = False  # and was taken back
    sources_idle: bool = False  # nothing new at the last look; the shell looks again by itself
    stopping: bool = False
    error: str | None = None
    # These may have rows in the dead letters. What sinks hold was computed without them, so every replay leaves them out, too.
    set_aside: dict[tuple[UnitName, Epoch], frozenset[OperatorName]] = field(default_factory=dict)
    final_failures: int = 0  # of the last checkpoint
    final_failure: str = ""  # and why the newest of them
    trims: list[do.Trim] = field(default_factory=list)  # wait for the end of a recovery
    oldest_epoch: Epoch = Epoch(1)
    faults: int = 0
    numbers: dict[OperatorName, int] = field(default_factory=dict)  # the highest ever given to a shard, used or not
    pipeline: Pipeline = field(init=False)
    detector: Detector = field(init=False)
    checkpoints: Checkpointing = field(init=False)
    acknowledgements: Acknowledgements = field(init=False)
    routing: RoutingTable = field(init=False)
    pool: Pool = field(init=False)
    starts: HostStarts = field(init=False)
    recovery: RecoverySteps = field(init=False)
    scale: ScalingSteps = field(init=False)
    asked: StateRequestSteps = field(init=False)
    standby: StandbySteps = field(init=False)

    def __post_init__(self) -> None:
        s = self.settings
        self.pipeline = Pipeline(self.topology, s.queue, self.past.admitted)
        self.detector = Detector(s.heartbeat_ms)
        even = {o: numbered(even_slots(count)) for o, count in self.topology.operators.items()}
        self.routing = RoutingTable.initial({**even, **self.past.shards})
        found, shards = list(self.past.checkpoints), self.routing.routes
        self.checkpoints = Checkpointing(
            self.topology,
            UnitSchemes(s.scheme, s.unit_schemes),
            s.keep,
            self.past.next_checkpoint,
            found,
            self.now_ms,
            shards,
        )
        self.acknowledgements = Acknowledgements(self.topology)
        self.covered_now()
        self.recovery = RecoverySteps(Recovering(set(shards), True, "start", self.now_ms, step_ms=self.now_ms))
        self.scale = ScalingSteps(Bottlenecks(s.scaling, s.scalable) if s.scaling is not None else None)
        self.asked = StateRequestSteps()
        consumers = {u.name: frozenset(self.topology.downstream(u.name)) for u in self.topology.units}
        self.standby = StandbySteps(
            dict(s.standby), consumers, {u.name: tuple(u.operators) for u in self.topology.units}
        )
        self.pool = Pool(s.hosts, s.spares, s.most_hosts)
        self.starts = HostStarts(s.hosts, s.start_timeout_ms, s.slots, self.now_ms)
        self.settle_pool()
        self.oldest_epoch = self.past.oldest_epoch
        self.set_aside = dict(self.past.set_aside)

    # -- what others may look at ----------------------------------------------------------------------------------

    @property
    def recovering(self) -> Recovering | None:
        """What is lost, and how far the way back has been gone."""
        return self.recovery.current

    @property
    def scaling(self) -> Scaling | None:
        """The scale that is on its way."""
        return self.scale.current

    @property
    def scale_replay(self) -> Attempt | None:
        """The job that feeds new shards, beside their unit's own."""
        return self.scale.attempt

    @property
    def trouble(self) -> str:
        """Why the next epoch is not to be had, in a sentence; empty while all is well."""
        said = [
            f"unit {unit!r}: epoch {state.finished + 1}, attempt {state.tries + 1}: {state.error}"
            for unit, state in self.pipeline.units.items()
            if state.tries
        ]
        return "; ".join(filter(None, [self.starts.trouble, *said, *self.recovery.trouble(self.view())]))

    def view(self) -> View:
        """What parts may know, as of now."""
        recovery = self.recovery
        return View(
            self.now_ms,
            self.topology,
            self.settings,
            self.phase == "starting",
            self.stopping,
            self.hosts,
            self.pool,
            self.routing,
            self.pipeline,
            self.checkpoints,
            recovery.lost,
            recovery.restored,
            self.oldest_epoch,
            self.set_aside,
            self.numbers,
            self.standby.copy_hosts if self.standby.used else frozenset(),
        )

    # -- what follows from several parts ---------------------------------------------------------------------------

    def settle_pool(self) -> None:
        """As many hosts as at the start; more where operators were scaled out beyond what they were declared with."""
        counts = {o: len(self.routing.of(o)) for o in self.topology.operators}
        scaled = [count for o, count in counts.items() if count > self.topology.operators[o]]
        self.pool = self.pool.settled(max([self.settings.hosts, *scaled]))

    def released(self) -> list[Outcome]:
        """Stream epochs that nobody will ask for again."""
        holds = self.checkpoints.holds + self.scale.holds(self.topology)
        if self.recovery.current is not None:
            holds += self.recovery.current.holds(self.topology)
        return [do.ReleaseStream(name, upto) for name, upto in self.acknowledgements.forgettable(holds).items()]

    def covered_now(self) -> None:
        """Checkpoints acknowledge what they cover."""
        newest = self.checkpoints.newest
        units = self.pipeline.units
        self.acknowledgements.covered({u: newest.own_cut(u) if newest is not None else Epoch(0) for u in units})

    def check(self) -> None:
        """Assert the invariants; every test calls it after every event."""
        for part in (
            self.pipeline,
            self.detector,
            self.checkpoints,
            self.routing,
            self.recovery,
            self.scale,
            self.starts,
            self.standby,
        ):
            part.check()
        if self.scaling is not None:
            assert self.scaling.hosts <= self.hosts
            assert self.recovering is None or not self.scaling.stands_on_checkpoint
        if self.recovering is not None:
            assert all(steps.done is not None for steps in self.checkpoints.pending.values())
            for unit in self.topology.units_of(self.recovering.lost) if self.recovering.plan is not None else ():
                state = self.pipeline.units[unit]
                assert state.idle or state.replaying or state.cancelled
        else:
            assert self.routing.hosts <= self.hosts, (
                f"shards without a living host: on {self.routing.hosts - self.hosts}"
            )
