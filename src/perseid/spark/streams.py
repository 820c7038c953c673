"""Streams between units: epochs handed on from one unit's job to another's (design §2).

transient  a persisted DataFrame, dropped when every consumer is past it
retained   the same; but hosts keep the answers it was computed from until a checkpoint covers them, so it can be had again (S1)
buffered   a persisted DataFrame, kept until the consumers' checkpoint covers it: in memory up to 50 MB, then on local disk (M2)
durable    written under the root before the consumer sees it: a connector's pending window (B1)

An epoch whose blocks were lost with an executor is computed again, and so is one of a retained stream that a lost consumer has to
read once more: from the file of the checkpoint, if it has one, or else from sources and the answers that hosts kept.
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

from perseid.errors import ApplicationFailed
from perseid.sources.ordered_scan import FileSlice, ordered_scan
from perseid.spark.preserved_buffer import PreservedBuffer
from perseid.storage import layout, saved_rows
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Keeping, StreamName

_VERIFIED = {
    "parquet.page.verify-checksum.enabled": "true"
}  # Parquet writes checksums, but looks at them only if told to


class StreamGone(ApplicationFailed):
    """An epoch of a stream is kept nowhere: whoever needs it must go back to a checkpoint."""


class Streams:
    """What lies between units now."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        kinds: Mapping[str, Keeping],
        schemas: Mapping[str, StructType],
        rebuild: Callable[[str, Epoch], DataFrame],
    ) -> None:
        self._spark, self._store, self._kinds, self._schemas, self._rebuild = spark, store, kinds, schemas, rebuild
        self._epochs: dict[tuple[str, Epoch], DataFrame] = {}
        self._saved: dict[tuple[str, Epoch], str] = {}  # in-flight epochs of the checkpoint that was restored
        self._offered: dict[tuple[str, Epoch], str] = {}  # the same, for shards that go back alone
        self._buffer = PreservedBuffer()
        self._lock = threading.Lock()

    def put(self, stream: str, epoch: Epoch, digest: str, df: DataFrame) -> None:
        """A unit has computed an epoch of one of its streams: run it, and keep the result for the consumers."""
        if self._kinds[stream] == "durable":
            path = layout.preserved(StreamName(stream), epoch)
            if saved_rows.digest_of(self._store, path) == digest:
                df.write.format("noop").mode("overwrite").save()
            else:
                self.save(df, path, digest)
            return
        self._drop(stream, epoch)  # before: Spark takes equal plans for one, and would drop the new one with the old
        if self._kinds[stream] == "buffered":
            kept = self._preserve(stream, epoch, df)
        else:
            kept = df.persist(StorageLevel.MEMORY_AND_DISK)
            kept.write.format("noop").mode("overwrite").save()
        with self._lock:
            self._epochs[(stream, epoch)] = kept

    def _preserve(self, stream: str, epoch: Epoch, df: DataFrame) -> DataFrame:
        """Keep an epoch in the stream's buffer (M2), and find out how large it is."""
        with self._lock:
            place = self._buffer.place(stream)
        kept = df.persist(StorageLevel.MEMORY_AND_DISK if place == "memory" else StorageLevel.DISK_ONLY)
        measured = Observation()
        kept.observe(measured, row_bytes(df.schema).alias("bytes")).write.format("noop").mode("overwrite").save()
        with self._lock:
            self._buffer.put(stream, epoch, place, int(measured.get["bytes"] or 0))
        return kept

    def read(self, stream: str, epoch: Epoch) -> DataFrame:
        """An epoch for a consumer."""
        if self._kinds[stream] == "durable":
            return self.load(stream, layout.preserved(StreamName(stream), epoch))
        with self._lock:
            kept, saved = self._epochs.get((stream, epoch)), self._file(stream, epoch)
        if kept is not None:
            return kept
        if saved is not None:
            return self.load(stream, saved)
        if self._kinds[stream] == "retained":
            return self._rebuild(stream, epoch)
        raise StreamGone(f"stream {stream!r}: epoch {epoch} is no longer kept")

    def refresh(self, stream: str, epoch: Epoch) -> None:
        """The kept DataFrame may know hosts that are gone: compute it again from the answers hosts keep, when it is read."""
        with self._lock:
            if (stream, epoch) not in self._epochs:
                return
            saved = self._file(stream, epoch)
        if saved is not None:  # hosts that came back from that checkpoint have no answer from before it
            self._drop(stream, epoch)
            return
        fresh = self._rebuild(stream, epoch)
        self._drop(stream, epoch)
        fresh.persist(StorageLevel.MEMORY_AND_DISK)
        with self._lock:
            self._epochs[(stream, epoch)] = fresh

    def _file(self, stream: str, epoch: Epoch) -> str | None:
        return self._saved.get((stream, epoch)) or self._offered.get((stream, epoch))

    def _drop(self, stream: str, epoch: Epoch) -> None:
        with self._lock:
            old = self._epochs.pop((stream, epoch), None)
            self._buffer.forget(stream, epoch)
        if old is not None:
            old.unpersist()

    def save(self, df: DataFrame, path: str, digest: str) -> None:
        """Make the rows of an epoch durable under the root, all or nothing, in order."""
        staging = self._store.staging()
        df.write.option("compression", "lz4").parquet(self._store.uri(staging))
        saved_rows.publish(self._store, staging, path, digest)

    def load(self, stream: str, path: str) -> DataFrame:
        """Rows saved before, in order. Raises ``CorruptData`` if they are not all there."""
        schema = self._schemas[stream]
        parts = saved_rows.files(self._store, path)
        files = [FileSlice(_plain(self._store, f"{path}/{name}"), size) for name, size in parts.items()]
        reader = self._spark.read.schema(schema).options(**_VERIFIED)
        return ordered_scan(self._spark, files, lambda paths: reader.parquet(*paths), schema, parquet=True)

    def save_inflight(self, stream: str, epoch: Epoch, path: str) -> int:
        """Save a kept epoch as part of a checkpoint (M4); its bytes."""
        self.save(self.read(stream, epoch), path, "")
        return sum(self._store.size(f"{path}/{name}") for name in self._store.list(path))

    def release(self, stream: str, epoch: Epoch) -> None:
        """Epochs up to here are needed no more."""
        with self._lock:
            gone = [key for key in self._epochs if key[0] == stream and key[1] <= epoch]
            frames = [self._epochs.pop(key) for key in gone]
            for key in gone:
                self._buffer.forget(*key)
            for key in [key for key in self._saved if key[0] == stream and key[1] <= epoch]:
                del self._saved[key]
        for df in frames:
            with contextlib.suppress(Exception):
                df.unpersist()

    def trim(self, stream: str, epoch: Epoch) -> None:
        """A durable stream's epochs up to here are covered by the oldest checkpoint kept."""
        folder = layout.preserved_stream(StreamName(stream))
        for name in self._store.list(folder):
            number = name.removeprefix("epoch=").split(".")[0]
            if number.isdigit() and int(number) <= epoch:
                self._store.delete(f"{folder}/{name}")

    def offer(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        """Shards go back to a checkpoint alone: what lay between units then may be read again from its files."""
        with self._lock:
            self._offered = {(str(stream), epoch): path for (stream, epoch), path in inflight.items()}

    def reset(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        """Go on from a checkpoint: forget all, but for what it saved."""
        with self._lock:
            frames = list(self._epochs.values())
            self._epochs.clear()
            self._buffer.clear()
            self._saved = {(str(stream), epoch): path for (stream, epoch), path in inflight.items()}
            self._offered.clear()
        for df in frames:
            with contextlib.suppress(Exception):
                df.unpersist()


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
