import pytest

from perseid.bench.measuring.timings import (
    Commit,
    Recovery,
    checkpoint_pairs,
    from_journal,
    from_progress,
    gaps_ms,
    middle,
    recoveries,
    rows_per_s,
    rows_per_s_within,
    stalls_ms,
)

STEADY = [Commit(at_ms=1000 * n, ms=900, rows=500) for n in range(1, 6)]


def test_a_rate_counts_from_the_end_of_what_is_discarded():
    slow_start = [Commit(at_ms=100, ms=100, rows=1_000_000), *STEADY]
    assert rows_per_s(slow_start, discard=2) == 500


def test_a_rate_needs_something_to_discard_and_something_left():
    for discard in (0, 5):
        with pytest.raises(AssertionError):
            rows_per_s(STEADY, discard)


def test_an_epoch_partly_in_the_window_counts_by_its_part():
    assert rows_per_s_within(STEADY, from_ms=1500, length_ms=2000) == pytest.approx(500)
    assert rows_per_s_within([*STEADY, Commit(5500, 400, 500)], from_ms=4000, length_ms=1500) == pytest.approx(
        1000 / 1.5
    )


def test_a_checkpoint_is_compared_with_the_time_before_and_after_it():
    rates = [300, 300, 310, 310, 500, 500]
    commits = [Commit(at_ms=1000 * n, ms=900, rows=rows) for n, rows in enumerate([0, *rates])]
    assert checkpoint_pairs(commits, [2000], 2000) == [(310, 400)]


def test_gaps_are_of_the_whole_cycle():
    assert gaps_ms(STEADY, discard=3) == [1000, 1000]


def test_the_journal_gives_committed_epochs():
    entries = [
        {"kind": "epoch_admitted", "at_ms": 5, "epoch": 1},
        {"kind": "epoch_committed", "at_ms": 95, "epoch": 1, "ms": 90.5, "rows_in": 1000, "rows_out": 10},
    ]
    assert from_journal(entries) == [Commit(95, 90.5, 1000)]


def test_a_batch_without_rows_is_not_counted():
    reports = [
        {"numInputRows": 0, "timestamp": "2026-01-01T00:00:00.000Z", "durationMs": {"triggerExecution": 3}},
        {"numInputRows": 7, "timestamp": "2026-01-01T00:00:01.250Z", "durationMs": {"triggerExecution": 250}},
    ]
    (batch,) = from_progress(reports)
    assert (batch.ms, batch.rows) == (250, 7)
    assert batch.at_ms % 60_000 == 1500


def test_a_stall_lasts_until_the_last_host_has_forked_and_while_an_epoch_waits_for_a_child():
    entries = [
        {"kind": "checkpoint_started", "at_ms": 100, "checkpoint": 1},
        {"kind": "snapshots_forked", "at_ms": 110, "checkpoint": 1, "host": 1},
        {"kind": "snapshots_forked", "at_ms": 125, "checkpoint": 1, "host": 2},
        {"kind": "snapshot_awaited", "at_ms": 300, "checkpoint": 1, "host": 1, "ms": 40},
        {"kind": "snapshot_awaited", "at_ms": 310, "checkpoint": 1, "host": 2, "ms": 30},
        {"kind": "checkpoint_started", "at_ms": 900, "checkpoint": 2},
        {"kind": "snapshots_forked", "at_ms": 907, "checkpoint": 2, "host": 1},
        {"kind": "checkpoint_started", "at_ms": 990, "checkpoint": 3},
    ]
    assert stalls_ms(entries) == [25 + 40, 7]


def test_what_was_finished_before_a_kill_and_only_then_committed_is_not_new():
    entries = [
        {"kind": "recovery_finished", "at_ms": 10, "replayed_epochs": 0},
        {"kind": "epoch_committed", "at_ms": 1010, "epoch": 4},
        {"kind": "recovery_finished", "at_ms": 1900, "replayed_epochs": 3},
        {"kind": "epoch_committed", "at_ms": 2000, "epoch": 5},
    ]
    assert recoveries(entries, [1000]) == [Recovery(1.0, 3)]


def test_the_middle_of_an_even_number_of_values_lies_between():
    assert middle([4, 1, 3, 2]) == 2.5
