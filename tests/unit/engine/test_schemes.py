"""Adaptive, oracle and baseline in the controller's small world: with faults, corrupt files and drivers that die."""

from __future__ import annotations

from typing import Any

import pytest
from world import World, chain, diamond

from perseid.checkpoint.life import CompletedCheckpoint
from perseid.checkpoint.policy import Reason
from perseid.checkpoint.schemes import Scheme, adaptive, baseline, oracle, parallel, source
from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller, Past
from perseid.graph.topology import Topology
from perseid.vocabulary import CheckpointId, Epoch, HostId, ShardId, UnitName

TOPOLOGIES = {
    "one unit": chain(1),
    "two units": chain(2),
    "four units": chain(4, shards=1),
    "three units, durable": chain(3, shards=1, preservation="durable"),
    "diamond": diamond(),
}
CURVE = [(n / 10, (n * 137) % 11) for n in range(100)]


class SizedWorld(World):
    """A world in which shards have sizes, checkpoints and ledger are trimmed in earnest, and a driver may die."""

    def __init__(self, topology: Topology, scheme: Scheme, **more: Any) -> None:
        super().__init__(scheme.preserved(topology), scheme=scheme, **more)
        self.watches: dict[tuple[HostId, ShardId], SizeWatch] = {}
        self.trimmed_to = Epoch(0)
        self.crashes = 0

    def _do(self, command: do.Command) -> None:
        match command:
            case do.AskSizes():
                for host_id in list(self.hosts):
                    self.later(self.random.randint(1, 20), lambda host=host_id: self._answer(host, command))
            case do.Quieten():
                for watch in self.watches.values():
                    watch.quieten()
            case do.Trim(delete, oldest):
                for gone in delete:
                    self.manifests.pop(gone, None)
                    self.files = {key: saved for key, saved in self.files.items() if key[0] != gone}
                self.trimmed_to = Epoch(min(oldest.cuts.values()))
        super()._do(command)

    def _answer(self, host: HostId, ask: do.AskSizes) -> None:
        mine = [w for (h, s), w in self.watches.items() if h == host and (ask.shards is None or s in ask.shards)]
        if self.hosts[host].alive and not self.hosts[host].silent and mine:
            self.tell(on.SizesReported(host, ask.query, tuple(w.answer(ask) for w in mine)))

    def _restore(self, command: do.RestoreShards) -> None:
        super()._restore(command)
        self.watches = {
            key: w for key, w in self.watches.items() if key[1] not in {r.shard for r, _, _ in command.shards}
        }
        self.watches |= {(command.host, r.shard): SizeWatch(r.shard) for r, _, _ in command.shards}

    def _finished(self, command: do.RunEpoch, answers: dict[ShardId, str]) -> None:
        for shard in answers:
            watch = self.watches.get((command.routing.host_of(shard), shard))  # type: ignore[arg-type]
            size = 100 * ((command.epoch + 3 * shard.index) % 7)
            for notice in watch.sized(self.now, size) if watch is not None else ():
                self.tell(notice)
        super()._finished(command, answers)

    def _input(self, unit: UnitName, epoch: Epoch) -> str:
        assert epoch > self.trimmed_to or not self.topology.unit(unit).sources, "the sources no longer have it"
        return super()._input(unit, epoch)

    def crash_driver(self) -> None:
        """The driver and all it knew are gone; a new one starts on the root."""
        self.crashes += 1
        completed = [
            CompletedCheckpoint(m.id, m.cuts, m.saved, m.inflight, needs=self._needs(m))
            for m in sorted(self.manifests.values(), key=lambda m: -m.id)
            if min(m.cuts.values()) >= self.trimmed_to
        ]
        admitted = self.controller.pipeline.admitted
        next_id = CheckpointId(max([*self.manifests, 0]) + 10)
        durable = {s.name for s in self.topology.streams if s.durable}
        self.streams = {key: rows for key, rows in self.streams.items() if key[0] in durable}
        self.hosts, self.heap, self.watches, self.cancelled = {}, [], {}, set()
        past = Past(completed, admitted, Epoch(self.trimmed_to + 1), next_id)
        self.controller = Controller(self.topology, self.settings, past, self.now)
        self.tell(on.Ticked())
        self.later(20, self._tick)

    def _needs(self, manifest: Any) -> frozenset[CheckpointId]:
        return frozenset(
            key[0] for key, saved in self.files.items() if any(s is saved for s in manifest.saved.values())
        )


def schemes(seed: int) -> dict[str, Scheme]:
    return {
        "adaptive": adaptive(0.4, profile_periods=2),
        "baseline": baseline(0.6, seed=seed),
        "oracle": oracle(CURVE, 0.4),
    }


def expected(world: World) -> dict[object, object]:
    return World(world.topology, epochs=world.epochs, seed=999, scheme=parallel(0.4)).run().sinks  # type: ignore[return-value]


def began(world: World) -> list[do.CheckpointBegan]:
    return [c for _, c in world.log if isinstance(c, do.CheckpointBegan)]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", ["adaptive", "baseline", "oracle"])
def test_every_epoch_reaches_the_sink_once_when_nothing_fails(topology: str, scheme: str) -> None:
    world = SizedWorld(TOPOLOGIES[topology], schemes(1)[scheme], epochs=60)
    world.run()
    assert world.stopped == do.StopApplication(None)
    assert world.sinks == expected(world)
    assert len(world.manifests) > 1
    reasons = [c.decision.reason for c in began(world)]
    assert set(reasons) - {Reason.FINAL}


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", ["adaptive", "baseline", "oracle"])
@pytest.mark.parametrize("seed", range(7))
def test_output_is_the_same_whatever_hosts_die(topology: str, scheme: str, seed: int) -> None:
    world = SizedWorld(TOPOLOGIES[topology], schemes(seed)[scheme], seed=seed, epochs=80, faults=8.0, corrupt=0.05)
    world.run()
    assert world.stopped == do.StopApplication(None), world.stopped
    assert world.kills > 0
    assert world.sinks == expected(world)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("scheme", ["adaptive", "baseline", "oracle"])
