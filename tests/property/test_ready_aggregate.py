"""Aggregates against a plain oracle: any rows, epochs, windows, functions; scaled, saved and restored between epochs."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import perseid
from perseid import agg, every
from perseid.duration import Duration
from perseid.operators.event_time import END_OF_TIME_MS
from perseid.ready import Aggregate, EachRow
from perseid.ready.windows import CountWindow, SessionWindow, TimeWindow, Window
from perseid.testing import OperatorHarness

Row = dict[str, Any]
SCHEMA = pa.schema(
    {"k": pa.string(), "at": pa.int64(), "x": pa.int32(), "y": pa.float64(), "d": pa.decimal128(8, 2), "w": pa.string()}
)


def letters(values: pa.Array) -> str:
    return "".join(sorted(values.to_pylist()))


FUNCTIONS = {
    "n": agg.count(),
    "some": agg.count("x"),
    "total": agg.sum("x"),
    "floats": agg.sum("y"),
    "money": agg.sum("d"),
    "mean": agg.mean("x"),
    "low": agg.min("x"),
    "high": agg.max("y"),
    "least": agg.min("w"),
    "dear": agg.max("d"),
    "kinds": agg.distinct("w"),
    "first": agg.first("w"),
    "last": agg.last("x"),
}
FUNCTIONS_OF_ROWS = {name: function for name, function in FUNCTIONS.items() if name != "kinds"}
OF_WINDOWS = {"median": agg.quantile("x", 0.5), "p90": agg.quantile("y", 0.9),
              "text": agg.function(letters, "w", type=pa.string())}  # fmt: skip


def expected(rows: list[tuple[int, Row]], *, windowed: bool, by_time: bool) -> Row:
    """The values of some rows, each with the number in which it came."""
    by_arrival = sorted(rows, key=lambda pair: pair[0])
    in_order = [row for _, row in sorted(rows, key=lambda pair: (pair[1]["at"] if by_time else 0, pair[0]))]
    assert by_arrival

    def some(column: str) -> list[Any]:
        return [row[column] for row in in_order if row[column] is not None]

    x, y, d, w = some("x"), some("y"), some("d"), some("w")
    found = {
        "n": len(rows),
        "some": len(x),
        "total": sum(x) if x else None,
        "floats": sum(y) if y else None,
        "money": sum(d) if d else None,
        "mean": sum(x) / len(x) if x else None,
        "low": min(x, default=None),
        "high": max(y, default=None),
        "least": min(w, default=None),
        "dear": max(d, default=None),
        "kinds": len(set(w)),
        "first": w[0] if w else None,
        "last": x[-1] if x else None,
    }
    return found | (
        {"median": quantile(x, 0.5), "p90": quantile(y, 0.9), "text": "".join(sorted(w))} if windowed else {}
    )


def quantile(values: list[Any], share: float) -> float | None:
    if not values:
        return None
    ordered, place = sorted(values), (len(values) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


class Oracle:
    """Keeps every row, and works each result out from the beginning."""

    def __init__(self, window: Window | None, *, delay_ms: int, late_ms: int | None, early: bool) -> None:
        self.window, self.delay_ms, self.late_ms, self.early = window, delay_ms, late_ms, early
        self.rows: list[tuple[int, Row]] = []
        self.arrivals = 0
        self.newest: int | None = None
        self.closed: int | None = None

    def epoch(self, rows: list[Row], *, last: bool = False) -> Iterator[Row]:
        closes: int | None = None
        if last:
            closes = END_OF_TIME_MS
        elif self.newest is not None:
            closes = self.newest - self.delay_ms
            rows_after = closes - (self.late_ms or 0)
            self.newest = max([self.newest, *(row["at"] for row in rows)])
            if not isinstance(self.window, CountWindow | None):
                rows = [row for row in rows if row["at"] >= rows_after]
        else:
            self.newest = max((row["at"] for row in rows), default=None)
        new = list(enumerate(rows, self.arrivals))
        self.arrivals += len(rows)
        self.rows += new
        match self.window:
            case None:
                yield from self._running(new)
            case TimeWindow():
                yield from self._panes(self.window, new, closes)
            case SessionWindow():
                yield from self._sessions(self.window, new, closes)
            case CountWindow():
                yield from self._counted(self.window, new)
        self.closed = closes

    def _running(self, new: list[tuple[int, Row]]) -> Iterator[Row]:
        for key in {row["k"] for _, row in new}:
            yield {"k": key, **expected([p for p in self.rows if p[1]["k"] == key], windowed=False, by_time=False)}

    def _panes(self, window: TimeWindow, new: list[tuple[int, Row]], closes: int | None) -> Iterator[Row]:
        size, every_ms = window.size.ms, window.every.ms
        windows: dict[tuple[str, int], list[tuple[int, Row]]] = defaultdict(list)
        for number, row in self.rows:
            start = row["at"] // every_ms * every_ms
            while start > row["at"] - size:
                windows[row["k"], start].append((number, row))
                start -= every_ms
        touched = {number for number, _ in new}
        for (key, start), rows in windows.items():
            end, came = start + size, any(number in touched for number, _ in rows)
            if self.closed is not None and end <= self.closed:
                label = "corrected" if came else None
            elif closes is not None and end <= closes:
                label = "final"
            else:
                label = "early" if self.early and came else None
            if label is not None:
                yield self._labelled(key, start, end, label, rows)

    def _sessions(self, window: SessionWindow, new: list[tuple[int, Row]], closes: int | None) -> Iterator[Row]:
        gap, touched = window.gap.ms, {number for number, _ in new}
        stay = []
        for key in {row["k"] for _, row in self.rows}:
            session: list[tuple[int, Row]] = []
            of_key = sorted((p for p in self.rows if p[1]["k"] == key), key=lambda p: p[1]["at"])
            for at, pair in enumerate(of_key):
                session.append(pair)
                last = pair[1]["at"]
                if at + 1 < len(of_key) and of_key[at + 1][1]["at"] - last < gap:
                    continue
                if closes is not None and last + gap <= closes:
                    yield self._labelled(key, session[0][1]["at"], last + gap, "final", session)
                else:
                    stay += session
                    if self.early and any(number in touched for number, _ in session):
                        yield self._labelled(key, session[0][1]["at"], last + gap, "early", session)
                session = []
        self.rows = stay

    def _counted(self, window: CountWindow, new: list[tuple[int, Row]]) -> Iterator[Row]:
        of_key: dict[str, list[tuple[int, Row]]] = defaultdict(list)
        first = new[0][0] if new else self.arrivals
        for number, row in self.rows:
            of_key[row["k"]].append((number, row))
            rows = of_key[row["k"]]
            if number >= first and len(rows) % window.slide == 0:
                yield {"k": row["k"], **expected(rows[-window.size :], windowed=True, by_time=False)}

    def _labelled(self, key: str, start: int, end: int, label: str, rows: list[tuple[int, Row]]) -> Row:
        found = {"k": key, "window_start": start, "window_end": end, **expected(rows, windowed=True, by_time=True)}
        return found | ({"result": label} if self.early or self.late_ms is not None else {})


keys = st.sampled_from(["a", "b", "cc", "d" * 20, None])
values = st.one_of(st.none(), st.integers(-5, 5))
rows = st.fixed_dictionaries(
    {
        "k": keys,
        "at": st.integers(-40, 200).map(lambda n: n * 10),
        "x": values,
        "y": st.one_of(st.none(), st.integers(-9, 9).map(lambda n: n / 4)),  # whose sums are exact
        "d": st.one_of(st.none(), st.integers(-500, 500).map(lambda n: Decimal(n) / 100)),
        "w": st.one_of(st.none(), st.sampled_from("pqrs")),
    }
)
epochs = st.lists(
    st.tuples(st.lists(rows, max_size=12), st.sampled_from(["", "", "saved", "split"])), min_size=1, max_size=7
)
milliseconds = st.integers(1, 12).map(lambda n: Duration(n / 10))


@st.composite
def time_windows(draw: st.DrawFn) -> TimeWindow:
    size, step = draw(milliseconds), draw(milliseconds)
    return TimeWindow(max(size, step), min(size, step))


def same(found: Iterable[Row], wanted: Iterable[Row]) -> None:
    assert Counter(map(comparable, found)) == Counter(map(comparable, wanted))


def comparable(row: Row) -> tuple[Any, ...]:
    return tuple((name, round(value, 9) if isinstance(value, float) else value) for name, value in sorted(row.items()))


def check(
    window: Window | None, came: list[tuple[list[Row], str]], shards: int, *, delay: Duration, late: Duration | None = None,
    early: bool = False,
) -> None:  # fmt: skip
    functions = FUNCTIONS if window is None else FUNCTIONS | OF_WINDOWS
    operator = Aggregate(functions, window=window, late=late, early=early)
    timed = isinstance(window, TimeWindow | SessionWindow)
    event_time = operator.event_time(perseid.event_time("at", delay=delay)) if timed else None
    harness = OperatorHarness(operator, key="k", event_time=event_time, shards=shards, schema=SCHEMA, replay=True)
    oracle = Oracle(window, delay_ms=delay.ms, late_ms=None if late is None else late.ms, early=early)
    for new, then in came:
        same(harness.epoch(new), oracle.epoch(new))
        if then == "saved":
            harness.restore(harness.snapshot())
        elif then == "split":
            harness = OperatorHarness.merge(harness.split(3))
    if timed:
        same(harness.finish(), oracle.epoch([], last=True))
        assert not harness.timers or window is not None


@given(epochs, st.sampled_from([1, 3]))
def test_values_so_far(came: list[tuple[list[Row], str]], shards: int) -> None:
    check(None, came, shards, delay=every(seconds=1))


@given(epochs, st.sampled_from([1, 3]), time_windows(), milliseconds, st.booleans())
def test_windows_of_time(came: list[Any], shards: int, window: TimeWindow, delay: Duration, early: bool) -> None:
    check(window, came, shards, delay=delay, early=early)


@given(epochs, time_windows(), milliseconds, milliseconds, st.booleans())
def test_windows_that_are_corrected(
    came: list[Any], window: TimeWindow, delay: Duration, late: Duration, early: bool
) -> None:
    check(window, came, 1, delay=delay, late=late, early=early)


@given(epochs, st.sampled_from([1, 3]), milliseconds, milliseconds, st.booleans())
def test_sessions(came: list[Any], shards: int, gap: Duration, delay: Duration, early: bool) -> None:
    check(SessionWindow(gap), came, shards, delay=delay, early=early)


@given(epochs, st.sampled_from([1, 3]), st.integers(1, 6), st.integers(1, 6))
def test_windows_of_rows(came: list[Any], shards: int, size: int, slide: int) -> None:
    check(CountWindow(max(size, slide), min(size, slide)), came, shards, delay=every(seconds=1))


@given(epochs, st.sampled_from([1, 3]))
def test_values_up_to_each_row(came: list[tuple[list[Row], str]], shards: int) -> None:
    harness = OperatorHarness(EachRow(FUNCTIONS_OF_ROWS), key="k", shards=shards, schema=SCHEMA, replay=True)
    before: list[tuple[int, Row]] = []
    for new, then in came:
        wanted = []
        for row in new:
            before.append((len(before), row))
            of_key = [pair for pair in before if pair[1]["k"] == row["k"]]
            values = expected(of_key, windowed=False, by_time=False)
            wanted.append({**row, **{name: values[name] for name in FUNCTIONS_OF_ROWS}})
        found = harness.epoch(new)
        same(found, wanted)
        if shards == 1:
            assert [row["n"] for row in found] == [row["n"] for row in wanted], "in the order of rows"
        if then == "saved":
            harness.restore(harness.snapshot())
        elif then == "split":
            harness = OperatorHarness.merge(harness.split(3))
            shards = 1
