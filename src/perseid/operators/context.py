"""What an operator may know besides its rows and its state: epoch, time, watermark, shard, timers.

Invariant: all of it is decided when the epoch is admitted, so a replay sees the same. Operators never look at a clock.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from perseid.state.timers import Timer, Timers
from perseid.vocabulary import Epoch, OperatorName, ShardId

if TYPE_CHECKING:
    from perseid.operators.event_time import EventTime


_ANY_SHARD = ShardId(OperatorName("operator"), 0)  # for contexts made by hand


@dataclass(slots=True)
class Blamed:
    """Who raised in a pass over all keys that goes on behind each that does."""

    keys: dict[Hashable, Exception] = field(default_factory=dict)
    timers: dict[Timer, Exception] = field(default_factory=dict)


@dataclass(slots=True)
class Context:
    """One epoch of one shard. The engine makes a new one for every epoch; operators read it as ``self.context``."""

    epoch: Epoch
    time_ms: int  # processing time of the epoch, the same in every replay
    watermark_ms: int | None = (
        None  # rows before it are late; None without event time, or while an input had no rows yet
    )
    shard: ShardId = _ANY_SHARD
    key: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()  # key columns, by input where they differ
    event_time: EventTime | None = None
    last_epoch: bool = False  # the input has ended: the watermark is the end of time, and no row is late
    output: pa.Schema | None = None  # what the operator declared; None in contexts made by hand
    timers: Timers = field(default_factory=Timers)  # the shard's own: run_epoch puts them here

    late_rows: int = 0  # dropped in this epoch
    max_event_time_ms: dict[str, int] = field(default_factory=dict)  # newest event time seen, by input with rows
    current_key: tuple[Hashable] | None = None  # the key whose method runs, wrapped; KeyedOperator only
    forgotten: bool = False  # forget() was called for the current key
    skipped: set[str] = field(default_factory=set)  # timers in the dead letters, as text: they do not fire
    blamed: Blamed | None = None  # set: a key that raises does not end the epoch, it is put down here

    def forget(self) -> None:
        """Drop the state and the timers of the key whose method runs (``KeyedOperator`` only)."""
        assert self.current_key is not None, "forget() is for process_key and on_key_timer of a KeyedOperator"
        self.forgotten = True
        self.timers.cancel_all(self.current_key[0])

    def key_columns(self, name: str) -> tuple[str, ...]:
        """The key columns of an input."""
        if isinstance(self.key, Mapping):
            columns = self.key.get(name)
            return columns if columns is not None else next(iter(self.key.values()))
        return self.key
