"""What every source offers: slices of rows that can be read again, byte for byte, until they are trimmed (M1).

Offsets are integers from 0 on; their unit is the source's own (rows, files, batches). A slice is ``[start, end)``.
The invariant all sources keep: once `end` has returned an offset, `read` up to it gives the same rows in the same
order for good, also in another process after a crash, until `trim` has passed them.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from pyspark.sql import DataFrame, SparkSession

from perseid.sources.malformed import Aside, Malformed
from perseid.storage.store import Store
from perseid.vocabulary import Offset


@runtime_checkable
class Source(Protocol):
    """Where rows come from. Write your own by having these methods; nothing is inherited."""

    @property
    def kind(self) -> str:
        """A word for the graph's fingerprint: a root belongs to one kind of source."""

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        """Begin. ``folder`` is its own durable place in ``store``. Raises ``SettingsError`` for bad settings."""

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        """How far one epoch may read from ``start`` now; ``start`` itself when there is nothing new."""

    def read(self, start: Offset, end: Offset) -> DataFrame:
        """The rows of ``[start, end)``, in order. An empty slice is an empty DataFrame of the right schema."""

    def rows(self, start: Offset, end: Offset) -> int | None:
        """How many rows ``[start, end)`` has, if that is known without a Spark job."""

    def finished(self, start: Offset) -> bool:
        """Whether nothing will ever come at or after ``start``."""

    def trim(self, start: Offset) -> None:
        """Nothing before ``start`` will be read again."""

    def close(self) -> None:
        """Let go of what `open` took. A closed source may be opened again."""


@runtime_checkable
class UnorderedSource(Source, Protocol):
    """A source that reads with less effort where nobody looks at the order of its rows."""

    def read_unordered(self, start: Offset, end: Offset) -> DataFrame:
        """The rows of ``[start, end)``, in any order."""


@runtime_checkable
class MalformedSource(Source, Protocol):
    """A source whose rows may not fit its schema. Such a row fails the Spark job that reads it, until it was put aside."""

    malformed: Malformed

    @property
    def malformed_lines(self) -> int:
        """Lines put aside since the root was new."""

    def expects_malformed(self, start: Offset, end: Offset) -> bool:
        """Is it better to look for them before the slice is read?"""

    def set_aside(self, start: Offset, end: Offset) -> Aside | None:
        """Put those of a slice aside, for good; None if there are no new ones."""


@runtime_checkable
class GrowingSource(Source, Protocol):
    """A source that is finished in one run and may have more rows in the next: the end of its rows is not the end of time."""

    grows: bool


@runtime_checkable
class WaitingSource(Source, Protocol):
    """A source that knows how much of it waits to be admitted."""

    def waiting(self, start: Offset) -> int:
        """Rows at or after ``start`` that are known to be there, without looking anew: of lines about, of others exactly."""


@runtime_checkable
class PendingSource(Source, Protocol):
    """A source that something else fills, which takes a moment: what is there now may not have arrived yet."""

    def pending(self) -> bool:
        """Is something being taken in at this moment?"""
