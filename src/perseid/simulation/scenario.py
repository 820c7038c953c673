"""A scenario: everything a run depends on, drawn from a seed. The same seed and options give the same run, everywhere.

Settings that nobody names are drawn, too: queue, keep, heartbeat, period, shards. So over many seeds all combinations are tried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from perseid.checkpoint.schemes import (
    Scheme,
    adaptive,
    baseline,
    oracle,
    parallel,
    source,
    source_replay,
    upstream_backup,
)
from perseid.duration import every
from perseid.engine.admission import AdmissionRules
from perseid.engine.settings import EngineSettings
from perseid.errors import SettingsError
from perseid.graph.topology import Topology
from perseid.scaling.bottleneck import AutoScaling
from perseid.simulation import graphs, loads
from perseid.simulation.faults import CutOff, Driver, Fault, FaultPlan, Kill, Pause, Planned, Slow, Storage, Trouble
from perseid.simulation.loads import Load
from perseid.simulation.site import Site, Target
from perseid.standby.modes import Mode, Standby, Timing
from perseid.vocabulary import SLOTS, OperatorName

_RECORDED = [(n / 10, (n * 137) % 11) for n in range(100)]
SCHEMES: dict[str, Callable[[float], Scheme]] = {
    "source": source,
    "parallel": parallel,
    "adaptive": lambda period: adaptive(period, profile_periods=2),
    "baseline": baseline,
    "oracle": lambda period: oracle(_RECORDED, period),
}
"""Schemes by name, each made from a period in seconds. A new scheme joins the simulation by joining this."""
UNCHECKPOINTED = {"upstream_backup": upstream_backup, "source_replay": source_replay}
"""Those that are simulated only when they are named."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, from … to, in milliseconds."""

    message: Range = (1, 5)
    job: Range = (3, 30)  # one stage of an epoch's job
    replay: Range = (2, 60)  # one job of a replay
    snapshot: Range = (5, 300)
    restore: Range = (5, 200)
    copy: Range = (1, 60)  # of a host's state on its way to another
    start: Range = (50, 900)  # of a host
    storage: Range = (1, 10)
    lease: int = 10_000


@dataclass(frozen=True, slots=True)
class Scale:
    """At this moment somebody wants this operator to have so many shards; slots may weigh differently."""

    at_ms: int
    operator: OperatorName
    shards: int
    weights: tuple[float, ...] | None = None  # of the slots; None: they are all alike


@dataclass(frozen=True, slots=True)
class Ask:
    """At this moment somebody wants a checkpoint, or (``restored``) the shards of an operator to be made anew, or another standby."""

    at_ms: int
    restored: OperatorName | None = None
    standby: tuple[OperatorName, Standby] | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run, completely described."""

    seed: int
    topology: Topology
    settings: EngineSettings
    site: Site
    epochs: int
    plan: FaultPlan = FaultPlan()
    slots: int = 2  # hosts that fit on a machine
    epoch_rows: int = 1000  # at most, per source
    state_bytes: int = 16_000  # of a shard
    chunks: int = 3  # a stage's shards are asked in so many steps
    mishaps: float = 0.05  # how often a task is tried again, outlives its job, or is cut short
    kept: float = 0.5  # how often the input that a dead host kept is found and whole, epoch by epoch
    patience_ms: int = 120_000  # after the last fault something more is committed in every such span, until all is done
    limit_ms: int = 3_600_000
    times: Times = Times()
    scales: tuple[Scale, ...] = ()
    load: Load | None = None  # with a scaling policy: what hosts have to do
    admission: AdmissionRules = AdmissionRules()
    asks: tuple[Ask, ...] = ()
    copies: bool = False  # snapshots have a second copy on the machine's own disk, and a backup on another host


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may fix; the rest is drawn."""

    hosts: int | None = None
    epochs: int = 200
    scheme: str | None = None
    faults: FaultPlan | None = None
    standby: Mode | None = None  # of every operator; None: drawn
    settings: Mapping[str, int] = field(default_factory=dict)  # queue, keep, spares, heartbeat_ms, period_ms, shards


DRAWN = {  # settings that may be fixed, from … to
    "queue": (1, 1_000),
    "keep": (1, 1_000),
    "spares": (0, 1_000),
    "heartbeat_ms": (2, 60_000),
    "period_ms": (1, 3_600_000),
    "shards": (1, SLOTS),
}


def scheme_named(name: str, period_s: float) -> Scheme:
    if name in UNCHECKPOINTED:
        return UNCHECKPOINTED[name]()
    if name not in SCHEMES:
        raise SettingsError(f"no scheme {name!r} to simulate; there are: {', '.join(SCHEMES)}")
    return SCHEMES[name](period_s)


