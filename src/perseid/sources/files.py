"""Files that arrive in a folder, each read once: parquet, JSON, CSV or text.

An offset is a number of files. Which file is which number is durable in the source's log before an epoch may take it,
so the rows are preserved by reference (M1): the files have to stay, unchanged, until they are trimmed.
"""

from __future__ import annotations

import json
import logging
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import islice
from os import PathLike, fspath
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from perseid.errors import SettingsError, SourceChanged
from perseid.sources.listing import Found, Listing, listing
from perseid.sources.malformed import COLUMN, Aside, Malformed, MalformedLines, with_column
from perseid.sources.ordered_scan import FileSlice, ordered_scan, unordered_scan
from perseid.sources.record_log import Record, RecordLog
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store
from perseid.vocabulary import Offset

FileFormat = Literal["parquet", "json", "csv", "text"]

LIST_EVERY_S = 0.1
_LIST_SHARE = 10  # and at most a tenth of the time goes into listing
_SAMPLE_BYTES = 64 << 10
_INFER_FILES = 100
_CORRUPT_COLUMN = "columnNameOfCorruptRecord"
_SPARKS_OWN = frozenset({"mode", _CORRUPT_COLUMN.lower()})  # who sets these, sees to malformed lines himself
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
_COMPRESSION = 4  # rows in a compressed file, a guess

logger = logging.getLogger(__name__)


def files(
    path: str | PathLike[str],
    *,
    schema: StructType | str | None = None,
    format: FileFormat = "parquet",
    options: Mapping[str, object] | None = None,
    pattern: str | None = None,
    malformed: Malformed | None = None,
) -> Files:
    """A source of all files below a folder, those that are there and those that come.

    ``schema`` is a ``StructType`` or DDL string; without it, it is found out from the files that are there at the first
    start, and kept. Text has one string column, ``value`` unless the schema names it. ``options`` are those of
    ``spark.read``; ``pattern`` picks file names (``"*.json"``). ``path`` may be any URI that pyarrow.fs knows.

    ``malformed`` says what becomes of a line of JSON or CSV that does not fit the schema: ``"aside"`` (the default) puts it into the
    dead letters and goes on, ``"fail"`` ends the application, ``"null"`` reads what can be read of it and nulls, as Spark does.

    Move files into the folder when they are complete, and do not change them afterwards. Names that begin with ``_``
    or ``.`` are ignored. Files are taken in the order of their modification times.

    >>> lines = files("in/", schema="line string", format="text")
    """
    if format not in ("parquet", "json", "csv", "text"):
        raise SettingsError(
            f"sources.files: expected format 'parquet', 'json', 'csv' or 'text', got {format!r}; other formats: "
            f"perseid.sources.stream(spark.readStream.format({format!r})…)"
        )
    if not fspath(path):
        raise SettingsError("sources.files: expected a folder, got an empty path")
    if schema is not None and not isinstance(schema, StructType | str):
        raise SettingsError(f"sources.files: expected schema as a StructType or DDL string, got {schema!r}")
    given = {name.lower() for name in options or {}}
    if malformed is not None:
        if malformed not in ("aside", "fail", "null"):
            raise SettingsError(f'sources.files: expected malformed="aside", "fail" or "null", got {malformed!r}')
        if format not in ("json", "csv"):
            raise SettingsError(
                f"sources.files: malformed={malformed!r} is for json and csv; {format} has no such lines"
            )
        if malformed != "null" and given & _SPARKS_OWN:
            theirs = ", ".join(sorted(given & _SPARKS_OWN))
            raise SettingsError(
                f"sources.files: malformed={malformed!r} and Spark's option {theirs}: leave one of them out"
            )
    elif format in ("json", "csv") and not given & _SPARKS_OWN:
        malformed = "aside"
    return Files(fspath(path), schema, format, dict(options or {}), pattern, malformed or "null")


