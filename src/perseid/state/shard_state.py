"""One shard's state as a value (S1), taken from an operator and given to one (S2: ``checkpoint_state``, ``restore_state``).

It says what it is made of, so that whoever gets it needs nothing else: the processing state, the epoch it reflects (the paper's
timestamps: what is older is a duplicate), the slots whose keys it answers for, and the output that shards downstream may ask for again.

Invariant: an operator that ``restore_state`` made goes on as the one ``checkpoint_state`` was called with would have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore
from perseid.state.shape import StateShape, shape_of
from perseid.vocabulary import SLOTS, Epoch, SlotRange

if TYPE_CHECKING:
    from perseid.operators.operator import Operator

    AnyOperator = TypeVar("AnyOperator", bound=Operator)


@dataclass(frozen=True, slots=True)
class ShardState:
    """Processing state, the epoch it reflects, and buffer state of one shard."""

    processing: dict[str, Any]  # fields, values by key, timers
    epoch: Epoch
    slots: SlotRange = (0, SLOTS)
    buffer: Mapping[Epoch, pa.Table] = field(default_factory=dict)  # output by epoch, not yet covered downstream
    shape: StateShape | None = None  # of the code that wrote it; None: of this code


def checkpoint_state(
    operator: Operator,
    epoch: Epoch,
    *,
    slots: SlotRange = (0, SLOTS),
    buffer: Mapping[Epoch, pa.Table] | None = None,
    copy: bool = True,
) -> ShardState:
    """The state of an operator that has applied the epochs up to ``epoch``.

    It shares nothing with the operator, which may go on; with ``copy=False`` it does, for whoever is done with it before.
    """
    processing = capture(operator)
    if copy:
        processing = decode([bytes(piece) for piece in encode(processing)])
    return ShardState(processing, epoch, slots, dict(buffer or {}), shape_of(type(operator)))


def restore_state(prototype: AnyOperator, state: ShardState | None) -> AnyOperator:
    """A new shard of the operator, with this state, which it takes over; without one it begins afresh."""
    operator = fresh(prototype)
    if state is not None:
        restore(operator, state.processing)
    return operator
