"""Each row with the latest row of another, slow stream (L3): ``stream.lookup``.

Latest is what came last. Within an epoch the rows of the slow stream come first, so a replay gives the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from perseid.errors import OperatorMistake
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.ready.contents import cut, join
from perseid.ready.kept_rows import KeptRows, Waiting
from perseid.ready.partners import LEFT, RIGHT, check_suffix, joined_schema, with_partners
from perseid.state.fields import state


class Lookup(Operator):
    """Rows with the latest of another stream. ``Stream.lookup`` makes it."""

    contents: Waiting | None = state(default=None, split=cut, merge=join)

    def __init__(self, *, suffix: str = "_right") -> None:
        """Raises ``GraphError`` for what cannot work."""
        check_suffix("lookup", suffix)
        self.suffix = suffix

    def _output(
        self, inputs: Mapping[str, pa.Schema], key: Mapping[str, tuple[str, ...]], event_time: EventTime | None
    ) -> pa.Schema:
        return joined_schema(inputs, key, self.suffix)

    def process(self, left: pa.Table, right: pa.Table) -> pa.Table | None:
        """Take in the rows of the slow stream, then tell each row what is the latest."""
        if not left.num_columns or not right.num_columns:
            return None
        context = self.context
        if self.contents is None:
            self.contents = Waiting(())
            self.contents.of = {RIGHT: KeptRows.none(right.schema)}
        waiting = self.contents
        if right.num_rows:
            waiting.take(RIGHT, right, np.zeros(right.num_rows, np.int64), context)
            waiting.of[RIGHT] = waiting.of[RIGHT].latest()
        if not left.num_rows:
            return None
        missing = [column for column in context.key_columns(LEFT) if column not in left.column_names]
        if missing:
            raise OperatorMistake(
                f"operator '{context.shard.operator}': no key column {missing[0]!r} among {left.column_names}"
            )
        rows = waiting.of[RIGHT]
        numbers, codes = waiting.keys.known(left, context.key_columns(LEFT), context.shard.operator)
        place = np.full(len(waiting.keys) + 1, -1, np.int64)  # the last one is that of keys that are not known
        place[rows.numbers] = np.arange(len(rows))
        key = {name: context.key_columns(name) for name in (LEFT, RIGHT)}
        return with_partners(left, rows.table, place[numbers[codes]], key, self.suffix)
