"""Sources aligned by event time: none runs far ahead, and nobody waits for good."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from perseid.engine.event_time_alignment import PATIENCE, EventTimeAlignment
from perseid.vocabulary import OperatorName, SourceName

A, B, C = (SourceName(name) for name in "abc")
INPUTS = {source: (OperatorName(f"join.{source}"),) for source in (A, B, C)}
TOLD = [key for keys in INPUTS.values() for key in keys]
READY: st.SearchStrategy[Any] = st.integers(0, 3)


def test_a_source_waits_while_it_is_too_far_ahead_of_one_that_has_rows() -> None:
    alignment = EventTimeAlignment(1_000, INPUTS)
    assert alignment.waiting([A, B, C]) == frozenset()  # nothing is known yet
    alignment.seen([A, B], {OperatorName("join.a"): 5_000, OperatorName("join.b"): 1_000}, TOLD)
    assert alignment.waiting([A, B, C]) == {A}
    assert alignment.waiting([A, C]) == frozenset()  # b has no rows: nobody waits for it
    alignment.seen([B], {OperatorName("join.b"): 4_000}, TOLD)
    assert alignment.waiting([A, B]) == frozenset()


def test_nobody_waits_for_a_source_whose_event_time_stands_still() -> None:
    alignment = EventTimeAlignment(0, INPUTS)
    alignment.seen([A, B], {OperatorName("join.a"): 2, OperatorName("join.b"): 1}, TOLD)
    for _ in range(PATIENCE):
        assert alignment.waiting([A, B]) == {A}
        alignment.seen([B], {}, TOLD)  # all its rows were filtered out
    assert alignment.waiting([A, B]) == frozenset()
    alignment.seen([B], {OperatorName("join.b"): 1_000}, TOLD)
    alignment.seen([A], {OperatorName("join.a"): 2_000}, TOLD)
    assert alignment.waiting([A, B]) == {A}


@st.composite
def feeds(draw: st.DrawFn) -> dict[SourceName, list[int | None]]:
    """What epochs of each source would show as its newest event time; None: rows that no operator sees."""
    newest = st.lists(st.none() | st.integers(0, 50), max_size=20)
    return {source: draw(newest) for source in (A, B, C)}


@given(feeds(), st.integers(0, 20), st.data())
def test_every_row_is_read_whatever_the_event_times_are(
    feed: dict[SourceName, list[int | None]], ahead: int, data: st.DataObject
) -> None:
    alignment = EventTimeAlignment(ahead, INPUTS)
    left = {source: list(rows) for source, rows in feed.items()}
    newest: dict[SourceName, int] = {}
    epochs, most = 0, (PATIENCE + 1) * sum(map(len, feed.values())) + 1
    while any(left.values()):
        ready = [s for s in left if left[s] and data.draw(READY)]  # some have no rows just now
        if not ready:
            continue
        waiting = alignment.waiting(ready)
        taken = [source for source in ready if source not in waiting]
        assert taken, "all wait for one another"
        for held in waiting:
            assert newest[held] > min(newest[s] for s in ready if s in newest) + ahead
        shown = {source: left[source].pop(0) for source in taken}
        told = {OperatorName(f"join.{source}"): at for source, at in shown.items() if at is not None}
        newest |= {s: max(at, newest.get(s, at)) for s, at in shown.items() if at is not None}
        alignment.seen(taken, told, TOLD)
        epochs += 1
        assert epochs <= most
