"""Counts the words of text files as they come: `perseid run examples/word_count.py`."""

import os

import pyarrow as pa
from pyspark.sql import functions as F

import perseid
from perseid import App, Operator, every, state

IN, OUT = os.environ.get("WORDS_IN", "in/"), os.environ.get("WORDS_OUT", "out/")


class WordCount(Operator):
    counts: dict[str, int] = state(default_factory=dict)  # declared state: saved, sized, split by key

    def process(self, rows: pa.Table) -> pa.Table:  # one epoch of one shard
        seen = rows.group_by("word").aggregate([([], "count_all")])
        for word, n in zip(seen["word"].to_pylist(), seen["count_all"].to_pylist(), strict=True):
            self.counts[word] = self.counts.get(word, 0) + n
        words = seen["word"].to_pylist()
        return pa.table({"word": words, "n": [self.counts[word] for word in words]})


app = App("words")
lines = app.source("lines", perseid.sources.files(IN, format="text", schema="line string"))
words = lines.transform("split", lambda df: df.select(F.explode(F.split("line", " ")).alias("word")))
counts = words.stateful("count", WordCount(), key="word", shards=2, output="word string, n long")
counts.sink("out", perseid.sinks.parquet(OUT))

if __name__ == "__main__":
    app.run(checkpoint=perseid.checkpoints.parallel(every(seconds=30)))  # without a session it starts Spark itself
