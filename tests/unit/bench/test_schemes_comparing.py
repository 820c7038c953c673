import io

import pytest
from rich.console import Console

from perseid.bench.schemes import tables
from perseid.bench.schemes.comparing import CLAIMS, Claim, Comparison, Seen, judge
from perseid.bench.schemes.plan import FULL, JUDGED, LOAD, LOADED, QUICK, SCHEMES, AppPlan, Case, plans
from perseid.bench.schemes.reading import PARTS, Checkpoint, Recovery, Window


def seen(
    app,
    scheme,
    checkpoints,
    *,
    rows=100.0,
    latency=10.0,
    size=1000,
    still=10.0,
    recovery=None,
    during=None,
    calm=None,
    rate=None,
):
    case = Case(app, 0.1, 1.0, 20, 2, scheme, checkpoints, 12.0, 1e6, rate)
    parts = dict.fromkeys(PARTS, 5.0)
    taken = tuple(
        Checkpoint("period", 0.0, 20.0, size, ((0.0, still),), (0.0, still), parts) for _ in range(checkpoints)
    )
    found = Window(rows, latency, 2 * latency, taken, 1, during or {}, calm or {}, 0.1, 0.2, 0.003)
    lost = (
        None
        if recovery is None
        else Recovery(recovery, dict.fromkeys(("detect", "reload", "read", "deserialise", "reconnect"), 1.0), 0, 0)
    )
    return Seen(case, found, lost, 0.9, 0.0, 450.0)


def claim(what):
    return next(c for c in CLAIMS if c.what == what)


def verdict(comparison, what):
    (found,) = judge(comparison, [claim(what)])
    return found


def test_changes_are_averaged_over_the_applications():
    comparison = Comparison([
        seen("tmi", "baseline", JUDGED, rows=100),
        seen("tmi", "adaptive", JUDGED, rows=400),
        seen("bcp", "baseline", JUDGED, rows=100),
        seen("bcp", "adaptive", JUDGED, rows=300),
    ])  # fmt: skip
    found = verdict(comparison, "throughput, adaptive over baseline")
    assert found.by_app == {"tmi": pytest.approx(300), "bcp": pytest.approx(200)}
    assert found.average == pytest.approx(250) and found.reached


def test_what_one_application_did_not_give_is_not_reached():
    comparison = Comparison([
        seen("tmi", "baseline", JUDGED), seen("tmi", "adaptive", JUDGED, rows=900), seen("bcp", "adaptive", JUDGED, rows=900)
    ])  # fmt: skip
    found = verdict(comparison, "throughput, adaptive over baseline")
    assert found.by_app["bcp"] is None and found.average is None and found.reached is False


def test_fewer_bytes_are_a_gain_and_more_than_the_oracle_a_loss():
    comparison = Comparison([
        seen("tmi", "parallel", JUDGED, size=1000), seen("tmi", "adaptive", JUDGED, size=315), seen("tmi", "oracle", JUDGED, size=300)
    ])  # fmt: skip
    assert verdict(comparison, "bytes per checkpoint, adaptive below parallel").average == pytest.approx(68.5)
    over = verdict(comparison, "bytes per checkpoint, adaptive over oracle")
    assert over.average == pytest.approx(5) and over.reached


def test_rounds_are_compared_by_their_medians():
    comparison = Comparison([seen("tmi", "adaptive", JUDGED, rows=r) for r in (1.0, 200.0, 210.0)])
    assert comparison.numbers()["tmi_adaptive_3_rows_per_s"] == 200


def test_without_checkpoints_all_schemes_but_the_baseline_are_one():
    comparison = Comparison([seen("tmi", "none", 0, rows=135), seen("tmi", "baseline", 0, rows=100)])
    assert verdict(comparison, "throughput, no checkpoints, source over baseline").average == pytest.approx(35)


def test_latency_during_a_checkpoint_is_held_against_epochs_of_the_same_place_in_a_cycle_without():
    comparison = Comparison([
        seen("tmi", "none", 0, calm={4: 10.0, 6: 100.0}),
        seen("tmi", "adaptive", JUDGED, during={4: 140.0, 5: 1200.0, 6: 150.0, 7: 999.0}, calm={24: 90.0, 44: 110.0, 25: 1000.0}),
    ])  # fmt: skip
    assert comparison.during("tmi", "adaptive") == pytest.approx(0.4), (
        "1.4 and 1.2 of the same run, 1.5 of the one without checkpoints; there is none to hold epoch 7 against"
    )