def drawn(seed: int, options: Options | None = None) -> Scenario:
    """The scenario of a seed."""
    options = options or Options()
    if options.epochs < 1 or (options.hosts is not None and options.hosts < 1):
        raise SettingsError(
            f"a simulation needs hosts and epochs, got {options.hosts} hosts and {options.epochs} epochs"
        )
    if unknown := sorted(options.settings.keys() - DRAWN.keys()):
        raise SettingsError(f"no setting {unknown[0]!r} to simulate; there are: {', '.join(DRAWN)}")
    for name, value in options.settings.items():
        low, high = DRAWN[name]
        if not low <= value <= high:
            raise SettingsError(f"cannot simulate {name}={value}: expected a number from {low} to {high}")
    draw = random.Random(seed)
    given = options.settings
    hosts = draw.choice([2, 3, 5, 8, 20])
    hosts = options.hosts or hosts
    spares = given.get("spares", draw.choice([0, 1, 1, 2]))
    shards = given.get("shards", draw.choice([2, 4, 8, 12, 24]))
    period_ms = given.get("period_ms", draw.choice([100, 300, 600, 1500, 5000]))
    scheme = scheme_named(options.scheme or draw.choice(list(SCHEMES)), period_ms / 1000)
    settings = EngineSettings(
        scheme,
        hosts=hosts,
        spares=spares,
        queue=given.get("queue", draw.choice([1, 2, 3, 8])),
        keep=given.get("keep", draw.choice([1, 2, 2, 3, 4])),
        heartbeat_ms=given.get("heartbeat_ms", draw.choice([50, 100, 200])),
        most_hosts=hosts + spares + draw.choice([0, 1, 2, 4]),
        parallel_recovery=draw.choice([1, 1, 1, 2, 3]),
    )
    machines = (hosts + spares + 1) // 2 + draw.randint(1, 3)
    site = Site(machines, rack_machines=draw.choice([2, 4]), power_racks=2)
    topology = scheme.preserved(graphs.drawn(draw, shards))
    settings = replace(settings, scalable=frozenset(topology.operators))
    plan = options.faults or drawn_faults(draw, site, options.epochs * 60, keep=settings.keep)
    kept = draw.choice([0.0, 0.5, 0.95, 1.0])
    scales = drawn_scaling(draw, topology, options.epochs * 60)
    load = drawn_load(draw, topology, options.epochs * 60)
    if load is not None:  # reports are so frequent that some changes fit into the run
        settings = replace(settings, scaling=AutoScaling(patience=draw.choice([2, 6]), most=8))
    rules = AdmissionRules(draw.choice([None, None, None, 5, 80]), draw.random() < 0.2)
    asks = drawn_asks(draw, topology, options.epochs * 60)
    copies = draw.random() < 0.3
    standby = {o: drawn_standby(draw, options.standby, settings.heartbeat_ms) for o in sorted(topology.operators)}
    settings = replace(settings, standby={o: s for o, s in standby.items() if s.guards})
    asks += drawn_changes(draw, options.standby, topology, options.epochs * 60, settings.heartbeat_ms)
    scenario = Scenario(
        seed,
        topology,
        settings,
        site,
        options.epochs,
        plan,
        kept=kept,
        scales=scales,
        load=load,
        admission=rules,
        asks=asks,
        copies=copies,
    )
    plan.check(site, epochs=options.epochs, limit_ms=scenario.limit_ms)
    return scenario


def drawn_scaling(draw: random.Random, topology: Topology, span_ms: int) -> tuple[Scale, ...]:
    """Operators are scaled out and in; now and then two at once, of which one is refused."""
    moments = sorted(draw.randint(100, max(101, span_ms)) for _ in range(draw.choice([0, 0, 1, 2, 4])))
    operators = sorted(topology.operators)
    return tuple(
        Scale(at_ms, draw.choice(operators), draw.choice([1, 2, 3, 4, 8]), drawn_weights(draw)) for at_ms in moments
    )


def drawn_weights(draw: random.Random) -> tuple[float, ...] | None:
    """Every other time hosts have seen that some slots have more to do than others."""
    return None if draw.random() < 0.5 else tuple(draw.paretovariate(0.7) for _ in range(SLOTS))


def drawn_asks(draw: random.Random, topology: Topology, span_ms: int) -> tuple[Ask, ...]:
    """Now and then somebody asks for a checkpoint, or for an operator's shards to be made anew."""
    moments = sorted(draw.randint(100, max(101, span_ms)) for _ in range(draw.choice([0, 0, 0, 1, 3])))
    operators = sorted(topology.operators)
    return tuple(Ask(at_ms, draw.choice([None, draw.choice(operators)])) for at_ms in moments)


