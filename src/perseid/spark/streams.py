"""The rows of streams between units in Spark: DataFrames that are persisted, and Parquet files under the root (``engine.stream_store``).

An epoch of a transient or retained stream is a persisted DataFrame; one of a buffered stream lies in memory up to 50 MB, then on local disk
(M2). Spark computes blocks that were lost with an executor again by itself, from the plan of the DataFrame.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from perseid.scaling.routing import RoutingTable
from perseid.sources.ordered_scan import FileSlice, ordered_scan
from perseid.spark.preserved_buffer import PreservedBuffer
from perseid.storage import layout, saved_rows
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Keeping, StreamName

_VERIFIED = {
    "parquet.page.verify-checksum.enabled": "true"
}  # Parquet writes checksums, but looks at them only if told to


class SparkStreamRows:
    """What ``StreamStore`` does with rows, as Spark does it."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        schemas: Mapping[str, StructType],
        again: Callable[[StreamName, Epoch, RoutingTable], DataFrame],
    ) -> None:
        self._spark, self._store, self._schemas, self._again = spark, store, schemas, again
        self.buffer = PreservedBuffer()
        self._lock = threading.Lock()  # of the buffer

    def preserve(self, stream: StreamName, epoch: Epoch, digest: str, rows: DataFrame) -> None:
        path = layout.preserved(stream, epoch)
        if saved_rows.digest_of(self._store, path) == digest:
            rows.write.format("noop").mode("overwrite").save()
        else:
            self._write(rows, path, digest)

    def preserved(self, stream: StreamName, epoch: Epoch) -> DataFrame:
        return self.load(stream, layout.preserved(stream, epoch))

    def keep(self, stream: StreamName, epoch: Epoch, rows: DataFrame, keeping: Keeping) -> DataFrame:
        if keeping == "buffered":
            return self._keep_in_buffer(stream, epoch, rows)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        kept.write.format("noop").mode("overwrite").save()
        return kept

    def _keep_in_buffer(self, stream: StreamName, epoch: Epoch, rows: DataFrame) -> DataFrame:
        """Keep an epoch in the stream's buffer (M2), and find out how large it is."""
        with self._lock:
            place = self.buffer.place(stream)
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK if place == "memory" else StorageLevel.DISK_ONLY)
        measured = Observation()
        kept.observe(measured, row_bytes(rows.schema).alias("bytes")).write.format("noop").mode("overwrite").save()
        with self._lock:
            self.buffer.put(stream, epoch, place, int(measured.get["bytes"] or 0))
        return kept

    def hold(self, rows: DataFrame) -> DataFrame:
        return rows.persist(StorageLevel.MEMORY_AND_DISK)

    def let_go(self, stream: StreamName, epoch: Epoch, rows: DataFrame) -> None:
        with self._lock:
            self.buffer.forget(stream, epoch)
        with contextlib.suppress(Exception):  # Spark may be gone
            rows.unpersist()

    def load(self, stream: StreamName, path: str) -> DataFrame:
        schema = self._schemas[stream]
        parts = saved_rows.files(self._store, path)
        files = [FileSlice(_plain(self._store, f"{path}/{name}"), size) for name, size in parts.items()]
        reader = self._spark.read.schema(schema).options(**_VERIFIED)
        return ordered_scan(self._spark, files, lambda paths: reader.parquet(*paths), schema, parquet=True)

    def save(self, rows: DataFrame, path: str) -> int:
        self._write(rows, path, "")
        return sum(self._store.size(f"{path}/{name}") for name in self._store.list(path))

    def again(self, stream: StreamName, epoch: Epoch, routing: RoutingTable) -> DataFrame:
        return self._again(stream, epoch, routing)

    def trim(self, stream: StreamName, epoch: Epoch) -> None:
        folder = layout.preserved_stream(stream)
        for name in self._store.list(folder):
            number = name.removeprefix("epoch=").split(".")[0]
            if number.isdigit() and int(number) <= epoch:
                self._store.delete(f"{folder}/{name}")

    def _write(self, rows: DataFrame, path: str, digest: str) -> None:
        """Make the rows of an epoch durable under the root, all or nothing, in order."""
        staging = self._store.staging()
        rows.write.option("compression", "lz4").parquet(self._store.uri(staging))
        saved_rows.publish(self._store, staging, path, digest)


def row_bytes(schema: StructType) -> Column:
    """How many bytes rows take, about: an aggregate that Spark computes while it hands them on."""
    fixed = sum(_WIDTHS.get(f.dataType.typeName(), 8) for f in schema.fields)
    width: Column = F.lit(fixed)
    for f in schema.fields:
        if isinstance(f.dataType, StringType | BinaryType):
            width = width + F.coalesce(F.octet_length(F.col(f"`{f.name}`")), F.lit(0))
        elif isinstance(f.dataType, ArrayType | MapType):
            width = width + F.greatest(F.size(F.col(f"`{f.name}`")), F.lit(0)) * 16
    return F.sum(width.cast("long"))


_WIDTHS = {"boolean": 1, "byte": 1, "short": 2, "integer": 4, "float": 4, "date": 4, "decimal": 16}


def _plain(store: Store, path: str) -> str:
    """The address of a file without quoting."""
    return f"file://{Path(store.local) / path}" if store.local is not None else store.uri(path)
