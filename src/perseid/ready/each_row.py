"""Each row with values of all rows of its key up to it (L3): ``stream.running``.

The values of all rows of an epoch are found together: first those of two rows next to each other are joined, then of two pairs, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from perseid.errors import GraphError, OperatorMistake
from perseid.operators.event_time import EventTime
from perseid.ready.aggregate import Aggregate
from perseid.ready.batch import Batch
from perseid.ready.columns import Array, Numbers, Segments, places_of
from perseid.ready.contents import Rows
from perseid.ready.functions import Fold, Function
from perseid.ready.groups import Groups
from perseid.ready.running import Running


class EachRow(Aggregate):
    """Rows with running values beside them. ``Stream.running`` makes it."""

    def __init__(self, values: Mapping[str, Function]) -> None:
        """Raises ``GraphError`` for what cannot work."""
        super().__init__(values)
        for name, function in self.values.items():
            if not isinstance(function, Fold):
                raise GraphError(
                    f"running: values[{name!r}]: {function} needs all values of a key for every row; expected count, sum, mean, min,"
                    " max, first or last"
                )
        self.ordered = True

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        ((_, schema),) = inputs.items()
        fields = [field for field in super()._output(inputs, key, event_time) if field.name in self.values]
        if twice := [field.name for field in fields if field.name in schema.names]:
            raise OperatorMistake(f"its input has a column {twice[0]!r}: give the one in values= another name")
        return pa.schema([*schema, *fields])

    def process(self, rows: pa.Table) -> pa.Table | None:
        """Rows with their values beside them."""
        if not rows.num_rows:
            return None
        if self.contents is None:
            self.contents = self._empty()
        contents = self.contents
        assert isinstance(contents, Running), "it has no window"
        come = self._come(contents, rows)
        assert come is not None, "there are rows"
        found = self._scanned(contents, come)
        for name, function in self.values.items():
            kept, order = found[name]
            assert isinstance(function, Fold)
            values = function.result(kept, self._kind(contents, function))
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            rows = rows.append_column(name, values.take(pa.array(back)))
        return rows

    def _scanned(self, contents: Running, rows: Rows) -> dict[str, tuple[list[Array], Numbers]]:
        """By name what each function keeps of all rows up to each row, in an order that brings keys together; and that order."""
        functions = tuple(self.values.values())
        if contents.groups is None:
            contents.groups = Groups(functions)
        count = rows.table.num_rows
        batch = Batch(rows.table, np.arange(count), count, np.arange(contents.rows, contents.rows + count))
        contents.rows += count
        segments = Segments(rows.codes, len(rows.numbers))
        lengths = np.diff(np.append(segments.starts, count))
        nth = np.arange(count) - np.repeat(segments.starts, lengths)
        before = places_of(rows.numbers, contents.groups.codes)
        known = np.repeat(before, lengths)
        there = known >= 0
        found: dict[str, tuple[list[Array], Numbers]] = {}
        new = Groups(functions)
        new.codes = rows.numbers
        for at, (name, function) in enumerate(self.values.items()):
            assert isinstance(function, Fold)
            kept = _scan(function, [column[segments.order] for column in function.initial(batch)], nth)
            new.columns[at] = [column[segments.starts + lengths - 1] for column in kept]
            if there.any():
                old = [column[known[there]] for column in contents.groups.columns[at]]
                joined = function.joined(old, [column[there] for column in kept])
                kept = [column.copy() for column in kept]
                for column, part in zip(kept, joined, strict=True):
                    column[there] = part
            found[name] = kept, segments.order
        contents.groups.add(functions, new)
        return found


def _scan(function: Fold, kept: list[Any], nth: Numbers) -> list[Array]:
    """What is kept of each row and all before it in its key, from what is kept of each alone; ``nth``: its place within the key."""
    step = 1
    while len(later := np.flatnonzero(nth >= step)):
        joined = function.joined([column[later - step] for column in kept], [column[later] for column in kept])
        for column, part in zip(kept, joined, strict=True):
            column[later] = part
        step *= 2
    return kept
