"""A folder with one folder per epoch, each put there whole by a rename: what the parquet and JSON sinks are made of.

    <path>/epoch=<n>/part-…      the rows; Spark reads ``<path>`` as one table with a column ``epoch``
    <path>/epoch=<n>/_perseid.json   the digest of the epoch; Spark ignores the name
    <path>/_staging/…            what is being written, or was when the driver died

Invariant: ``epoch=<n>`` holds all rows of one version of the epoch or does not exist. When a version replaces another,
a crash between the two renames leaves the epoch out; it is not committed then, and is written again after the restart.
Where the storage has no rename of folders (S3), the digest arrives last, so that `holds` is right there, too (X2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.errors import CorruptData, RootError, SettingsError
from perseid.sinks.part_files import Format, Mapped, Part, can_be_mapped, write_mapped_parts, write_parts
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store, token
from perseid.vocabulary import Epoch

_STAGING = "_staging"
_MARKER = "_perseid.json"


@dataclass(eq=False)
class EpochFolders:
    """Epochs as folders of files of one format below ``path``."""

    path: str
    kind: Format
    files: int | None = None
    _place: Store | None = field(default=None, init=False, repr=False)
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
            self._place = Store.at(self.path)
        except RootError as error:
            raise SettingsError(
                f"sink {self.kind}({self.path!r}): cannot write there: {error.__cause__ or error}"
            ) from error
        self._place.delete(_STAGING)
        self._place.sweep("")

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._digest(epoch) == digest

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        place = self._opened()
        staged = f"{_STAGING}/epoch={epoch}-{token()}"
        if self.files is not None:
            df = df.coalesce(self.files)
        parts = write_parts(df, place, staged, self.kind, expected_bytes=self._last_bytes)
        self._put(epoch, digest, staged, parts)

    def write_mapped(self, epoch: Epoch, digest: str, schema: StructType, mapped: Mapped) -> bool:
        """Like ``write``, in the Python tasks that make the rows. False, and nothing done, where that is not the way."""
        place = self._opened()
        if self.files is not None or not can_be_mapped(place, schema, self.kind, self._last_bytes):
            return False
        staged = f"{_STAGING}/epoch={epoch}-{token()}"
        self._put(epoch, digest, staged, write_mapped_parts(mapped, schema, place, staged))
        return True

    def _put(self, epoch: Epoch, digest: str, staged: str, parts: list[Part]) -> None:
        """Give the written files their name."""
        place = self._opened()
        self._last_bytes = sum(part.bytes for part in parts)
        marker = seal({"epoch": epoch, "digest": digest, "parts": [part.name for part in parts]})
        target = f"epoch={epoch}"
        replaced = f"{staged}.replaced"
        if place.exists(target):
            if place.local is None:  # what is moved file by file must not look whole meanwhile
                place.delete(f"{target}/{_MARKER}")
            place.rename(target, replaced)
        if place.local is not None:
            place.write(f"{staged}/{_MARKER}", [marker])
            place.rename(staged, target)
        else:  # maybe file by file
            place.rename(staged, target)
            place.write(f"{target}/{_MARKER}", [marker])
        place.delete(replaced)

    def close(self) -> None:
        self._place = None

    def _digest(self, epoch: Epoch) -> str | None:
        path = f"epoch={epoch}/{_MARKER}"
        try:
            marker = unseal(self._opened().read(path), path)
        except (FileNotFoundError, CorruptData):
            return None
        return str(marker["digest"])

    def _opened(self) -> Store:
        assert self._place is not None, f"sink {self.kind}({self.path!r}) is not open"
        return self._place
