"""Aggregates by key, of everything so far or by window (L3): ``stream.aggregate``.

Every epoch is worked on as whole columns: keys become numbers, rows groups, and the functions see all groups at once.

Invariant: the result of a window does not depend on how its rows are divided into epochs, nor a key's on the number of shards. Results
come out in the order of windows and, within one, of keys, also when an epoch is run again with its rows in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from perseid import agg
from perseid.duration import Duration
from perseid.errors import GraphChanged, GraphError, OperatorMistake
from perseid.operators.event_time import END_OF_TIME_MS, EventTime
from perseid.operators.operator import Operator
from perseid.ready.contents import Clock, Contents, Found, Plan, Rows, Windows, cut, join
from perseid.ready.counted import Counted
from perseid.ready.functions import Function
from perseid.ready.panes import Panes
from perseid.ready.running import Running
from perseid.ready.sessions import Sessions
from perseid.ready.times import times_us, to_event_time
from perseid.ready.wake import wake
from perseid.ready.windows import CountWindow, SessionWindow, TimeWindow, Window
from perseid.state.fields import state

START, END, RESULT = "window_start", "window_end", "result"


class Aggregate(Operator):
    """Values of the rows of each key, of all so far or of a window. ``Stream.aggregate`` makes it."""

    contents: Windows | None = state(default=None, split=cut, merge=join)

    def __init__(
        self,
        values: Mapping[str, Function],
        *,
        window: Window | None = None,
        early: bool = False,
        late: Duration | None = None,
    ) -> None:
        """Raises ``GraphError`` for what cannot work."""
        self.values, self.window, self.early, self.late = _checked(values, window), window, early, late
        if not isinstance(early, bool):
            raise GraphError(f"aggregate(early={early!r}): expected True or False")
        if late is not None and not isinstance(late, Duration):
            raise GraphError(f"aggregate(late={late!r}): expected a duration such as every(minutes=1)")
        if early and not isinstance(window, (TimeWindow, SessionWindow)):
            raise GraphError(
                "aggregate(early=True): expected a window of time, such as window=perseid.tumbling(seconds=10)"
            )
        if late is not None and not isinstance(window, TimeWindow):
            raise GraphError(
                "aggregate(late=…): expected a window=perseid.tumbling(…) or perseid.sliding(…); to wait longer with a session"
                " write a longer delay= in event_time"
            )
        self.ordered = isinstance(window, CountWindow) or any(function.ordered for function in self.values.values())

    def event_time(self, given: EventTime | None) -> EventTime | None:
        """What the operator is to be given: rows that correct a result must not be dropped before."""
        if given is None or self.late is None:
            return given
        return EventTime(given.column, Duration(given.delay.seconds + self.late.seconds), given.idle_after)

    # -- before the start -----------------------------------------------------------------------------------------------

    def _mistakes(self, event_time: EventTime | None) -> Iterator[str]:
        if event_time is None and isinstance(self.window, (TimeWindow, SessionWindow)):
            yield 'a window of time needs an event time: write event_time=perseid.event_time("at", delay=every(seconds=10))'

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        ((name, schema),) = inputs.items()
        fields = [schema.field(column) for column in key[name]]
        timed = event_time is not None and isinstance(self.window, (TimeWindow, SessionWindow))
        if timed and event_time is not None:
            fields += [pa.field(column, schema.field(event_time.column).type) for column in (START, END)]
        for column, function in self.values.items():
            if function.column is not None and function.column not in schema.names:
                raise OperatorMistake(f"values['{column}']: {function}: no such column; its input has {schema.names}")
            try:
                kind = None if function.column is None else _plain(schema.field(function.column).type)
                fields.append(pa.field(column, function.output(kind)))
            except OperatorMistake as error:
                raise OperatorMistake(f"values['{column}']: {error}") from error
        if self._labelled:
            fields.append(pa.field(RESULT, pa.string()))
        names = [field.name for field in fields]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise OperatorMistake(
                f"two columns of its output have the name {twice[0]!r}: give the one in values= another"
            )
        return pa.schema([pa.field(field.name, _plain(field.type)) for field in fields])

    def _variables(self) -> dict[str, str]:
        return {"window": repr(self.window), **{name: str(function) for name, function in self.values.items()}}

    def _check_state(self) -> None:
        if self.contents is not None and self.contents.about != self._about:
            raise GraphChanged(
                f"its state is of {', '.join(self.contents.about)}; now it would be of {', '.join(self._about)}:"
                " begin a new root, or give the changed aggregate another name"
            )

    # -- every epoch ----------------------------------------------------------------------------------------------------

    def process(self, rows: pa.Table) -> pa.Table | None:
        """Rows into groups, and what is to be told of them."""
        if self.contents is None:
            if not rows.num_rows:
                return None
            self.contents = self._empty()
        contents = self.contents
        come = self._come(contents, rows) if rows.num_rows else None
        plan = Plan(
            tuple(self.values.values()), tuple(self._kind(contents, function) for function in self.values.values())
        )
        clock = self._clock()
        found = [self._table(contents, one) for one in contents.epoch(plan, come, clock)]
        if isinstance(contents, (Panes, Sessions)):
            contents = self.contents = contents.without_unused(contents.used)
            self._set_timer(contents)
        return pa.concat_tables(found) if found else None

    def on_timer(self, timers: Any) -> None:
        """Nothing: the timer was there so that an epoch would be run."""

    def _empty(self) -> Windows:
        match self.window:
            case None:
                return Running(self._about)
            case TimeWindow():
                return Panes.of(self._about, self.window)
            case SessionWindow():
                return Sessions.of(self._about, self.window)
            case CountWindow():
                return Counted.of(self._about, self.window)

    def _come(self, contents: Contents, rows: pa.Table) -> Rows | None:
        """Rows with their keys numbered and their times; None if none is left: one without an event time is in no window of time."""
        context = self.context
        operator = context.shard.operator
        timed = context.event_time is not None and isinstance(self.window, (TimeWindow, SessionWindow))
        column = context.event_time.column if timed and context.event_time is not None else None
        rows, times = times_us(rows, context, column)
        if column is not None and rows.num_rows:
            self._learn(contents, rows, column)
        if not rows.num_rows:
            return None
        for column_name, function in self.values.items():
            if function.column is not None:
                if function.column not in rows.column_names:
                    raise OperatorMistake(
                        f"operator '{operator}': values['{column_name}']: {function}: no such column among {rows.column_names}"
                    )
                self._learn(contents, rows, function.column)
        return Rows(rows, *contents.keys.number(rows, context.key_columns("rows"), operator), times)

    def _learn(self, contents: Contents, rows: pa.Table, column: str) -> None:
        kind = _plain(rows.schema.field(column).type)
        known = contents.kinds.setdefault(column, kind)
        if known != kind:
            raise OperatorMistake(
                f"operator '{self.context.shard.operator}': column '{column}' was {known} in the rows its state was made from,"
                f" now it is {kind}: cast it in a transform before"
            )

    def _kind(self, contents: Contents, function: Function) -> pa.DataType | None:
        return None if function.column is None else contents.kinds.get(function.column)

    def _clock(self) -> Clock:
        watermark = self.context.watermark_ms
        if watermark is None:
            return Clock(None, None, self.early)
        late_ms = 0 if self.late is None else self.late.ms
        return Clock(min(watermark + late_ms, END_OF_TIME_MS) * 1_000, watermark * 1_000, self.early)

    def _set_timer(self, contents: Windows) -> None:
        following = contents.next_end()
        if following is not None:
            end_us, number = following
            late_ms = 0 if self.late is None else self.late.ms
            wake(contents, -(-end_us // 1_000) - late_ms, number, self.context)

    def _table(self, contents: Contents, found: Found) -> pa.Table:
        keys = zip(self.context.key_columns("rows"), contents.keys.taken(found.numbers), strict=True)
        columns: dict[str, Any] = dict(keys)
        if found.start_us is not None and found.end_us is not None and self.context.event_time is not None:
            kind = contents.kinds[self.context.event_time.column]
            columns |= {START: to_event_time(found.start_us, kind), END: to_event_time(found.end_us, kind)}
        columns |= dict(zip(self.values, found.values, strict=True))
        if self._labelled:
            columns[RESULT] = pa.array([found.label] * len(found.numbers), pa.string())
        return pa.table(columns)

    @property
    def _labelled(self) -> bool:
        return self.early or self.late is not None

    @property
    def _about(self) -> tuple[str, ...]:
        return (repr(self.window), *(f"{name}={function}" for name, function in self.values.items()))


def _checked(values: Any, window: Any) -> dict[str, Function]:
    """The functions by the name of their column."""
    if window is not None and not isinstance(window, Window):
        raise GraphError(
            f"aggregate(window={window!r:.80}): expected perseid.tumbling(seconds=10), perseid.sliding(…), perseid.session(…),"
            " perseid.count_window(100), or None for all rows so far"
        )
    if not isinstance(values, Mapping) or not values:
        raise GraphError(
            f'aggregate(values={values!r:.80}): expected aggregates by column, such as {{"n": perseid.agg.count()}}'
        )
    known = ", ".join(name for name in agg.__all__ if name != "Function")
    for name, function in values.items():
        if not isinstance(name, str) or not name:
            raise GraphError(f"aggregate(values={{{name!r}: …}}): expected the name of a column")
        if not isinstance(function, Function):
            raise GraphError(
                f"aggregate: values[{name!r}] is {function!r:.80}: expected one of perseid.agg: {known}; such as"
                ' perseid.agg.sum("amount")'
            )
        if window is None and not function.of_all:
            raise GraphError(
                f"aggregate: values[{name!r}]: {function} needs all values, which would grow for good: give it a window=,"
                " such as perseid.tumbling(minutes=1)"
            )
    return dict(values)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
