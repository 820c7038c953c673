import pytest

from perseid.bench.measuring.results import Results
from perseid.bench.scaling.goals import GOALS, told

picture = pytest.importorskip("perseid.bench.scaling.picture", reason="needs perseid[bench]")


def full() -> Results:
    results = Results(lambda _: None)
    for name, value in (
        ("live_pause_s", 0.3), ("live_gap_s", 0.5), ("live_state_mb", 500), ("spark_gap_s", 20), ("spark_pause_s", 19),
        ("rising_p50_ms", 100), ("open_final_shards", 2), ("overhead_medium_percent", 4),
        ("rising_p95_ms", 200), ("rising_p99_ms", 300), ("rising_final_shards", 2), ("open_offered_rows_per_s", 100),
        ("open_dropped_percent", 3), ("threshold_10_shards", 4), ("threshold_10_p50_ms", 90), ("threshold_10_p95_ms", 120),
        ("manual_2_shards", 2), ("manual_2_p50_ms", 90), ("manual_2_p95_ms", 99), ("dynamic_shards", 2), ("dynamic_p50_ms", 80),
        ("dynamic_p95_ms", 130),
    ):  # fmt: skip
        results.number(name, value, "")
    for way in ("state", "upstream", "source"):
        results.sample(f"{way}_recovery_5000_s", 1.5, unit="s")
        results.sample(f"{way}_recovery_s", 1.5, unit="s")
    for way in ("serial", "parallel"):
        results.sample(f"{way}_recovery_interval_2.5_s", 1.5, unit="s")
        results.sample(f"{way}_recovery_interval_2.5_replayed_s", 2.1, unit="s")
        results.sample(f"{way}_recovery_s", 1.5, unit="s")
    for kind in ("with", "without"):
        results.sample(f"overhead_medium_{kind}_p95_ms", 150, unit="ms")
    results.sample("overhead_interval_1_p95_ms", 170, unit="ms")
    for name in ("live", "spark"):
        results.series(f"{name}_commit_at_s", [-1, 0, 1])
        results.series(f"{name}_commit_rows", [10, 10, 10])
    for name in ("rising", "open"):
        for series in ("at_s", "rows_per_s", "shards_at_s", "shards"):
            results.series(f"{name}_{series}", [1, 2, 3])
    results.series("rising_input_rows_per_s", [1, 2, 3])
    results.series("rising_latency_at_s", [1, 2])
    results.series("rising_latency_ms", [100, 120])
    return results


@pytest.mark.parametrize("results", [full(), Results(lambda _: None)], ids=["all parts", "no part"])
def test_the_figure_is_drawn_whatever_was_measured(results, tmp_path):
    picture.draw(results, "a title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_only_what_was_measured_is_told():
    results = Results(lambda _: None)
    results.number("rising_p50_ms", 90, "ms")
    assert told(results.numbers).row_count == 1


def test_every_part_with_a_goal_is_there_in_a_quick_run():
    from perseid.bench.scale import NAMES, QUICK_NAMES

    assert set(GOALS) - {"road"} == set(QUICK_NAMES) <= set(NAMES)