@pytest.mark.parametrize("seed", range(7))
def test_output_is_the_same_when_the_driver_dies_again_and_again(topology: str, scheme: str, seed: int) -> None:
    world = SizedWorld(TOPOLOGIES[topology], schemes(seed)[scheme], seed=seed, epochs=100, faults=0.0)
    choose = world.random

    def crash() -> None:
        world.crash_driver()
        if world.crashes < 4:
            world.later(choose.randint(1000, 4000), crash)

    world.later(choose.randint(1000, 4000), crash)
    world.run()
    assert world.stopped == do.StopApplication(None), world.stopped
    assert world.crashes > 1
    assert world.sinks == expected(world)


# -- adaptive ---------------------------------------------------------------------------------------------------------


def test_adaptive_finds_small_moments_in_the_world() -> None:
    world = SizedWorld(chain(1), adaptive(1.0, profile_periods=2), epochs=400)
    world.run()
    reasons = [c.decision.reason for c in began(world)]
    assert reasons.count(Reason.MINIMUM) > len(reasons) / 3, reasons


def test_a_period_shorter_than_an_epoch_is_noted_once() -> None:
    world = SizedWorld(chain(1), parallel(0.005), epochs=30)
    world.run()
    notes = [c for _, c in world.log if isinstance(c, do.Noted) and c.kind == "period_too_short"]
    assert len(notes) == 1
    assert notes[0].facts["period_ms"] == 5


# -- baseline ---------------------------------------------------------------------------------------------------------


def test_under_baseline_a_unit_checkpoints_alone_and_is_restored_alone() -> None:
    world = SizedWorld(chain(3, shards=1), baseline(0.5, seed=3), epochs=100, hosts=3, spares=1)
    world.later(4000, lambda: world.kill(world.controller.routing.of("o1")[0].host))  # type: ignore[arg-type]
    world.run()
    assert all(c.decision.units is not None and len(c.decision.units) == 1 for c in began(world))
    plans = [c.plan for _, c in world.log if isinstance(c, do.RecoveryBegan)]
    assert plans[1].mode == "shards" and set(plans[1].base) == {"u1"}
    assert plans[1].base["u1"] > 0, "from its own snapshot"  # type: ignore[index]
    assert world.sinks == expected(world)


def test_under_baseline_preserved_input_is_trimmed_when_the_unit_below_is_saved() -> None:
    world = SizedWorld(chain(2, shards=1), baseline(0.5, seed=3), epochs=100)
    kept: list[int] = []
    original = world._finished

    def finished(command: do.RunEpoch, answers: Any) -> None:
        newest = world.controller.checkpoints.newest
        covered = newest.own_cut(UnitName("u1")) if newest else 0
        epochs = sorted(epoch for _, epoch in world.streams)
        assert not epochs or epochs[0] == covered + 1, "all that is not covered, and nothing else"
        kept.append(len(epochs))
        original(command, answers)

    world._finished = finished  # type: ignore[method-assign]
    world.run()
    assert max(kept) > 2 and kept[-1] < 60


def test_under_baseline_old_checkpoints_go_also_when_drivers_die() -> None:
    world = SizedWorld(chain(3, shards=1), baseline(0.3, seed=3), epochs=400)

    def crash() -> None:
        world.crash_driver()
        if world.crashes < 6:
            world.later(5000, crash)

    world.later(5000, crash)
    world.run()
    assert world.crashes == 6 and len(began(world)) > 150
    committed = {checkpoint for checkpoint, _ in world.files if checkpoint in world.manifests}
    assert len(world.manifests) < 30 and committed == set(world.manifests)
    assert world.sinks == expected(world)


def test_under_baseline_only_the_unit_that_is_saved_waits() -> None:
    world = SizedWorld(chain(2, shards=1), baseline(0.5, seed=3), epochs=60)
    world.run()
    snapshots = [c for _, c in world.log if isinstance(c, do.TakeSnapshots)]
    assert snapshots and all(c.synchronous for c in snapshots)
    ran_beside = 0
    saving: str | None = None
    for _, entry in world.log:
        match entry:
            case do.TakeSnapshots(_, _, unit):
                saving = unit
            case do.RunEpoch(unit) if saving is not None:
                assert unit != saving
                ran_beside += 1
            case on.SnapshotsForked():
                saving = None
    assert ran_beside > 0


@pytest.mark.parametrize("other", [parallel(0.4), source(0.4), adaptive(0.4)])
@pytest.mark.parametrize("seed", range(6))
def test_a_root_may_change_between_baseline_and_a_coordinated_scheme(other: Scheme, seed: int) -> None:
    topology = baseline().preserved(chain(3, shards=1))
    world = SizedWorld(topology, baseline(0.5, seed=seed), epochs=150, seed=seed)

    def change() -> None:
        now = other if world.crashes % 2 == 0 else baseline(0.5, seed=seed)
        world.settings = type(world.settings)(now, hosts=2, spares=1)
        world.crash_driver()
        if world.crashes < 4:
            world.later(2500, change)

    world.later(2500, change)
    world.run()
    assert world.stopped == do.StopApplication(None)
    assert world.crashes == 4
    assert world.sinks == expected(world)
