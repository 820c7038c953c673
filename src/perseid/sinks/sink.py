"""What every sink offers: epochs that are there wholly or not at all, and at most once (X2).

The digest says what an epoch was made of (source slices and time). The same epoch with the same digest is the same
rows, so a replay after a crash may skip it; with another digest it is different rows and replaces what is there.

A driver may be paused at any line, for hours, and wake when another one has taken over and written the same epochs. It
must change nothing then, and no look beforehand can prevent that: the medium has to refuse. ``store.fence`` is this
driver's number, higher for every later one: write it beside the rows, and let the medium refuse what comes with a lower
one (a condition in the transaction, a name that is given once).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.storage.store import Store
from perseid.vocabulary import Epoch


@runtime_checkable
class Sink(Protocol):
    """Where rows go. Write your own by having these methods; nothing is inherited."""

    @property
    def kind(self) -> str:
        """A word for the graph's fingerprint."""

    def open(self, spark: SparkSession, store: Store) -> None:
        """Begin; clear away what a crashed run left half done.

        ``store.fence`` is the number of this driver; ``store.check()`` raises ``Fenced`` once a newer one has taken over.
        """

    def holds(self, epoch: Epoch, digest: str) -> bool:
        """Whether exactly this epoch is there already."""

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        """Write all of the epoch or nothing, replacing an older version of it; durable on return.

        Nothing that a driver with a higher fence wrote is replaced: raise ``perseid.errors.Fenced`` instead.
        Runs exactly one action on ``df``: running it has effects in the hosts.
        """

    def close(self) -> None:
        """Let go of what `open` took. A closed sink may be opened again."""


@runtime_checkable
class MappedSink(Sink, Protocol):
    """A sink that can take rows inside the Python task that has them, which saves them the way back into Spark."""

    def write_mapped(self, epoch: Epoch, digest: str, schema: StructType, mapped: Callable[..., DataFrame]) -> bool:
        """Like ``write``; ``mapped(function, schema)`` is what ``df.mapInArrow(function, schema)`` would be.

        False, with nothing done, where ``write`` must be used.
        """