def test_the_table_shows_the_paper_beside_it():
    comparison = Comparison(
        [seen("tmi", "parallel", JUDGED, recovery=1000), seen("tmi", "adaptive", JUDGED, recovery=400)]
    )
    console = Console(width=140, record=True, file=io.StringIO())
    tables.show(console, comparison, judge(comparison))
    line = next(line for line in console.export_text().splitlines() if line.startswith("recovery, adaptive"))
    assert line.split()[4:] == ["60", "%", "60", "%", "59", "%", "≥", "59", "%", "yes"]


def test_every_claim_has_words_of_its_own():
    assert len({c.what for c in CLAIMS}) == len(CLAIMS)
    assert all(isinstance(c, Claim) for c in CLAIMS)


@pytest.mark.parametrize("plan", [*FULL, *QUICK])
def test_every_scheme_is_run_and_warmed_up_alike(plan):
    cases = list(plan.cases())
    for count in plan.counts:
        assert {c.scheme for c in cases if c.checkpoints == count} >= set(SCHEMES)
        assert len({(c.measured_s, c.period_s, c.scale) for c in cases if c.checkpoints == count}) == 1
    assert len({c.warm_s for c in cases if c.checkpoints in (0, JUDGED)}) == 1, (
        "their epochs are held against each other"
    )
    assert cases[0].scheme == "none", "the oracle knows it"


@pytest.mark.parametrize("plan", FULL)
def test_what_is_judged_is_run_there_and_back(plan):
    """Whoever comes early in the first turn comes late in the second: a machine that becomes faster meanwhile favours nobody."""
    judged = [c.scheme for c in plan.cases() if c.checkpoints == JUDGED]
    assert judged == judged[::-1] and all(judged.count(scheme) == 2 for scheme in (*SCHEMES, "oracle"))


def test_the_table_of_recoveries_shows_the_mean_of_two_turns():
    comparison = Comparison([seen("tmi", "adaptive", JUDGED, recovery=ms) for ms in (400, 500)])
    console = Console(width=140, record=True, file=io.StringIO())
    tables.show(console, comparison, judge(comparison))
    lines = [line.split() for line in console.export_text().splitlines()]
    headed = next(n for n, line in enumerate(lines) if line[:3] == ["all", "hosts", "killed,"])
    assert lines[headed + 1][0] == "adaptive" and "450" in lines[headed + 1]


def test_an_application_can_be_chosen():
    assert [p.app for p in plans(False, None)] == ["tmi", "bcp", "signalguru"]
    assert [p.app for p in plans(True, "signalguru")] == ["signalguru"]
    assert len(plans(True, None)) == 1


def test_an_unknown_application_is_named_with_those_there_are():
    from perseid.bench import meteor
    from perseid.errors import SettingsError

    with pytest.raises(SettingsError, match="no application 'taxi'; there are: tmi, bcp, signalguru"):
        meteor.run(True, None, None, app="taxi")


