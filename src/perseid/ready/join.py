"""Two streams joined by key, of rows that happened at most so far apart (L3): ``stream.join``.

A row waits until no row can come any more that it could be joined with. So the result does not depend on which stream is ahead, nor on
how rows are divided into epochs: every pair comes out once, in the epoch in which the later of the two came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.duration import Duration
from perseid.errors import GraphError
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.ready.columns import Numbers
from perseid.ready.contents import cut, join
from perseid.ready.kept_rows import ByKeyAndTime, KeptRows, Waiting, ranges
from perseid.ready.keys import member
from perseid.ready.partners import LEFT, RIGHT, check_event_time, check_suffix, joined_schema, with_partners
from perseid.ready.times import times_us
from perseid.ready.wake import wake_at
from perseid.state.fields import state

How = Literal["inner", "left", "outer"]


class Join(Operator):
    """Pairs of rows of two streams. ``Stream.join`` makes it."""

    contents: Waiting | None = state(default=None, split=cut, merge=join)

    def __init__(self, *, within: Duration, how: How = "inner", suffix: str = "_right") -> None:
        """Raises ``GraphError`` for what cannot work."""
        if not isinstance(within, Duration) or within.ms < 1:
            raise GraphError(f"join(within={within!r}): expected a duration such as every(minutes=1)")
        if how not in get_args(How):
            raise GraphError(f"join(how={how!r}): expected one of {', '.join(map(repr, get_args(How)))}")
        check_suffix("join", suffix)
        self.within, self.how, self.suffix = within, how, suffix

    def _mistakes(self, event_time: EventTime | None) -> Iterator[str]:
        if event_time is None:
            yield 'within= is a length of event time: write event_time=perseid.event_time("at", delay=every(seconds=10))'

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        check_event_time(inputs, event_time)
        return joined_schema(inputs, key, self.suffix)

    def process(self, left: pa.Table, right: pa.Table) -> pa.Table | None:
        """New rows with those that wait; those that nothing can join any more go."""
        if not left.num_columns or not right.num_columns:
            return None
        if self.contents is None:
            self.contents = Waiting(())
            self.contents.of = {LEFT: KeptRows.none(left.schema), RIGHT: KeptRows.none(right.schema)}
        waiting = self.contents
        begin = {name: len(waiting.of[name]) for name in (LEFT, RIGHT)}
        self._take(waiting, LEFT, left)
        self._take(waiting, RIGHT, right)
        pairs = [
            self._pairs(waiting, begin[LEFT], len(waiting.of[LEFT]), 0, len(waiting.of[RIGHT])),
            self._pairs(waiting, 0, begin[LEFT], begin[RIGHT], len(waiting.of[RIGHT])),
        ]
        of_left, of_right = (np.concatenate([pair[at] for pair in pairs]) for at in (0, 1))
        waiting.of[LEFT].flags[of_left] = True
        waiting.of[RIGHT].flags[of_right] = True
        found = [self._table(waiting, of_left, of_right), *self._close(waiting)]
        self.contents = waiting.without_unused(waiting.used)
        for name in (LEFT, RIGHT):
            if self._outer(name):  # a row without a partner is to come out even if no rows come
                rows = self.contents.of[name]
                wake_at(self.contents, rows.only(~rows.flags), self.context, self.within.ms)
        return pa.concat_tables(found)

    def on_timer(self, timers: Any) -> None:
        """Nothing: the timer was there so that an epoch would be run."""

    def _take(self, waiting: Waiting, name: str, rows: pa.Table) -> None:
        context = self.context
        assert context.event_time is not None, "see _mistakes"
        rows, times = times_us(rows, context, context.event_time.column)
        if not self._outer(name) and rows.num_rows:  # a null in the key is equal to nothing
            valid = [rows.column(column).is_valid() for column in context.key_columns(name)]
            if not all(pc.all(column).as_py() for column in valid):
                there = np.logical_and.reduce([column.to_numpy() for column in valid])
                rows, times = rows.filter(pa.array(there)), times[there]
        waiting.take(name, rows, times, context)

    def _outer(self, name: str) -> bool:
        return self.how == "outer" or (self.how == "left" and name == LEFT)

    def _pairs(self, waiting: Waiting, a: int, b: int, c: int, d: int) -> tuple[Numbers, Numbers]:
        """The pairs among left rows from a to b and right rows from c to d, by their places."""
        left, right = waiting.of[LEFT], waiting.of[RIGHT]
        mine = np.arange(a, b)
        if a == b or c == d:
            return mine[:0], mine[:0]
        keys = len(waiting.keys)
        valid = np.logical_and.reduce(
            [column.is_valid().to_numpy(zero_copy_only=False) for column in waiting.keys.columns]
        )
        common = member(left.numbers[a:b], keys) & member(right.numbers[c:d], keys) & valid
        mine = mine[common[left.numbers[a:b]]]
        others = np.arange(c, d)[common[right.numbers[c:d]]]
        within = self.within.ms * 1_000
        index = ByKeyAndTime(right.numbers[others], right.times_us[others])
        numbers, times = left.numbers[mine], left.times_us[mine]
        of, places = ranges(index.before(numbers, times - within), index.after(numbers, times + within))
        return mine[of], others[index.order[places]]

    def _table(self, waiting: Waiting, of_left: Numbers, of_right: Numbers) -> pa.Table:
        """Pairs of rows by their places; a place below 0 stands for nulls."""
        key = {name: self.context.key_columns(name) for name in (LEFT, RIGHT)}
        left = waiting.of[LEFT].table.take(pa.array(of_left, mask=of_left < 0))
        if (of_left < 0).any():
            there = waiting.of[RIGHT].table.take(pa.array(of_right, mask=of_right < 0))
            for name, column in zip(key[LEFT], key[RIGHT], strict=True):
                at = left.column_names.index(name)
                values = pc.coalesce(left.column(name), there.column(column).cast(left.schema.field(name).type))
                left = left.set_column(at, left.schema.field(name), values)
        return with_partners(left, waiting.of[RIGHT].table, of_right, key, self.suffix)

    def _close(self, waiting: Waiting) -> Iterator[pa.Table]:
        """Rows that nothing can join any more go; with nulls, if they have found none and are wanted."""
        watermark = self.context.watermark_ms
        if watermark is None:
            return
        for name in (LEFT, RIGHT):
            rows = waiting.of[name]
            gone = rows.times_us + self.within.ms * 1_000 < watermark * 1_000
            if self._outer(name):
                alone = np.flatnonzero(gone & ~rows.flags)
                if len(alone):
                    none = np.full(len(alone), -1, np.int64)
                    yield self._table(waiting, *((alone, none) if name == LEFT else (none, alone)))
            waiting.of[name] = rows.only(~gone)
