"""Sources and sinks whose files are not in a local folder: here behind pyarrow.fs, as S3 or HDFS would be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow import fs as pafs
from pyspark.sql import DataFrame

from perseid.sinks import parquet
from perseid.sinks.published import STAGING, PublishedEpochs
from perseid.sources import files, stream, table
from perseid.sources.listing import Found, RemoteListing
from perseid.sources.source import Source
from perseid.storage.remote import RemoteStore
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Fence, Offset

pytestmark = pytest.mark.spark


@pytest.fixture
def remote(tmp_path: Path) -> Store:
    (tmp_path / "remote").mkdir()
    return RemoteStore(pafs.LocalFileSystem(), str(tmp_path / "remote"), f"file://{tmp_path}/remote")


def numbers(df: DataFrame) -> list[int]:
    return [row[0] for row in df.collect()]


def test_a_listing_behind_pyarrow_finds_the_same_files(tmp_path):
    for name in ["a.txt", "sub/b.txt", "_c.txt", ".d.txt", "_temporary/e.txt", "f.json"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
        os.utime(tmp_path / name, (5, 5))
    listing = RemoteListing(
        pafs.LocalFileSystem(), str(tmp_path), "s3a://bucket/in", lambda name: name.endswith(".txt")
    )
    found = Found("sub/b.txt", 2, 5_000_000_000)
    assert sorted(file.path for file in listing.new(())) == ["a.txt", "sub/b.txt"]
    assert listing.new({"a.txt"}) == [found]
    assert listing.look("sub/b.txt") == found
    assert listing.look("gone.txt") is None
    assert listing.open("a.txt").read() == b"x\n"
    assert listing.uri("sub/b.txt") == "s3a://bucket/in/sub/b.txt"


def test_files_table_and_stream_keep_what_they_need_on_a_remote_root(spark, remote, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{n}\n" for n in range(100)))
    lines = spark.readStream.text(str(tmp_path / "in")).selectExpr("cast(value as long) AS n")

    def sources() -> list[Source]:
        return [
            files(tmp_path / "in", schema="n long", format="csv"),
            table(spark.range(0, 100, 1, 3)),
            stream(lines, available_now=True),
        ]

    for _ in range(2):
        for source in sources():
            source.open(spark, f"sources/{source.kind}", remote)
            while not (end := source.end(Offset(0), None, 1_000)):
                pass
            assert numbers(source.read(Offset(0), end)) == list(range(100))
            assert source.rows(Offset(0), end) in (None, 100)
            source.close()


def test_the_parquet_sink_replaces_epochs_on_a_remote_path(spark, remote):
    sink = parquet("out")
    for fence, digest, last in [(1, "a", 5), (2, "b", 3)]:
        sink._epochs = PublishedEpochs(remote.fenced(STAGING, Fence(fence)))
        assert not sink.holds(Epoch(1), digest)
        sink.write(Epoch(1), digest, spark.range(0, last, 1, 2))
        assert sink.holds(Epoch(1), digest)
        assert sorted(row.id for row in spark.read.parquet(remote.uri("")).collect()) == list(range(last))
