"""Latencies, recoveries and load over time, from journals made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.bench.scaling.applications import texts
from perseid.bench.scaling.reading import (
    Arrivals,
    gap_around_ms,
    latencies_ms,
    pace,
    percentile,
    replayed_rows,
    restored_ms,
    shards_over_time,
    throughput,
)


def epoch(number: int, admitted_ms: int, committed_ms: int, rows: int) -> list[dict[str, Any]]:
    return [
        {"kind": "epoch_admitted", "at_ms": admitted_ms, "time_ms": admitted_ms, "epoch": number, "rows": rows},
        {"kind": "epoch_committed", "at_ms": committed_ms, "epoch": number, "rows_in": rows},
    ]


STEADY = [entry for n in range(1, 11) for entry in epoch(n, 1_000 + 100 * n, 1_050 + 100 * n, 100)]


def test_a_row_waits_for_the_end_of_its_epoch_and_for_its_commit() -> None:
    arrivals = Arrivals.at_rate(STEADY, 1_000)
    assert arrivals.at_ms == (1_000, 2_000)
    found = latencies_ms(STEADY, arrivals)
    assert percentile(found, 50) == pytest.approx(100, abs=1)  # half an epoch, and 50 ms to its commit
    assert percentile(found, 95) == pytest.approx(145, abs=1)


def test_rows_before_the_time_that_is_measured_do_not_count() -> None:
    slow = [*epoch(1, 100, 5_000, 100), *epoch(2, 5_000, 5_050, 4_900)]
    found = latencies_ms(slow, Arrivals((0, 5_000), (0, 5_000)), from_ms=5_010)
    assert percentile(found, 100) <= 4_951
    with pytest.raises(AssertionError, match="no epoch"):
        latencies_ms(slow, Arrivals((0, 1), (0, 1)), from_ms=9_999)


def test_a_large_epoch_counts_for_as_many_rows_as_it_has() -> None:
    arrivals = Arrivals((0, 1_000), (0, 0))
    found = latencies_ms([*epoch(1, 0, 10, 10), *epoch(2, 0, 1_000, 990)], arrivals)
    assert percentile(found, 50) == pytest.approx(1_000)


def test_shards_are_back_when_the_recovery_ends_and_an_application_when_it_is_where_it_was() -> None:
    done = [e for n in range(1, 4) for e in epoch(n, 100 * n, 100 * n + 50, 10)]
    back = {"kind": "recovery_finished", "at_ms": 700}
    assert restored_ms([*done, back | {"mode": "shards"}], kill_ms=400) == 300
    again = [e for n in range(1, 4) for e in epoch(n, 100 * n, 1_000 + 100 * n, 10)]
    assert restored_ms([*done, back | {"mode": "application"}, *again], kill_ms=400) == 900
    with pytest.raises(AssertionError, match="did not come back"):
        restored_ms([*done, back | {"mode": "application"}], kill_ms=400)


def test_what_is_replayed_are_the_epochs_done_since_the_checkpoint_or_all_of_them() -> None:
    back = {"kind": "recovery_finished", "at_ms": 9_000, "replayed_epochs": 3}
    assert replayed_rows([*STEADY, back | {"mode": "shards"}], kill_ms=8_000) == 300
    assert replayed_rows([*STEADY, back | {"mode": "shards", "replayed_epochs": 0}], kill_ms=8_000) == 0
    assert replayed_rows([*STEADY, back | {"mode": "application"}], kill_ms=8_000) == 1_000


def test_what_came_and_was_not_done_is_told() -> None:
    assert pace(STEADY, rate=1_000, until_ms=2_100) == pytest.approx(1.0)
    assert pace(STEADY, rate=2_000, until_ms=2_100) == pytest.approx(0.5)


def test_load_over_time() -> None:
    scaled = {"kind": "scaled", "at_ms": 1_650, "operator": "o", "shards": 2}
    at, rows = throughput(STEADY, step_s=0.4)
    assert at == pytest.approx([0.4, 0.8]) and rows == pytest.approx([1_000, 1_000])
    assert shards_over_time([*STEADY, scaled], "o", 1) == ([0.0, 0.5, 0.9], [1.0, 2.0, 2.0])
    assert gap_around_ms([*STEADY, *epoch(11, 2_100, 2_500, 1)], 2_200) == 450


def test_texts_have_their_length_and_a_seed_makes_the_same_again() -> None:
    made = texts([5, 7], 100, seed=1)
    assert made["key"].to_pylist() == [5, 7] and {len(t) for t in made["text"].to_pylist()} == {100}
    assert made.equals(texts([5, 7], 100, seed=1)) and not made.equals(texts([5, 7], 100, seed=2))
