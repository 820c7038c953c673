"""Top-k over an open loop and word frequency, on Spark, against a count in plain Python (S7)."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import perseid
from perseid import every
from perseid.apps.top_k.graph import made_up_edits, top_k, wiki_edits
from perseid.apps.word_frequency.graph import made_up_fragments, word_frequency
from perseid.sources.open_loop import open_loop
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark
WIKI = Path(__file__).parents[3] / "shared" / "data" / "wiki" / "wikiticker-2015-09-12-sampled.json.gz"


@pytest.mark.slow
@pytest.mark.skipif(not WIKI.exists(), reason="data is not there")
def test_the_ranking_of_language_versions_is_that_of_a_plain_count(spark: SparkSession, tmp_path: Path) -> None:
    app = top_k(
        wiki_edits(spark, str(WIKI)), perseid.sinks.parquet(str(tmp_path / "out")), k=3, window=every(minutes=30)
    )
    app.run(spark, root=str(tmp_path / "root"), hosts=1, spares=0, max_rows_per_epoch=10_000)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("window", "rank").collect()
    counts: dict[int, Counter[str]] = {}
    with gzip.open(WIKI, "rt") as lines:
        for edit in map(json.loads, lines):
            at = int(datetime.fromisoformat(edit["time"]).timestamp())
            counts.setdefault(at - at % 1800, Counter())[edit["channel"]] += 1
    came: dict[int, list[tuple[str, int]]] = {}
    for row in rows:
        came.setdefault(int(row.window.timestamp()), []).append((row.key, row.n))
    assert len(came) >= 30 and came.keys() == counts.keys()  # the last window, too: the input has ended
    for start, ranking in came.items():
        assert ranking == sorted(counts[start].items(), key=lambda kn: (-kn[1], kn[0]))[:3]


@pytest.mark.slow
def test_an_open_loop_drops_what_waits_too_long_and_counts_it(spark: SparkSession, tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    loop = open_loop(made_up_edits(rows=10_000), rate=1_000, backlog=500)
    loop.open(spark, "sources/edits", store)
    assert loop.end(Offset(0), 300, 1_000) == 0  # nothing has arrived yet
    assert loop.end(Offset(0), 300, 1_400) == 1  # 400 came, 300 are taken
    assert loop.end(Offset(1), 300, 3_000) == 2  # 2,000 came, 500 may wait
    assert (loop.passed, loop.dropped) == (600, 1_200)
    assert loop.rows(Offset(0), Offset(2)) == 600 == loop.read(Offset(0), Offset(2)).count()
    loop.open(spark, "sources/edits", store)  # as after a crash
    assert (loop.passed, loop.dropped) == (600, 1_200)
    end, now_ms = Offset(2), 10_000
    while not loop.finished(end):
        end, now_ms = loop.end(end, 300, now_ms), now_ms + 1_000
    assert loop.passed + loop.dropped == 10_000


def test_words_are_counted_by_window(spark: SparkSession, tmp_path: Path) -> None:
    fragments = made_up_fragments(words=50, per_second=100, rows=12_000)
    app = word_frequency(fragments, perseid.sinks.parquet(str(tmp_path / "out")), delay=every(seconds=1))
    app.run(spark, root=str(tmp_path / "root"), hosts=1, spares=0, max_rows_per_epoch=3_000)
    fragments.open(spark, "", Store.at(str(tmp_path)))
    lines = fragments.read(Offset(0), Offset(12_000)).collect()
    assert {len(line.line) for line in lines} == {140}
    expected: Counter[tuple[int, str]] = Counter()
    for line in lines:
        at = int(line.at.timestamp())
        expected.update((at - at % 30, word) for word in re.findall(r"\w+", line.line))
    came = {(int(r.window.timestamp()), r.key): r.n for r in spark.read.parquet(str(tmp_path / "out")).collect()}
    assert len({start for start, _ in came}) == 4  # the last ones, too: the input has ended
    assert came == expected
