import pytest

from perseid.cli import figures


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (300 * 1024**2, "300 MB"), (5 * 1024**4, "5.0 TB")],
)
def test_sizes_read_well(count, text):
    assert figures.size(count) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1250, "1.2 s"),
        (90_000, "1 min 30 s"),
        (7_260_000, "2 h 1 min"),
        (3 * 86_400_000, "3 days"),
    ],
)
def test_durations_read_well(ms, text):
    assert figures.duration(ms) == text


def test_lists_end_with_and():
    assert [figures.listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_counted_takes_the_plural():
    assert figures.counted(1, "row") == "1 row"
    assert figures.counted(2000, "process", "processes") == "2,000 processes"


def test_bars_scale_to_the_highest_and_keep_the_newest():
    assert figures.bars([9, 0, 7, 14], 3) == "▁▅█"
    assert figures.bars([0, 0], 5) == "▁▁"
    assert figures.bars([], 5) == ""
