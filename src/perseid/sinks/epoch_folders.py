"""A folder with one folder per epoch: what the parquet and JSON sinks are made of.

Spark, or the Python tasks that have the rows, write the files of an epoch to a folder of their own; `published` gives it
its name, once and as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.errors import RootError, SettingsError
from perseid.sinks.part_files import Format, Mapped, Part, can_be_mapped, write_mapped_parts, write_parts
from perseid.sinks.published import STAGING, PublishedEpochs
from perseid.storage.store import Store
from perseid.vocabulary import Epoch


@dataclass(eq=False)
class EpochFolders:
    """Epochs as folders of files of one format below ``path``."""

    path: str
    kind: Format
    files: int | None = None
    _epochs: PublishedEpochs | None = field(default=None, init=False, repr=False)
    _last_bytes: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.path:
            raise SettingsError(f"sink {self.kind}: expected a folder to write to, got an empty path")
        if self.files is not None and self.files < 1:
            raise SettingsError(
                f"sink {self.kind}({self.path!r}): expected at least 1 file per epoch (or None), got {self.files!r}"
            )

    def open(self, spark: SparkSession, store: Store) -> None:
        try:
            place = Store.at(self.path)
        except RootError as error:
            raise SettingsError(
                f"sink {self.kind}({self.path!r}): cannot write there: {error.__cause__ or error}"
            ) from error
        self._epochs = PublishedEpochs(place.fenced(STAGING, store.fence))

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._opened().holds(epoch, digest)

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        place = self._opened().place
        staged = place.staging()
        if self.files is not None:
            df = df.coalesce(self.files)
        parts = write_parts(df, place, staged, self.kind, expected_bytes=self._last_bytes)
        self._put(epoch, digest, staged, parts)

    def write_mapped(self, epoch: Epoch, digest: str, schema: StructType, mapped: Mapped) -> bool:
        """Like ``write``, in the Python tasks that make the rows. False, and nothing done, where that is not the way."""
        place = self._opened().place
        if self.files is not None or not can_be_mapped(place, schema, self.kind, self._last_bytes):
            return False
        staged = place.staging()
        self._put(epoch, digest, staged, write_mapped_parts(mapped, schema, place, staged))
        return True

    def _put(self, epoch: Epoch, digest: str, staged: str, parts: list[Part]) -> None:
        self._last_bytes = sum(part.bytes for part in parts)
        self._opened().put(epoch, digest, staged, parts)

    def close(self) -> None:
        self._epochs = None

    def _opened(self) -> PublishedEpochs:
        assert self._epochs is not None, f"sink {self.kind}({self.path!r}) is not open"
        return self._epochs
