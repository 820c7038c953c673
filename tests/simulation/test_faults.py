"""Fault plans and seed files: what cannot be is named in a clear error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perseid.errors import FaultBeyondRun, OtherVersion, SettingsError, SimulationError, UnknownFault
from perseid.simulation.faults import CutOff, Driver, FaultPlan, Kill, Pause, Planned, Slow, Storage, from_json, to_json
from perseid.simulation.runs import VERSION, Summary, read_seed_file, simulate, write_seed_file
from perseid.simulation.scenario import Options, drawn
from perseid.simulation.site import Site, Target, lasting

EVERY_KIND = FaultPlan(
    (
        Planned(Kill(Target("machine", 1), 300), at_ms=500),
        Planned(Pause(Target("rack", 0), 900), at_epoch=7),
        Planned(Slow(Target("power", 0), 900, 5.0), at_epoch=9),
        Planned(CutOff(Target("everything"), 2_000), at_ms=2_500),
        Planned(Storage("torn", 300), at_ms=2_600),
        Planned(Driver(500), at_epoch=20),
    )
)


@pytest.mark.parametrize(
    ("slow", "lasts"),
    [
        ((), 100),
        (((30.0, 1_000),), 100),  # over before it begins
        (((2.0, 5_000),), 200),
        (((2.0, 1_100),), 150),  # half of it is done when that is over
        (((2.0, 1_100), (5.0, 1_050)), 50 + 50 + 70),  # 5 in the first 50 ms, 25 in the next, the rest as usual
    ],
)
def test_what_is_begun_while_things_are_slow_is_slow_as_long_as_they_are(
    slow: tuple[tuple[float, int], ...], lasts: int
) -> None:
    assert lasting(100, 1_000, *slow) == lasts


def test_a_plan_is_data_and_comes_back_from_json() -> None:
    assert from_json(json.loads(json.dumps(to_json(EVERY_KIND)))) == EVERY_KIND


def test_a_run_goes_through_exactly_the_faults_of_its_plan() -> None:
    outcome = simulate(drawn(4, Options(hosts=3, epochs=40, faults=EVERY_KIND)))
    assert outcome.broken is None
    assert outcome.faults["driver killed"] == 1 and outcome.faults["storage torn"] == 1
    assert outcome.faults["pause rack"] == 1 and outcome.faults["cut off everything"] == 1


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"fault": "explode", "at_ms": 1}, "no fault 'explode': expected one of kill, pause"),
        ({"fault": "kill", "at_ms": 1, "target": {"kind": "galaxy", "number": 0}}, "no target"),
        ({"fault": "kill", "at_ms": 1, "target": "host 3"}, "no target 'host 3'"),
        ({"fault": "kill", "target": "everything"}, "say when"),
        ({"fault": "kill", "at_ms": 1, "target": "everything", "loud": True}, "no field 'loud'"),
        ({"fault": "pause", "at_ms": 1, "target": "everything"}, "for_ms"),
        ({"fault": "storage", "at_ms": 1, "trouble": "wet"}, "no storage trouble 'wet'"),
        ({"fault": "kill", "at_ms": 1}, "target is missing"),
        ({"fault": "kill", "at_ms": "soon", "target": "everything"}, "at_ms is 'soon': expected a whole number"),
        ({"fault": "pause", "at_ms": 1, "target": "everything", "for_ms": -5}, "for_ms is -5"),
        ({"fault": "slow", "at_ms": 1, "target": "everything", "for_ms": 5, "factor": 0}, "factor is 0"),
    ],
)
def test_an_unknown_fault_or_target_is_named(entry: dict[str, object], said: str) -> None:
    with pytest.raises(UnknownFault, match="fault 1 of the plan") as told:
        from_json([entry])
    assert said in str(told.value)


def test_a_target_that_the_site_does_not_have_is_named() -> None:
    plan = FaultPlan((Planned(Kill(Target("rack", 9), 300), 5),))
    with pytest.raises(UnknownFault, match=r"at 5 ms: kill rack 9, down_ms 300: no rack 9: the site has 2 of them"):
        plan.check(Site(4, rack_machines=2), epochs=10, limit_ms=1_000)


@pytest.mark.parametrize(
    "planned", [Planned(Storage("slow", 1), at_epoch=31), Planned(Storage("slow", 1), at_ms=10**9)]
)
def test_a_fault_beyond_the_run_is_named(planned: Planned) -> None:
    with pytest.raises(FaultBeyondRun, match="the run"):
        drawn(0, Options(epochs=30, faults=FaultPlan((planned,))))


def test_a_seed_file_repeats_what_broke_with_the_same_options(tmp_path: Path) -> None:
    options = Options(hosts=3, epochs=20, scheme="source", faults=EVERY_KIND, settings={"keep": 2})
    summary = Summary()
    summary.broken.append(simulate(drawn(7, Options(hosts=3, epochs=20))))
    write_seed_file(tmp_path / "seeds.json", summary, options)
    assert read_seed_file(tmp_path / "seeds.json") == ([7], options)


def test_a_seed_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "seeds.json"
    write_seed_file(path, Summary(), Options())
    path.write_text(path.read_text().replace(f'"version": {VERSION}', '"version": 0'))
    with pytest.raises(OtherVersion, match=f"version 0 of the simulation, this is version {VERSION}"):
        read_seed_file(path)


def test_what_is_no_seed_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="cannot be read"):
        read_seed_file(tmp_path / "none.json")
    (tmp_path / "words.json").write_text('{"words": 3}')
    with pytest.raises(SimulationError, match="is no seed file"):
        read_seed_file(tmp_path / "words.json")


@pytest.mark.parametrize(
    "options",
    [
        Options(scheme="magic"),
        Options(epochs=0),
        Options(hosts=0),
        Options(settings={"colour": 3}),
        Options(settings={"keep": 0}),
        Options(settings={"shards": 257}),
    ],
)
def test_options_that_cannot_be_are_refused(options: Options) -> None:
    with pytest.raises(SettingsError):
        drawn(0, options)
