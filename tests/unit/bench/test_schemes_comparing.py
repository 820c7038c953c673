import io

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from perseid.bench.schemes import pool, tables
from perseid.bench.schemes.comparing import CLAIMS, Claim, Comparison, Seen, judge
from perseid.bench.schemes.plan import (
    CYCLE_S,
    FULL,
    JUDGED,
    LOAD,
    LOADED,
    OFTEN,
    QUICK,
    QUICK_MINUTES,
    SCHEMES,
    AppPlan,
    Case,
    plans,
)
from perseid.bench.schemes.reading import PARTS, Checkpoint, Recovery, Window
from perseid.state.operator_state import fresh


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
    case = Case(app, 0.1, 1.0, 20, 2, scheme, checkpoints, 0.15, 1e6, rate)
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
    return Seen(case, found, lost, 0.9, 0.0, 450.0, 0.15, 12.0, 80)


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


@pytest.mark.parametrize("plan", [*FULL, *QUICK], ids=lambda plan: f"{plan.app}-{plan.scale}")
def test_every_scheme_has_the_same_window_and_period(plan):
    cases = list(plan.cases())
    judged = [c for c in cases if c.checkpoints == JUDGED]
    wanted = {"source", "parallel", "adaptive", "oracle"} if plan.quick else {*SCHEMES, "oracle"}
    assert {c.scheme for c in judged} == wanted
    assert len({(c.epochs, c.period_s, c.scale) for c in judged}) == 1
    assert cases[0].scheme == "none", "the oracle knows it"
    assert cases[0].recorded_epochs > judged[0].epochs


def test_what_is_needed_for_a_comparison_comes_first_and_is_never_left_out():
    """Only what comes after it may be dropped when a machine is too slow for all."""
    cases = list(QUICK[0].cases())
    assert (
        [c.scheme for c in cases if QUICK[0].needed(c)]
        == [c.scheme for c in cases[:3]]
        == ["none", "adaptive", "parallel"]
    )
    assert not any(plan.needed(case) for plan in FULL for case in [*plan.loaded(1.0), *plan.often()])


def test_a_slow_machine_sees_as_many_cycles_of_the_state_with_fewer_epochs_in_each():
    (plan,) = plans(True, None)
    fast, slow = plan.fitted(0.1), plan.fitted(2.0)
    assert fast.parts[0] * 0.1 <= CYCLE_S and fast.parts[0] > slow.parts[0] == min(plan.parts)
    cycles = {case.epochs / fitted.parts[0] for fitted in (fast, slow) for case in fitted.cases() if case.checkpoints}
    assert all(4 <= c <= 4.1 for c in cycles)


def test_a_quick_run_on_a_quiet_machine_fits_into_its_time():
    fitted = plans(True, None)[0].fitted(0.15)
    starting_and_stopping_s = 4.0
    needed = sum(fitted.at_pace(c, 0.15, 1e6).expected_s + starting_and_stopping_s for c in fitted.cases())
    assert needed < 60 * QUICK_MINUTES


@pytest.mark.parametrize("parts", plans(True, None)[0].parts)
def test_a_pool_is_a_whole_number_of_epochs(parts):
    assert pool.ROWS % parts == 0