@dataclass(eq=False)
class Files:
    """Made by `files`. An offset is a number of files."""

    path: str
    schema: StructType | str | None = None
    format: FileFormat = "parquet"
    options: Mapping[str, object] = field(default_factory=dict)
    pattern: str | None = None
    malformed: Malformed = "null"
    kind: str = field(default="files", init=False)
    _spark: SparkSession = field(init=False, repr=False)
    _listing: Listing = field(init=False, repr=False)
    _log: RecordLog = field(init=False, repr=False)
    _type: StructType = field(init=False, repr=False)
    _known: set[str] = field(default_factory=set, init=False, repr=False)
    _rows_before: list[int] = field(default_factory=lambda: [0], init=False, repr=False)  # [n]: in files before n
    _ready: DataFrameReader = field(init=False, repr=False)  # made once: options and schema are many calls to the JVM
    _bad: MalformedLines | None = field(default=None, init=False, repr=False)  # None: nobody looks for them
    _checked: DataFrameReader = field(init=False, repr=False)  # tells of lines that do not fit
    _list_at_s: float = field(default=0.0, init=False, repr=False)
    _unready: set[str] = field(default_factory=set, init=False, repr=False)

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark = spark
        pattern = self.pattern
        self._listing = listing(self.path, lambda name: pattern is None or fnmatch(name, pattern))
        self._log = RecordLog.open(store, f"{folder}/log")
        self._known, self._rows_before, self._list_at_s, self._unready = set(), [0], 0.0, set()
        for record in self._log.records:
            self._remember(record["path"], record["rows"])
        self._type = self._find_schema(f"{folder}/schema.json", store)
        self._ready = self._reader().schema(self._type)
        self._bad = None
        if self.format in ("json", "csv") and not {name.lower() for name in self.options} & _SPARKS_OWN:
            self._bad = MalformedLines.open(self.malformed, self._type, store, folder)
            self._checked = self._reader().option(_CORRUPT_COLUMN, COLUMN).schema(with_column(self._type))

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        if self._bad is not None:
            self._bad.begin(start)
        enough = None if max_rows is None else self._rows_before[start] + max_rows
        if (enough is None or self._rows_before[-1] < enough) and time.monotonic() >= self._list_at_s:
            self._discover()
        if start == len(self._log) or enough is None:
            return Offset(len(self._log))
        end = bisect_right(self._rows_before, enough, lo=start) - 1
        return Offset(max(start + 1, end))

    def read(self, start: Offset, end: Offset) -> DataFrame:
        parquet = self.format == "parquet"
        load = self._loader(start, end)
        return ordered_scan(self._spark, self._slices(start, end), load, self._type, parquet=parquet)

    def read_unordered(self, start: Offset, end: Offset) -> DataFrame:
        return unordered_scan(self._spark, self._slices(start, end), self._loader(start, end), self._type)

    @property
    def malformed_lines(self) -> int:
        """Lines put aside since the root was new."""
        return self._bad.total if self._bad is not None else 0

    def set_aside(self, start: Offset, end: Offset) -> Aside | None:
        """Put the lines of a slice that do not fit the schema into the dead letters; None if there are no new ones."""
        if self._bad is None or start == end or self._bad.mode_of(start) != "aside":
            return None
        return self._bad.set_aside(self._load_checked, start, self._slices(start, end))

    def expects_malformed(self, start: Offset, end: Offset) -> bool:
        """Had the slice before such lines? Then it is better to look before this one is read."""
        return self._bad is not None and start < end and self._bad.looks_first(start, end)

    def rows(self, start: Offset, end: Offset) -> int | None:
        return self._rows_before[end] - self._rows_before[start] if self.format == "parquet" else None

    def waiting(self, start: Offset) -> int:
        return self._rows_before[-1] - self._rows_before[start]

    def finished(self, start: Offset) -> bool:
        return False

    def trim(self, start: Offset) -> None:
        pass  # the log goes on to say which files were read

    def close(self) -> None:
        pass

    def _discover(self) -> None:
        began = time.monotonic()
        found = self._listing.new(self._known)
        records: list[Record] = []
        for file in sorted(found, key=lambda file: (file.mtime_ns, file.path)):
            rows = self._count(file)
            if rows is None:
                self._listing.again(file.path)
            else:
                records.append({"path": file.path, "size": file.size, "mtime_ns": file.mtime_ns, "rows": rows})
        self._log.append(records)
        for record in records:
            self._remember(record["path"], record["rows"])
        ended = time.monotonic()
        self._list_at_s = ended + max(LIST_EVERY_S, (ended - began) * _LIST_SHARE)

    def _remember(self, path: str, rows: int) -> None:
        self._known.add(path)
        self._rows_before.append(self._rows_before[-1] + rows)

    def _count(self, file: Found) -> int | None:
        """How many rows, exactly (parquet) or about (lines); None if the file is not complete yet."""
        try:
            if self.format == "parquet":
                with self._listing.open(file.path) as parquet:
                    return int(pq.read_metadata(parquet).num_rows)
            return self._estimate(file) if file.size else None
        except (OSError, pa.ArrowException) as error:
            if file.path not in self._unready:
                self._unready.add(file.path)
                logger.warning("%s is not (yet) a whole %s file, left for later: %s", file.path, self.format, error)
            return None

    def _estimate(self, file: Found) -> int:
        compressed = file.path.endswith(_COMPRESSED)
        with self._listing.open(file.path) as lines:
            sample = lines.read(_SAMPLE_BYTES)
        if not compressed and len(sample) == file.size:
            return max(1, sample.count(b"\n") + (not sample.endswith(b"\n")))
        per_line = len(sample) / max(1, sample.count(b"\n"))
        return max(1, round(file.size / per_line)) * (_COMPRESSION if compressed else 1)

    def _slices(self, start: Offset, end: Offset) -> list[FileSlice]:
        return [self._unchanged(number) for number in range(start, end)]

    def _unchanged(self, number: int) -> FileSlice:
        record = self._log.records[number]
        path = str(record["path"])
        now = self._listing.look(path)
        if now is None or (now.size, now.mtime_ns) != (record["size"], record["mtime_ns"]):
            what = "is gone" if now is None else f"has changed (it had {record['size']:,} bytes, now {now.size:,})"
            raise SourceChanged(
                f"sources.files({self.path!r}): {self._listing.uri(path)} {what} since it was taken as file {number}; "
                f"put the old file back as it was (with its modification time), or start on a new root"
            )
        return FileSlice(self._listing.uri(path), now.size)

    def _loader(self, start: Offset, end: Offset) -> Callable[[list[str]], DataFrame]:
        if self._bad is None or self._bad.mode_of(start) == "null":
            return self._load
        return self._bad.loader(self._load_checked, start, end)

    def _load(self, paths: list[str]) -> DataFrame:
        return self._ready.load(paths)

    def _load_checked(self, paths: list[str]) -> DataFrame:
        return self._checked.load(paths)

    def _reader(self) -> DataFrameReader:
        options = {name: str(value) for name, value in self.options.items()}
        return self._spark.read.format(self.format).options(**options)

    def _find_schema(self, path: str, store: Store) -> StructType:
        """What the user says; else what an earlier start found out; else what the files say."""
        if isinstance(self.schema, str):
            try:
                schema = _columns(self.schema)
            except PySparkException as error:
                said = str(error).partition("\n")[0]
                raise SettingsError(
                    f"sources.files({self.path!r}): schema {self.schema!r} is no list of columns such as "
                    f"'id long, name string': {said}"
                ) from error
        elif self.schema is not None:
            schema = self.schema
        elif self.format == "text":
            schema = StructType([StructField("value", StringType())])
        else:
            return self._inferred(path, store)
        if self.format == "text" and (len(schema) != 1 or not isinstance(schema[0].dataType, StringType)):
            raise SettingsError(
                f"sources.files({self.path!r}): text has one column of strings, such as schema='line string'; "
                f"got {schema.simpleString()}"
            )
        return schema

    def _inferred(self, path: str, store: Store) -> StructType:
        if store.exists(path):
            return StructType.fromJson(unseal(store.read(path), store.uri(path)))
        found = sorted(self._listing.new(()), key=lambda file: (file.mtime_ns, file.path))
        ready = list(islice((file for file in found if self._count(file) is not None), _INFER_FILES))
        if not ready:
            raise SettingsError(
                f"sources.files({self.path!r}): no {self.format} files are there yet to find the schema from; "
                f"give it: schema='id long, name string'"
            )
        for file in found:
            self._listing.again(file.path)
        slices = [FileSlice(self._listing.uri(file.path), file.size) for file in ready]
        reader = self._reader().option("inferSchema", "true") if self.format == "csv" else self._reader()
        if self.malformed != "null":
            reader = reader.option("mode", "DROPMALFORMED")  # else bad lines would be a column of the schema
        schema = reader.load([file.escaped for file in slices]).schema
        store.write(path, [seal(json.loads(schema.json()))])
        return schema


def _columns(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl)
    if not isinstance(schema, StructType):  # a type alone, such as "string"
        raise SettingsError(f"sources.files: schema {ddl!r} names no column; write 'value {ddl}'")
    return schema
