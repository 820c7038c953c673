"""The kernel's word on a process, read and judged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid.recovery.pulse import NS_PER_MS, Glimpse, Pulse, Used, glimpse, judge

STAT = "7 (a) name (R) ) {} 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 {} 20 21"


def seen(at_ms: int, state: str = "S", *, ran_ms: int = 0, waited_ms: int = 0, started: int = 5) -> Glimpse:
    return Glimpse(at_ms, state, started, {1: Used(ran_ms * NS_PER_MS, waited_ms * NS_PER_MS)})


def test_what_the_kernel_says_is_read_whatever_the_process_is_called() -> None:
    read = glimpse(30, STAT.format("T", 4711), {7: "100 20 3\n", 8: "5 0 1"})
    assert read == Glimpse(30, "T", 4711, {7: Used(100, 20), 8: Used(5, 0)})


@pytest.mark.parametrize(("stat", "schedstat"), [("", "1 2 3"), ("7 (x) R 1", "1 2 3"), (STAT.format("R", 1), "x")])
def test_anything_else_is_refused(stat: str, schedstat: str) -> None:
    with pytest.raises(ValueError):
        glimpse(0, stat, {7: schedstat})


@pytest.mark.parametrize(
    ("between", "pulse"),
    [
        ((seen(0), seen(100, "R", ran_ms=60)), Pulse.BUSY),
        ((seen(0), seen(100, "R", ran_ms=20, waited_ms=80)), Pulse.BUSY),
        ((seen(0), seen(100)), Pulse.IDLE),
        ((seen(0), seen(100, ran_ms=1, waited_ms=20)), Pulse.IDLE),
        ((seen(0, "D"), seen(50, "D"), seen(100, "D")), Pulse.BLOCKED),
        ((seen(0), seen(100, "D", ran_ms=60)), Pulse.BUSY),
        ((seen(0), seen(100, "R", ran_ms=5, waited_ms=95)), Pulse.STARVED),
        ((seen(0, "R"), seen(50, "R"), seen(100, "R", ran_ms=2)), Pulse.STARVED),
        ((seen(0), seen(50, ran_ms=50), seen(100, "T", ran_ms=50)), Pulse.STOPPED),
        ((seen(0, "T"), seen(50, "T"), seen(100, "R", ran_ms=20)), Pulse.STOPPED),
        ((seen(0, "T"), seen(50, "R"), seen(100, "R", ran_ms=50)), Pulse.BUSY),
        ((seen(0), seen(100, "Z")), Pulse.GONE),
        ((seen(0), None), Pulse.GONE),
        ((seen(0), seen(100, started=6)), Pulse.GONE),
        ((), Pulse.GONE),
    ],
)
def test_a_process_is_judged_by_what_it_had(between: tuple[Glimpse | None, ...], pulse: Pulse) -> None:
    assert judge(between) is pulse


def test_only_who_can_work_counts_as_beating() -> None:
    assert [pulse for pulse in Pulse if pulse.alive] == [Pulse.BUSY, Pulse.IDLE, Pulse.BLOCKED]


@given(st.integers(1, 1_000), st.integers(0, 1_000), st.integers(0, 1_000), st.sampled_from("RSD"))
def test_who_had_its_share_is_alive(passed_ms: int, ran_ms: int, waited_ms: int, state: str) -> None:
    pulse = judge((seen(0), seen(passed_ms, state, ran_ms=ran_ms, waited_ms=waited_ms)))
    assert pulse.alive or 10 * ran_ms <= max(passed_ms, ran_ms + waited_ms)


@given(st.dictionaries(st.integers(1, 3), st.integers(0, 9)), st.dictionaries(st.integers(1, 3), st.integers(10, 20)))
def test_threads_that_come_and_go_take_nothing_back(before: dict[int, int], after: dict[int, int]) -> None:
    glimpses = [
        Glimpse(at, "S", 5, {t: Used(ns, ns) for t, ns in had.items()}) for at, had in ((0, before), (1, after))
    ]
    assert judge(glimpses).alive
