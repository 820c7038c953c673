"""The simulation itself: seeds repeat, schemes join by a registry, zombies change nothing, drivers take over from one another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import TestWorld, calm

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.messages import ReleaseBackup, ToHost
from perseid.simulation import scenario as scenarios
from perseid.simulation.faults import CutOff, Driver, FaultPlan, Kill, Pause, Planned, Storage
from perseid.simulation.graphs import chain
from perseid.simulation.runs import simulate
from perseid.simulation.scenario import Options, drawn
from perseid.simulation.site import Target
from perseid.simulation.values import Rows


def test_the_same_seed_gives_the_same_run() -> None:
    for seed in range(5):
        one, other = (simulate(drawn(seed, Options(epochs=40))) for _ in range(2))
        assert replace(one, seconds=0) == replace(other, seconds=0)


def test_seeds_draw_all_shapes_schemes_and_settings() -> None:
    many = [drawn(seed) for seed in range(300)]
    assert {s.settings.scheme.name for s in many} == set(scenarios.SCHEMES)
    assert {len(s.topology.units) for s in many} >= {1, 2, 3, 4, 5}
    assert {s.settings.keep for s in many} == {1, 2, 3, 4}
    assert {st.preservation for s in many for st in s.topology.streams} == {
        "transient",
        "retained",
        "buffered",
        "durable",
    }


def test_a_new_scheme_joins_by_joining_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scenarios.SCHEMES, "hasty", lambda period: parallel(period / 2))
    assert simulate(drawn(3, Options(epochs=30, scheme="hasty"))).broken is None


def test_a_paused_host_wakes_as_a_zombie_and_changes_nothing() -> None:
    plan = FaultPlan((Planned(Pause(Target("machine", 0), 3_000), 1_500), Planned(Kill(Target("machine", 1)), 4_600)))
    given_up = []
    for seed in range(6):
        world = TestWorld(calm(chain(2, preservation="retained"), seed=seed, epochs=120, plan=plan)).to_the_end()
        dropped = [c.host for c in world.all_of(do.DropHost)]
        assert len(dropped) == len(set(dropped))
        given_up.append(len(dropped))
    assert max(given_up) >= 2, "a pause that falls into a snapshot is waited for, but not all of these do"


def test_a_host_cut_off_for_long_is_replaced_and_its_late_words_do_not_count() -> None:
    plan = FaultPlan((Planned(CutOff(Target("machine", 0), 4_000), 1_500),))
    world = TestWorld(calm(chain(2), epochs=150, plan=plan)).to_the_end()
    assert [c.host for c in world.all_of(do.DropHost)] == [1]


def test_messages_keep_their_order_also_when_a_host_falls_asleep_while_it_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = TestWorld(calm(chain(1), epochs=200))
    world.start_driver()
    while world.clock.now_ms < 2_000:
        world.clock.step()
    hosts, heard = world.driver.hosts, []  # type: ignore[union-attr]
    host = hosts.all[1]  # type: ignore[index]
    handle = host.logic.handle

    def listen(message: ToHost) -> None:
        heard.extend([message.path] if isinstance(message, ReleaseBackup) else [])
        handle(message)

    monkeypatch.setattr(host.logic, "handle", listen)
    for number, trouble in enumerate(("cut_off_ms", "asleep_ms")):
        setattr(host.machine, trouble, 3_000 + 1_000 * number)
        host.machine.away()
        hosts.send(host.id, ReleaseBackup(str(number)))
        while world.clock.now_ms < 2_200 + 200 * number:
            world.clock.step()
    while world.clock.now_ms < 5_000:
        world.clock.step()
    assert heard == ["0", "1"]


def test_a_driver_that_is_killed_is_followed_by_one_that_reads_its_past() -> None:
    plan = FaultPlan((Planned(Driver(700), 2_000), Planned(Driver(700), 4_500)))
    world = TestWorld(calm(chain(2), epochs=120, plan=plan)).to_the_end()
    assert world.tally.drivers == 3
    restored = [c.plan.checkpoint for c in world.all_of(notices.RecoveryStarted)]
    assert restored[0] is None and None not in restored[1:], "the second begins where the first had come to"


def test_a_driver_that_sleeps_too_long_wakes_fenced() -> None:
    plan = FaultPlan((Planned(Driver(0, pause_ms=14_000), 2_000),))
    world = TestWorld(calm(chain(2), epochs=300, plan=plan)).to_the_end()
    first, second = world.drivers
    assert second.stopped == do.StopApplication(None)
    assert first.stopped is None or first.stopped.error, "the first has not finished the application"
    assert world.tally.drivers == 2


def test_a_damaged_snapshot_falls_back_to_the_checkpoint_before() -> None:
    plan = FaultPlan((Planned(Storage("corrupt"), 2_500), Planned(Kill(Target("everything")), 2_505)))
    for seed in range(10):
        world = TestWorld(calm(chain(1), epochs=100, seed=seed, scheme=parallel(0.3), plan=plan)).to_the_end()
        if any(e.corrupt for e in world.all_of(on.RestoreFailed)):
            return
    pytest.fail("no restore met the damaged file")


def test_a_wrong_row_in_a_sink_is_seen_at_once() -> None:
    world = TestWorld(calm(chain(1), epochs=10)).to_the_end()
    unit = world.topology.units[0].name
    with pytest.raises(Exception, match="sinks: unit u0, epoch 3"):
        world.witness.sink_written(unit, 3, Rows(1, 2))  # type: ignore[arg-type]
