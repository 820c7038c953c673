"""How large one shard's state is, found out for less than one hundredth of the time its epochs take (M5a).

An estimate is made after an epoch if it has been paid for: every epoch earns ``SHARE`` of the time it took, every estimate costs
what it took. A dear one is made less often, and the size before it stands until then.

What is wrong with a field's hints is said once per operator, with the field and the hint to give, and its size is sampled
instead. A structure that does not show what it holds is counted as itself alone, and said so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from perseid.state.fields import StateField
from perseid.state.operator_state import state_bytes
from perseid.state.sizes import SizeUnknown, size_of, unknown_part

if TYPE_CHECKING:
    from perseid.operators.operator import Operator

SHARE = 0.005
"""Of the time spent in the operator: half of the hundredth that M5a allows."""

EPOCH_S = 0.01
"""What one shard's epoch counts for at least: however few its rows, Spark takes tens of milliseconds to bring them."""

SAVINGS_S = 0.05
"""How much may be saved up: a long quiet time does not pay for a burst of dear estimates."""

LOOKS = 16
"""In how many estimates a field is looked through for structures that do not show their size."""


class SizeEstimate:
    """The size of one shard, as of the last time it was worth the time to look."""

    def __init__(
        self,
        name: str,
        operator: Operator,
        *,
        told: set[str] | None = None,
        clock_s: Callable[[], float] = time.thread_time,  # its own work, not what others do meanwhile
    ) -> None:
        self._name, self._operator, self._clock_s = name, operator, clock_s
        self._told = told if told is not None else set()  # shared by the shards of an operator
        self._warnings: list[str] = []
        self._looks = 0
        self._credit_s = 0.0
        self._cost_s = 0.0  # of the last estimate
        self.bytes = 0
        self.estimates = 0
        self.spent_s = 0.0
        self.worked_s = 0.0

    def after_epoch(self, worked_s: float) -> int | None:
        """The operator has worked for so long: its size now, or None if it is not worth finding out yet."""
        worked_s = max(worked_s, EPOCH_S)
        self.worked_s += worked_s
        self._credit_s = min(self._credit_s + SHARE * worked_s, max(SAVINGS_S, self._cost_s))
        if self._credit_s < self._cost_s:
            return None
        return self.now()

    def now(self) -> int:
        """Its size, whatever that costs."""
        began = self._clock_s()
        self.bytes = state_bytes(self._operator, self._size_of)
        if self._looks < LOOKS:
            self._looks += 1
        self._cost_s = self._clock_s() - began
        self._credit_s -= self._cost_s
        self.spent_s += self._cost_s
        self.estimates += 1
        return self.bytes

    def warnings(self) -> list[str]:
        """What was found wrong since it was last asked for."""
        found, self._warnings = self._warnings, []
        return found

    def _size_of(self, value: Any, field: StateField) -> int:
        try:
            size = size_of(value, field)
        except SizeUnknown as error:
            self._warn(field, f"{error}; its size is sampled instead")
            size = size_of(value)
        if self._looks < LOOKS and field.element_size is None:
            unknown = unknown_part(value, field.sample)
            if unknown is not None:
                self._warn(
                    field,
                    f"a {unknown.__name__} does not show how much it holds, so it is not counted:"
                    " give length= and element_size=",
                )
        return size

    def _warn(self, field: StateField, what: str) -> None:
        if field.name not in self._told:
            self._told.add(field.name)
            self._warnings.append(
                f"operator '{self._name}': the size of state field '{field.name}' is not known: {what}"
            )