def drawn_standby(draw: random.Random, mode: Mode | None, heartbeat_ms: int) -> Standby:
    """What stands ready for an operator: in most worlds nothing."""
    modes: list[Mode] = ["none", "none", "none", "none", "none", "hybrid", "active", "passive"]
    drawn = draw.choice(modes)
    chosen = drawn if mode is None else mode
    heartbeat = every(milliseconds=max(20, heartbeat_ms))
    give_up = every(milliseconds=2 * heartbeat_ms + draw.choice([100, 1_000, 5_000]))
    refresh, share = every(milliseconds=draw.choice([50, 300, 1_000])), draw.choice([1, 2, 5])
    timings: list[Timing] = ["sweeping", "sweeping", "individual", "synchronous"]
    timing = draw.choice(timings)
    if chosen == "none":
        return Standby("none")
    return Standby(chosen, heartbeat, give_up, refresh, share, timing)


def drawn_changes(
    draw: random.Random, mode: Mode | None, topology: Topology, span_ms: int, heartbeat_ms: int
) -> tuple[Ask, ...]:
    """Now and then somebody wants another standby while the application runs."""
    moments = sorted(draw.randint(100, max(101, span_ms)) for _ in range(draw.choice([0, 0, 0, 0, 1, 2])))
    operators = sorted(topology.operators)
    changes = [(at_ms, draw.choice(operators), drawn_standby(draw, None, heartbeat_ms)) for at_ms in moments]
    return tuple([Ask(at_ms, standby=(operator, standby)) for at_ms, operator, standby in changes if mode is None])


def drawn_load(draw: random.Random, topology: Topology, span_ms: int) -> Load | None:
    """In some worlds an operator is scaled by itself, after a load that rises, falls, bursts or goes in waves."""
    most, kind = draw.choice([1.5, 3.0, 6.0]), draw.choice(["none", "none", "rising", "falling", "bursts", "waves"])
    operator, noise = draw.choice(sorted(topology.operators)), draw.choice([0.03, 0.3])
    match kind:
        case "rising":
            at = loads.rising(span_ms, most)
        case "falling":
            at = loads.falling(span_ms, most)
        case "bursts":
            at = loads.bursts(span_ms // 3 + 1, span_ms // 9, most)
        case "waves":
            at = loads.waves(span_ms // 2 + 1, most)
        case _:
            return None
    return Load(operator, at, noise, every_ms=400, skew=draw.choice([1.0, 1.0, 3.0]))


def drawn_faults(draw: random.Random, site: Site, span_ms: int, *, keep: int) -> FaultPlan:
    """Some faults over a run that would take about ``span_ms``; many of them come while the one before is being survived."""
    faults: list[Planned] = []
    for _ in range(draw.choice([0, 1, 2, 4, 8, 12])):
        at_ms = draw.randint(200, max(201, span_ms))
        faults.append(Planned(drawn_fault(draw, site, keep), at_ms))
        while draw.random() < 0.4:
            at_ms += draw.choice([5, 40, 400, 1500])
            faults.append(Planned(drawn_fault(draw, site, keep), at_ms))
    return FaultPlan(tuple(sorted(faults, key=lambda planned: planned.at_ms or 0)))


def drawn_fault(draw: random.Random, site: Site, keep: int) -> Fault:
    kind = draw.choices(["machine", "rack", "power", "everything"], [12, 3, 2, 2])[0]
    numbers = {"machine": site.machines, "rack": site.racks, "power": site.powers}
    target = Target(kind, draw.randrange(numbers[kind]) if kind in numbers else 0)
    long_ms = draw.choice([30, 300, 900, 2_000, 6_000])
    match draw.choices(["kill", "down", "pause", "slow", "cut off", "storage", "driver"], [10, 5, 6, 2, 4, 5, 3])[0]:
        case "kill":
            return Kill(target)
        case "down":
            return Kill(target, long_ms)
        case "pause":
            return Pause(target, long_ms)
        case "slow":
            return Slow(target, long_ms, draw.choice([2.0, 5.0, 30.0]))
        case "cut off":
            return CutOff(target, long_ms)
        case "storage":
            troubles: list[Trouble] = ["failing", "torn", "slow", "corrupt"]
            trouble = draw.choice(troubles if keep > 1 else troubles[:3])
            return Storage(trouble, 0 if trouble == "corrupt" else long_ms)
        case _:
            return Driver(long_ms, draw.choice([0, 0, 500, 3_000, 12_000]))
