import pytest

from perseid.bench.measuring.results import Results

picture = pytest.importorskip("perseid.bench.measuring.picture", reason="needs perseid[bench]")


def full() -> Results:
    results = Results(lambda _: None)
    results.sample("perseid_rows_per_s", 1.4e6, 1.5e6, unit="rows/s")
    results.sample("native_rows_per_s", 5e5, unit="rows/s")
    results.sample("perseid_small_epoch_ms", 95, unit="ms")
    results.sample("host_kill_recovery_s", 1.4, 1.9, unit="s")
    results.series("commit_at_s", [0.2, 0.4, 0.6])
    results.series("commit_gap_ms", [200, 210, 190])
    results.series("checkpoint_at_s", [0.3])
    return results


@pytest.mark.parametrize("results", [full(), Results(lambda _: None)], ids=["all parts", "no part"])
def test_the_figure_is_drawn_whatever_was_measured(results, tmp_path):
    picture.draw(results, "a title", tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
