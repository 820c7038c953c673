"""What Spark has written into a folder as parquet: its files in the order of the rows, and how many rows each has."""

from __future__ import annotations

import re

import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from perseid.sources.record_log import Record
from perseid.storage.store import Store

_PART = re.compile(r"part-(\d+)-.*?(?:-c(\d+))?(?:\.\w+)*\.parquet")


def stored_files(spark: SparkSession, store: Store, folder: str) -> list[Record]:
    """Name, bytes and rows of every file that has rows. Spark names its files ``part-<partition>-<id>-c<number>``."""
    names = {name: _place(name) for name in store.list(folder) if _PART.fullmatch(name)}
    if not names:
        return []
    if store.local is not None:
        rows = {name: pq.read_metadata(store.local / folder / name).num_rows for name in names}
    else:
        name = F.col("_metadata.file_name").alias("name")
        counts = spark.read.parquet(store.uri(folder)).groupBy(name).count()
        rows = {row["name"]: row["count"] for row in counts.collect()}
    ordered = sorted((name for name in names if rows.get(name)), key=lambda name: names[name])
    return [{"name": name, "bytes": store.size(f"{folder}/{name}"), "rows": rows[name]} for name in ordered]


def _place(name: str) -> tuple[int, int]:
    match = _PART.fullmatch(name)
    assert match is not None, name
    return int(match[1]), int(match[2] or 0)
