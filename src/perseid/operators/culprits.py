"""Which rows of an epoch make an operator raise: found by trying, each time on a copy of the state from before the epoch.

A ``KeyedOperator`` is asked key by key: one pass names every key that raises. Of any other operator the rows are halved and
halved again, until the slices that raise are single rows or the tries are used up. A timer that raises is a suspect as rows are.

Invariant: the operator ends as it would have, had the rows and timers that were found never come. So a replay that leaves them
out comes to the same state and the same output. The search depends on nothing but state, rows and time: it always finds the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.errors import OperatorFailed
from perseid.operators.context import Blamed, Context
from perseid.operators.grouping import Groups
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, restore, run_epoch
from perseid.state.timers import Timer

TRIES = 100
"""An epoch is run about so often to find the rows that raise; slices not looked into by then are put aside whole."""

_PLACE = "__perseid_place"
_ERROR_LENGTH = 500

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """An epoch as it was applied, and what had to be left out for that, each with its error."""

    output: pa.Table
    context: Context
    rows: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # by input: place of a row and why
    timers: Mapping[Timer, str] = field(default_factory=dict)


class Search:
    """One epoch of one shard, run with fewer and fewer rows.

    What may be left out is numbered: the keys (of a ``KeyedOperator``) or the rows, then the timers that are due.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: Mapping[str, pa.Table],
        context: Callable[[], Context],
        schema: pa.Schema,
        tries: int = TRIES,
    ) -> None:
        self._operator, self._inputs, self._context, self._schema = operator, inputs, context, schema
        self._tries = tries
        self._before = [bytes(piece) for piece in encode(capture(operator))]
        self._keys: dict[Hashable, int] = {}
        self._number_of: dict[str, Numbers] = self._numbered()  # by input: the number each row has
        first = 1 + max((int(numbers.max()) for numbers in self._number_of.values() if len(numbers)), default=-1)
        self._timers = {timer: first + n for n, timer in enumerate(self._due())}
        self._count = first + len(self._timers)
        self._passed: tuple[pa.Table, Context] | None = None

    def run(self) -> Found:
        """Apply the epoch without what raises. If the operator raises without any rows and timers, so does this."""
        rest = np.arange(self._count)
        error = self._raises(rest)
        if error is None:
            return self._found({})
        hopeless = self._raises(rest[:0])
        errors: dict[int, str] = {}
        while hopeless is None and error is not None and self._operator._by_key and self._tries > 0:
            blamed = self._blamed(rest)
            errors |= blamed
            rest = rest[~np.isin(rest, list(blamed))]
            error = self._raises(rest)
            if not blamed:
                break
        if hopeless is None and error is not None:
            rest = self._halve(rest, error, errors)
            hopeless = self._raises(rest)
        if hopeless is not None:
            self.undo()
            context = self._context()
            where = f"operator '{context.shard.operator}', shard {context.shard.index}, epoch {context.epoch}"
            raise OperatorFailed(f"{where}: no rows can be put aside, it raises without any, too: {hopeless}")
        return self._found(errors)

    def undo(self) -> None:
        """The operator as it was before the epoch."""
        restore(self._operator, decode(self._before))

    def _halve(self, suspects: Numbers, error: str, errors: dict[int, str]) -> Numbers:
        """Those that can be taken together; ``errors`` gets the slices that raise when they come behind them."""
        innocent = suspects[:0]
        todo: list[tuple[Numbers, str | None]] = [(suspects, error)]  # None: not known yet whether it raises
        while todo:
            some, why = todo.pop()
            if why is None and self._tries > 0:
                why = self._raises(np.concatenate([innocent, some]))
                if why is None:
                    innocent = np.concatenate([innocent, some])
                    continue
            if why is None or len(some) == 1 or self._tries <= 0:
                why = why or "not looked into: too many rows before it raise"
                errors |= dict.fromkeys(some.tolist(), why)
                continue
            first, second = np.array_split(some, 2)
            of_first = self._raises(np.concatenate([innocent, first]))
            if of_first is None:
                innocent = np.concatenate([innocent, first])
                todo.append((second, why))  # together with the innocent it is what raised
            else:
                todo += [(second, None), (first, of_first)]
        return innocent

    def _blamed(self, suspects: Numbers) -> dict[int, str]:
        """Keys and timers that raise, from one pass over all of them."""
        blamed = Blamed()
        self._raises(suspects, blamed)
        found = {self._keys[key]: said(error) for key, error in blamed.keys.items()}
        return found | {self._timers[t]: said(error) for t, error in blamed.timers.items() if t in self._timers}

    def _raises(self, taken: Numbers, blamed: Blamed | None = None) -> str | None:
        """Run the epoch with these alone; what was raised."""
        self._tries -= 1
        self.undo()
        mask = np.zeros(self._count, bool)
        mask[taken] = True
        inputs = {name: rows.filter(pa.array(mask[self._number_of[name]])) for name, rows in self._inputs.items()}
        context = self._context()
        context.skipped |= {repr(timer) for timer, number in self._timers.items() if not mask[number]}
        context.blamed = blamed
        try:
            table = run_epoch(self._operator, inputs, context)
            name = context.shard.operator
            output = self._schema.empty_table() if table is None else fit(table, self._schema, name)
        except Exception as error:
            return said(error)
        self._passed = output, context
        return None

    def _found(self, errors: Mapping[int, str]) -> Found:
        assert self._passed is not None
        rows = {}
        for name, numbers in self._number_of.items():
            places = np.flatnonzero(np.isin(numbers, list(errors))).tolist()
            rows[name] = {place: errors[int(numbers[place])] for place in places}
        return Found(*self._passed, rows, {t: errors[n] for t, n in self._timers.items() if n in errors})

    def _numbered(self) -> dict[str, Numbers]:
        numbers: dict[str, Numbers] = {}
        context, first = self._context(), 0
        for name, rows in self._inputs.items():
            mine = numbers[name] = np.arange(first, first + rows.num_rows)
            if not self._operator._by_key:
                first += rows.num_rows
            elif rows.num_rows:
                placed = rows.append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
                columns = context.key_columns("rows" if len(self._inputs) == 1 else name)
                for key, of_key in Groups(placed, columns, context.shard.operator):
                    mine[of_key.column(_PLACE).to_numpy()] = self._keys.setdefault(key, len(self._keys))
        return numbers

    def _due(self) -> list[Timer]:
        """Timers that were pending before the epoch and fire in it."""
        context = self._context()
        now = {"processing": context.time_ms, "event": context.watermark_ms}
        pending = (Timer(*entry) for entry in self._operator._timers.capture())
        return [
            timer
            for timer in pending
            if (limit := now[timer.kind]) is not None and timer.at_ms <= limit and repr(timer) not in context.skipped
        ]


def said(error: BaseException) -> str:
    """An error in one line: what the user's code raised, without our words around it."""
    cause = error.__cause__ or error
    text = str(cause) if isinstance(cause, OperatorFailed) else f"{type(cause).__name__}: {cause}"
    return text.splitlines()[0][:_ERROR_LENGTH] if text else type(cause).__name__
