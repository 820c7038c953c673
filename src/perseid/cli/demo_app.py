"""The application of ``perseid demo``: an ordinary word count. The folder to work in comes in ``PERSEID_DEMO``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import perseid
from perseid import App, Operator, state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Count(Operator):
    """For every word of an epoch: how often it came now (``added``) and how often in all (``n``)."""

    ordered = False
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        counted = rows.group_by("word").aggregate([([], "count_all")])
        added = counted["count_all"].to_pylist()
        totals = []
        for word, more in zip(counted["word"].to_pylist(), added, strict=True):
            self.totals[word] = self.totals.get(word, 0) + more
            totals.append(self.totals[word])
        return pa.table({"word": counted["word"], "added": counted["count_all"], "n": pa.array(totals, pa.int64())})


def split(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return lines.select(F.explode(F.split("line", " ")).alias("word"))


folder = Path(os.environ["PERSEID_DEMO"])
app = App("words")
lines = app.source("lines", perseid.sources.files(str(folder / "in"), format="text", schema="line string"))
counts = lines.transform("split", split).stateful(
    "count", Count(), key="word", shards=4, output="word string, added long, n long"
)
counts.sink("out", perseid.sinks.parquet(str(folder / "out")))
