"""A DataFrame written into a new folder as part files, in one job; the files are durable and in the order of the rows.

Two ways, the same files for a reader. Spark's own writer is the faster one for big data, but its committer makes and
moves folders and starts a ``chmod`` process for each (60 to 80 ms for an epoch of a thousand rows, measured). So small
data goes through `mapInArrow` tasks that write and fsync one file each and report its name; files of attempts that
failed were never reported and are left behind. Both stream: the choice, made by the size seen last, is about speed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from perseid.storage.store import Store, token

Format = Literal["parquet", "json"]

SMALL_BYTES = 4 << 20
"""Below this size of all part files together, Python tasks are the faster writers."""

_REPORT = "name string, rows long, bytes long"
_REPORT_SCHEMA = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bytes", pa.int64())])
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"  # Spark finds its own types again by it
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 64 << 20
_PLAIN = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType),
    *(T.StringType, T.BinaryType, T.DateType, T.TimestampType, T.TimestampNTZType),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One written file. ``rows`` is None where Spark's writer did not say."""

    name: str
    bytes: int
    rows: int | None


def write_parts(df: DataFrame, store: Store, folder: str, format: Format, *, expected_bytes: int = 0) -> list[Part]:
    """Write ``df`` to ``folder``, which must not exist, with one action. Parts without rows may be left out."""
    if store.local is not None and expected_bytes < SMALL_BYTES and _can_go_through_python(df.schema, format):
        return _by_tasks(df, store.local / folder, format)
    _by_spark(df, store, folder, format)
    store.sync(folder)
    return [Part(name, store.size(f"{folder}/{name}"), None) for name in store.list(folder) if name.startswith("part-")]


def _by_spark(df: DataFrame, store: Store, folder: str, format: Format) -> None:
    writer = (
        df.write.format(format)
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .option("mapreduce.fileoutputcommitter.algorithm.version", "2")  # the folder gets its name afterwards
    )
    if store.local is not None:  # no .crc files
        writer = writer.option("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
        writer = writer.option("fs.file.impl.disable.cache", "true")
    writer.save(store.uri(folder))


Mapped = Callable[["_PartWriter", str], DataFrame]
"""Makes the DataFrame of what a function yields for the rows, given the function and the schema of what it yields."""


def write_mapped_parts(mapped: Mapped, schema: T.StructType, store: Store, folder: str) -> list[Part]:
    """Like ``write_parts`` for parquet, where the rows are at hand in a Python task already: they need not go back to Spark."""
    assert store.local is not None
    return _run(mapped, "parquet", schema.json(), store.local / folder)


def can_be_mapped(store: Store, schema: T.StructType, format: Format, expected_bytes: int) -> bool:
    """Is ``write_mapped_parts`` possible, and the faster way?"""
    local = store.local is not None and format == "parquet"
    return local and expected_bytes < SMALL_BYTES and _can_go_through_python(schema, format)


def _by_tasks(df: DataFrame, folder: Path, format: Format) -> list[Part]:
    if format == "json":
        df = df.select(F.to_json(F.struct("*")).alias("line"))
    return _run(df.mapInArrow, format, df.schema.json(), folder)


def _run(mapped: Callable[..., DataFrame], format: Format, schema: str, folder: Path) -> list[Part]:
    attempts = folder.with_name(f"{folder.name}.attempts-{token()}")
    attempts.mkdir()  # not its parents: if they are gone, another driver has taken over
    report = mapped(_PartWriter(str(attempts), format, schema), _REPORT).toArrow()
    parts = sorted((Part(**row) for row in report.to_pylist()), key=lambda part: part.name)
    folder.mkdir()
    for part in parts:  # one by one: an attempt that nobody waits for may still be adding files to the other folder
        (attempts / part.name).rename(folder / part.name)
    rmtree(attempts, ignore_errors=True)
    return parts


@dataclass(frozen=True)
class _PartWriter:
    """Runs in a Spark task: writes the rows of its partition to one file, durably, and reports it."""

    folder: str
    format: Format
    schema: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "runs in Spark tasks only"
        extension = "snappy.parquet" if self.format == "parquet" else "json"
        name = f"part-{context.partitionId():05d}-{token()}.{extension}"
        path = Path(self.folder, name)
        with_rows = (batch for batch in batches if batch.num_rows)
        first = next(with_rows, None)
        if first is None:
            return
        with path.open("xb") as file:
            write = self._parquet if self.format == "parquet" else self._json
            rows = write(file, first.schema, chain([first], with_rows))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        report = {"name": [name], "rows": [rows], "bytes": [size]}
        yield pa.RecordBatch.from_pydict(report, schema=_REPORT_SCHEMA)

    def _parquet(self, file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        schema = schema.with_metadata({_SPARK_SCHEMA: self.schema})
        written = 0
        with pq.ParquetWriter(file, schema, compression="snappy", store_schema=False) as writer:
            for group in _row_groups(batches):
                table = pa.Table.from_batches(group).replace_schema_metadata(schema.metadata)
                writer.write_table(table, row_group_size=table.num_rows)
                written += table.num_rows
        return written

    def _json(self, file: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
        written = 0
        for batch in batches:
            file.write("\n".join([*batch.column(0).to_pylist(), ""]).encode())
            written += batch.num_rows
        return written


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if group and (rows + batch.num_rows > _GROUP_ROWS or size + batch.nbytes > _GROUP_BYTES):
            yield group
            group, rows, size = [], 0, 0
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    yield group


def _can_go_through_python(schema: T.StructType, format: Format) -> bool:
    if format == "json":
        return True
    names = [name.lower() for name in schema.names]  # names that clash are for Spark's writer to refuse
    return bool(names) and len(set(names)) == len(names) and _is_plain(schema)


def _is_plain(kind: T.DataType) -> bool:
    """Whether Arrow and Spark write this type to parquet alike."""
    if isinstance(kind, T.StructType):
        return bool(kind.fields) and all(_is_plain(field.dataType) for field in kind)
    if isinstance(kind, T.ArrayType):
        return _is_plain(kind.elementType)
    if isinstance(kind, T.MapType):
        return _is_plain(kind.keyType) and _is_plain(kind.valueType)
    return type(kind) in _PLAIN
