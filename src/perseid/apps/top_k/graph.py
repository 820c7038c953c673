"""Map, reduce, rank: which language versions were edited most in each window (S7).

*Map* keeps the two columns that are needed, *reduce* counts by language and tells the k most frequent of each shard when a
window closes, *rank* merges these partial results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import perseid
from perseid.application import App
from perseid.apps.windowed_count import OUTPUT, WindowedCount
from perseid.duration import Duration, every

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from perseid.sinks.sink import Sink
    from perseid.sources.generator import Generator
    from perseid.sources.source import Source
    from perseid.sources.table import TableSource

WINDOW = every(seconds=30)


def top_k(
    edits: Source, sink: Sink, *, k: int = 10, window: Duration = WINDOW, delay: Duration = WINDOW, shards: int = 2
) -> App:
    """The application over edits with the columns ``channel`` and ``at``; it writes ``window, rank, key, n``."""

    def ranked(df: DataFrame) -> DataFrame:
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        best_first = Window.partitionBy("window").orderBy(F.desc("n"), "key")
        return (
            df.withColumn("rank", F.row_number().over(best_first))
            .where(f"rank <= {k}")
            .select("window", "rank", "key", "n")
        )

    app = App("top-k")
    visits = app.source("edits", edits).transform("map", lambda df: df.selectExpr("channel AS key", "at"))
    counts = visits.stateful(
        "reduce",
        WindowedCount(window, top=k),
        key="key",
        shards=shards,
        output=OUTPUT,
        event_time=perseid.event_time("at", delay=delay),
    )
    counts.transform("rank", ranked).sink("ranking", sink)
    return app


def wiki_edits(spark: SparkSession, path: str) -> TableSource:
    """Edits from a file of JSON lines with ``time`` and ``channel``, in the order of time."""
    edits = spark.read.schema("time timestamp, channel string").json(path)
    return perseid.sources.table(edits.selectExpr("channel", "time AS at"), order_by=["at", "channel"])


def made_up_edits(*, per_second: int = 1_000, rows: int | None = None, seed: int = 0) -> Generator:
    """Edits of 40 language versions, some far more frequent than others; ``per_second`` is of event time."""
    channel = "concat('#', lpad(cast(floor(40 * pow(noise, 3)) AS string), 2, '0'), '.wikipedia')"
    return perseid.sources.generator(
        {"channel": channel, "at": f"timestamp_millis(1442016000000 + id * 1000 div {per_second})"},
        rows=rows,
        seed=seed,
    )
