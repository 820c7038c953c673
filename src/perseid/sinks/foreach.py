"""Epochs handed to a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from perseid.errors import SettingsError
from perseid.sinks.delivered import Delivered
from perseid.storage.store import Store
from perseid.vocabulary import Epoch


def foreach(function: Callable[[int, DataFrame], object]) -> ForeachSink:
    """A sink that calls ``function(epoch, df)`` in the driver for every epoch, in order.

    The function runs exactly one action on ``df`` and returns when the rows are safe. After a crash it may be called
    again for the epoch that was under way: the rows of that epoch are then to take the place of those it may have
    written before. So use the epoch as part of the key, in one transaction:

    >>> def to_database(epoch, df):
    ...     rows = df.toArrow().to_pylist()
    ...     with connection() as transaction:
    ...         transaction.execute("DELETE FROM counts WHERE epoch = ?", [epoch])
    ...         transaction.executemany("INSERT INTO counts VALUES (?, ?, ?)", [(epoch, *r.values()) for r in rows])
    >>> out = foreach(to_database)
    """
    if not callable(function):
        raise SettingsError(f"sink foreach: expected a function of (epoch, df), got {function!r}")
    return ForeachSink(function)


@dataclass(eq=False)
class ForeachSink:
    """Made by `foreach`."""

    function: Callable[[int, DataFrame], object]
    kind: str = field(default="foreach", init=False)
    _delivered: Delivered = field(default_factory=Delivered, init=False, repr=False)

    def open(self, spark: SparkSession, store: Store) -> None:
        pass

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._delivered.holds(epoch, digest)

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        self.function(epoch, df)
        self._delivered.add(epoch, digest)

    def close(self) -> None:
        pass