def test_a_pool_rises_with_every_row_and_falls_to_nothing():
    operator = fresh(pool.Pool())
    sizes, done = [], []
    for epoch in range(6):
        rows = np.arange(epoch, epoch + 1).repeat(3) * (pool.ROWS // 2) + np.arange(3)
        done += operator.process(pa.table({"row": rows})).to_pylist()
        sizes.append(len(operator.vectors))
    assert sizes == [3, 6] * 3
    assert [row["pool"] for row in done] == [0, 1]
    again = fresh(pool.Pool())
    again.process(pa.table({"row": [0, 1, 2, 1200, 1201, 1202]}))
    assert again.process(pa.table({"row": [2400]})).to_pylist() == done[:1], "a row's vector follows from its number"


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


def test_a_window_is_four_cycles_of_the_state_whatever_the_machines_pace():
    plan = AppPlan("tmi", 1.0, 1.0, (20,), 1, 60.0)
    case = next(plan.cases())
    for epoch_s in (0.1, 0.5, 9.0):
        fitted = plan.at_pace(case, epoch_s, 1e6)
        assert fitted.epochs == 80 and fitted.window_s == pytest.approx(80 * epoch_s)


@pytest.mark.parametrize("plan", [*FULL, *QUICK[1:]], ids=lambda plan: f"{plan.app}-{plan.parts}")
def test_a_cycle_of_the_state_is_a_whole_number_of_epochs(plan):
    """Else no two cycles have their smallest state at the same place, and none has its epoch in another."""
    pytest.importorskip("sklearn")
    from perseid.apps.bcp.generate import Campus
    from perseid.apps.catalogue import CATALOGUE
    from perseid.apps.signalguru.generate import Town
    from perseid.apps.tmi.generate import City

    city, campus, town = (
        City.of(plan.scale, plan.minutes, 0),
        Campus.of(plan.scale, plan.minutes, 0),
        Town.of(plan.scale, 0),
    )
    cycle = {"tmi": city.rows(1), "bcp": campus.rows(1), "signalguru": town.rows(1)}[plan.app]
    rows = CATALOGUE[plan.app].epoch_rows
    for parts in plan.parts:
        assert rows(scale=plan.scale, minutes=plan.minutes, parts=parts) * parts == cycle


@pytest.mark.parametrize("plan", FULL, ids=lambda plan: plan.app)
@pytest.mark.parametrize("alone_s", [0.05, 0.2, 0.5])  # of an epoch without rows
@pytest.mark.parametrize("rows_s", [0.1, 0.5, 1.0, 2.0, 5.0])  # of an epoch's rows
def test_what_a_comparison_needs_fits_into_its_time_on_slow_machines_too(plan, alone_s, rows_s):
    fitted = plan.fitted(alone_s + rows_s)
    epoch_s = alone_s + rows_s * fitted.scale / plan.scale * plan.parts[0] / fitted.parts[0]
    needed_s, all_s = fitted.expected_s(epoch_s, around_s=10.0)
    warm_up_s = 40.0 + (plan.parts[0] + 2) * (alone_s + rows_s)
    assert warm_up_s + needed_s <= plan.budget_s and needed_s < all_s
    assert [case.cycles for case in fitted.cases()][:1] == [4.0], "of all four cycles"


def test_a_storage_as_the_papers_takes_the_state_in_22_percent_of_a_period():
    plan = AppPlan("tmi", 1.0, 1.0, (20,), 1, 60.0)
    per_s = {case.checkpoints: plan.at_pace(case, 0.6, 100e6).storage_bytes_per_s for case in plan.cases()}
    assert per_s[JUDGED] == pytest.approx(100e6 / (0.21875 * 16)) and len(set(per_s.values())) == 1
    loaded = plan.at_pace(next(plan.loaded(1000.0)), 0.8, 100e6)
    assert loaded.storage_bytes_per_s * loaded.period_s == pytest.approx(per_s[JUDGED] * 16), "its periods are longer"


def test_eight_checkpoints_come_more_often_and_three_of_their_periods_are_measured():
    three, eight = (Case("tmi", 0.1, 1.0, 20, 1, "adaptive", count, 0.3) for count in (JUDGED, OFTEN))
    assert (three.period_s, three.measured_s) == pytest.approx((8, 24))
    assert (eight.period_s, eight.measured_s) == pytest.approx((3, 9))


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
    plan = AppPlan("tmi", 1.0, 1.0, (20,), 1, 60.0)
    cases = [plan.at_pace(case, 0.36 / LOAD, 1e6) for case in plan.loaded(1000.0)]
    assert {c.scheme for c in cases} == set(LOADED)
    assert {(c.rate, round(c.window_s, 3), c.kills) for c in cases} == {(750.0, 38.4, 0)}
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


def test_a_quick_run_says_what_adaptive_saves_and_what_it_cannot_show():
    runs = [
        seen("pool", "none", 0),
        seen("pool", "adaptive", JUDGED, size=2_000_000, recovery=900),
        seen("pool", "parallel", JUDGED, size=8_000_000),
    ]
    console = Console(width=140, record=True, file=io.StringIO())
    tables.brief(console, Comparison(runs))
    said = console.export_text()
    assert "adaptive wrote 2.0 MB a checkpoint, parallel 8.0 MB: 75 % less." in said and "900" in said
    assert "not shown" not in said
    tables.brief(console, Comparison(runs[:2]))
    assert "not shown: what adaptive saves" in console.export_text()


def test_a_quick_run_says_when_the_machine_was_not_quiet():
    runs = [
        seen("pool", "none", 0, rows=100),
        seen("pool", "adaptive", JUDGED, size=2_000_000, rows=90),
        seen("pool", "parallel", JUDGED, size=8_000_000, rows=150),
        seen("pool", "oracle", JUDGED, size=4_000_000, rows=90),
    ]
    console = Console(width=140, record=True, file=io.StringIO())
    tables.brief(console, Comparison(runs))
    said = " ".join(console.export_text().split())
    assert "not shown: what checkpoints cost in throughput" in said
    assert "not shown: how near adaptive comes to the oracle" in said


def test_a_window_with_too_few_checkpoints_is_no_average():
    from dataclasses import replace

    run = seen("pool", "adaptive", JUDGED)
    run = replace(run, window=replace(run.window, checkpoints=run.window.checkpoints[:1]))
    console = Console(width=140, record=True, file=io.StringIO())
    tables.brief(console, Comparison([run]))
    assert "not shown: adaptive on average: its window had only 1 checkpoints in 4.0 cycles" in console.export_text()