def test_the_picture_is_drawn_of_what_there_is(tmp_path):
    pytest.importorskip("matplotlib")
    from perseid.bench.schemes import picture

    comparison = Comparison(
        [seen("tmi", "baseline", 0), seen("tmi", "none", 0), seen("tmi", "adaptive", JUDGED, recovery=400)]
    )
    picture.draw(comparison, picture.Curves(), "here", tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 10_000


def test_a_window_is_as_long_as_five_cycles_of_the_state_need():
    plan = AppPlan("tmi", 1.0, 1.0, 20, 1, (JUDGED,), 60.0)
    case = next(plan.cases())
    assert plan.at_pace(case, 0.5, 1e6).window_s == pytest.approx(5 * 10)
    assert plan.at_pace(case, 9.0, 1e6).window_s == 60


@pytest.mark.parametrize("plan", [*FULL, *QUICK], ids=lambda plan: f"{plan.app}-{plan.parts}")
def test_a_cycle_of_the_state_is_a_whole_number_of_epochs(plan):
    """Else no two cycles have their smallest state at the same place, and none has its epoch in another."""
    pytest.importorskip("sklearn")
    from perseid.apps.bcp.generate import Campus
    from perseid.apps.catalogue import CATALOGUE
    from perseid.apps.signalguru.generate import Town
    from perseid.apps.tmi.generate import City

    cycle = {
        "tmi": City.of(plan.scale, plan.minutes, 0), "bcp": Campus.of(plan.scale, plan.minutes, 0), "signalguru": Town.of(plan.scale, 0)
    }[plan.app].rows(1)  # fmt: skip
    assert (
        CATALOGUE[plan.app].epoch_rows(scale=plan.scale, minutes=plan.minutes, parts=plan.parts) * plan.parts == cycle
    )


def test_a_storage_as_the_papers_takes_the_state_in_22_percent_of_a_period():
    plan = AppPlan("tmi", 1.0, 1.0, 20, 1, (JUDGED,), 60.0)
    per_s = {case.checkpoints: plan.at_pace(case, 0.6, 100e6).storage_bytes_per_s for case in plan.cases()}
    assert per_s[JUDGED] == pytest.approx(100e6 / (0.21875 * 20)) and len(set(per_s.values())) == 1
    loaded = plan.at_pace(next(plan.loaded(1000.0)), 0.8, 100e6)
    assert loaded.storage_bytes_per_s * loaded.period_s == pytest.approx(per_s[JUDGED] * 20), "its periods are longer"


def test_eight_checkpoints_come_eight_times_as_often_as_one():
    one, eight = (Case("tmi", 0.1, 1.0, 20, 1, "adaptive", count, 24.0) for count in (1, 8))
    assert (one.period_s, one.measured_s, eight.period_s, eight.measured_s) == (24, 24, 3, 9)


def test_latency_is_judged_under_load_and_kept_apart_from_that_of_epochs():
    comparison = Comparison([
        seen("tmi", "baseline", JUDGED, latency=100.0), seen("tmi", "adaptive", JUDGED, latency=90.0),
        seen("tmi", "baseline", JUDGED, latency=1000.0, rate=500.0), seen("tmi", "adaptive", JUDGED, latency=400.0, rate=500.0),
    ])  # fmt: skip
    assert verdict(comparison, "latency under load, adaptive below baseline").average == pytest.approx(60)
    assert verdict(comparison, "latency of epochs, adaptive below baseline").average == pytest.approx(10)
    assert comparison.numbers()["tmi_adaptive_3_load_latency_ms"] == 400
    assert comparison.numbers()["tmi_adaptive_3_load_p99_ms"] == 800
    assert comparison.numbers()["tmi_adaptive_3_latency_ms"] == 90
    console = Console(width=140, record=True, file=io.StringIO())
    tables.show(console, comparison, judge(comparison))
    lines = [line.split() for line in console.export_text().splitlines()]
    assert ["tmi", "baseline", "90", "1,000", "2,000"] in lines and ["adaptive", "90", "400", "800"] in lines


def test_under_load_rows_come_at_one_rate_whatever_the_scheme_and_cycles_take_longer():
    plan = AppPlan("tmi", 1.0, 1.0, 20, 1, (JUDGED,), 60.0)
    cases = [plan.at_pace(case, 0.36 / LOAD, 1e6) for case in plan.loaded(1000.0)]
    assert {c.scheme for c in cases} == set(LOADED)
    assert {(c.rate, c.window_s, c.kills) for c in cases} == {(750.0, 48.0, 0)}
    assert cases[-1].name == "tmi_baseline_3_load"


def test_what_cannot_be_is_noise_and_not_reached():
    """An oracle that is beaten is none; epochs do not become faster because a checkpoint is taken."""
    runs = [seen("tmi", "adaptive", JUDGED, size=200, during={4: 45.0}), seen("tmi", "oracle", JUDGED, size=300)]
    comparison = Comparison([seen("tmi", "none", 0, calm={4: 100.0}), *runs])
    for what in ("bytes per checkpoint, adaptive over oracle", "latency during a checkpoint, adaptive"):
        found = verdict(comparison, what)
        assert found.noise and found.reached is False
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(tables.claims(judge(comparison), comparison.apps))
    assert console.export_text().count("no telling: noise") == 2
