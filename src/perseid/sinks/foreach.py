"""Epochs handed to a function of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from perseid.errors import SettingsError
from perseid.sinks.delivered import Delivered
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Fence


def foreach(function: Callable[..., object]) -> ForeachSink:
    """A sink that calls ``function(epoch, df)``, or ``function(epoch, df, fence)``, in the driver for every epoch, in order.

    The function runs exactly one action on ``df`` and returns when the rows are safe. After a crash it may be called
    again for the epoch that was under way: the rows of that epoch are then to take the place of those it may have
    written before. So use the epoch as part of the key, in one transaction.

    ``fence`` is a number that is higher for every later start of the application. A driver that was paused for long may
    wake in the middle of the function, when another one has taken over: keep the highest fence where the rows are, and
    refuse a lower one in the same transaction.

    >>> def to_database(epoch, df, fence):
    ...     rows = df.toArrow().to_pylist()
    ...     with connection() as transaction:
    ...         newest = transaction.execute("UPDATE driver SET fence = ? WHERE fence <= ?", [fence, fence])
    ...         if newest.rowcount == 0:
    ...             raise perseid.errors.Fenced("a newer driver writes to the database")
    ...         transaction.execute("DELETE FROM counts WHERE epoch = ?", [epoch])
    ...         transaction.executemany("INSERT INTO counts VALUES (?, ?, ?)", [(epoch, *r.values()) for r in rows])
    >>> out = foreach(to_database)
    """
    if not callable(function):
        raise SettingsError(f"sink foreach: expected a function of (epoch, df) or (epoch, df, fence), got {function!r}")
    return ForeachSink(function)


@dataclass(eq=False)
class ForeachSink:
    """Made by `foreach`."""

    function: Callable[..., object]
    kind: str = field(default="foreach", init=False)
    _fence: Fence = field(default=Fence(0), init=False, repr=False)
    _delivered: Delivered = field(default_factory=Delivered, init=False, repr=False)

    def open(self, spark: SparkSession, store: Store) -> None:
        self._fence = store.fence

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._delivered.holds(epoch, digest)

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        if _takes_a_fence(self.function):
            self.function(epoch, df, self._fence)
        else:
            self.function(epoch, df)
        self._delivered.add(epoch, digest)

    def close(self) -> None:
        pass


def _takes_a_fence(function: Callable[..., object]) -> bool:
    """Has it a third parameter that must be given?"""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C
        return False
    given = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return len(given) == 3
