"""Epochs of streams as Spark keeps them: computed once, counted, durable, and refused when a byte is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.scaling.routing import RoutingTable
from perseid.spark.streams import SparkStreamRows
from perseid.storage import layout
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, StreamName

pytestmark = pytest.mark.spark

WORDS = StreamName("words")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


@pytest.fixture
def rows(spark: SparkSession, store: Store) -> SparkStreamRows:
    schema = spark.range(0).selectExpr("id as n", "string(id) as word").schema

    def again(stream: StreamName, epoch: Epoch, routing: RoutingTable) -> DataFrame:
        raise AssertionError("no host is there")

    return SparkStreamRows(spark, store, {WORDS: schema}, again)


def counted(spark: SparkSession) -> tuple[Callable[[int], DataFrame], Callable[[], int]]:
    """Rows, and how many have been computed so far."""
    computed = spark.sparkContext.accumulator(0)

    def seen(n: int) -> int:
        computed.add(1)
        return n

    def make(many: int) -> DataFrame:
        column = F.udf(seen, "long")("id")
        return spark.range(0, many, 1, 2).select(column.alias("n"), column.cast("string").alias("word"))

    return make, lambda: computed.value


def values(df: DataFrame) -> list[int]:
    return [row.n for row in df.collect()]


def test_a_kept_epoch_is_computed_once(rows: SparkStreamRows, spark: SparkSession) -> None:
    make, computed = counted(spark)
    kept = rows.keep(WORDS, Epoch(1), make(10), "transient")
    before = computed()
    assert before >= 10 and values(kept) == values(kept) == list(range(10))
    assert computed() == before
    rows.let_go(WORDS, Epoch(1), kept)
    assert not kept.is_cached


def test_a_buffer_knows_how_large_its_epochs_are_and_forgets_them(rows: SparkStreamRows, spark: SparkSession) -> None:
    make, _ = counted(spark)
    kept = rows.keep(WORDS, Epoch(1), make(10), "buffered")
    assert kept.storageLevel.useMemory
    assert rows.buffer.bytes_in_memory(WORDS) > 0
    rows.let_go(WORDS, Epoch(1), kept)
    assert rows.buffer.bytes_in_memory(WORDS) == 0


def test_a_durable_epoch_is_written_once_and_read_in_its_order(rows: SparkStreamRows, spark: SparkSession) -> None:
    make, computed = counted(spark)
    rows.preserve(WORDS, Epoch(1), "digest", make(10))
    assert values(rows.preserved(WORDS, Epoch(1))) == list(range(10))
    before = computed()
    rows.preserve(WORDS, Epoch(1), "digest", make(10))  # hosts must see them, the root has them
    assert computed() > before and values(rows.preserved(WORDS, Epoch(1))) == list(range(10))
    rows.preserve(WORDS, Epoch(1), "another", make(3))
    assert values(rows.preserved(WORDS, Epoch(1))) == [0, 1, 2], "made of other slices: it takes their place"


def test_trimmed_epochs_are_gone_and_later_ones_stay(rows: SparkStreamRows, spark: SparkSession, store: Store) -> None:
    for epoch in (1, 2, 3):
        rows.preserve(WORDS, Epoch(epoch), "digest", spark.range(epoch).selectExpr("id as n", "'x' as word"))
    rows.trim(WORDS, Epoch(2))
    assert len(store.list(layout.preserved_stream(WORDS))) == 1
    assert values(rows.preserved(WORDS, Epoch(3))) == [0, 1, 2]


def test_a_saved_epoch_says_its_size_and_one_that_is_damaged_is_refused(
    rows: SparkStreamRows, spark: SparkSession, store: Store
) -> None:
    path = "checkpoints/00000001/words-1"
    size = rows.save(spark.range(0, 1_000, 1, 1).selectExpr("id as n", "uuid() as word"), path)
    (name,) = (file for file in store.list(path) if file.startswith("part-"))
    assert size >= store.size(f"{path}/{name}") > 10_000
    assert values(rows.load(WORDS, path)) == list(range(1_000))
    assert store.local is not None
    file = store.local / path / name
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(bytes(data))
    with pytest.raises(Exception, match=r"(?i)CRC|checksum|corrupt"):
        rows.load(WORDS, path).collect()
