"""The applications that are scaled and recovered here, beside the paper's own (``perseid.apps``)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

import perseid
from perseid import App, Operator, state
from perseid.apps.word_frequency.graph import made_up_fragments
from perseid.sources.source import Source

KEYS = 1_000
ALIKE = 0.1
TEXTS_SCHEMA = "key long, text string"


class Texts(Operator):
    """The newest text of every key: state of a known size."""

    ordered = False
    texts: dict[int, str] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        keys, texts = rows["key"].to_pylist(), rows["text"].to_pylist()
        self.texts.update(zip(keys, texts, strict=True))
        return pa.table({"key": keys, "n": list(map(len, texts))})


class Likeness(Operator):
    """How many texts are like the last one of their key, by the groups of three letters they share: work for Python, row by row."""

    ordered = False
    last: dict[int, str] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        alike = 0
        for key, line in zip(rows["key"].to_pylist(), rows["line"].to_pylist(), strict=True):
            before, now = _triples(self.last.get(key, "")), _triples(line)
            alike += len(before & now) > ALIKE * len(before | now)
            self.last[key] = line
        return pa.table({"key": [self.context.shard.index], "n": [alike]})


def _triples(line: str) -> set[str]:
    return {line[i : i + 3] for i in range(len(line) - 2)}


def newest_texts(folder: str) -> App:
    """Over parquet files, two shards."""
    app = App("texts")
    rows = app.source("rows", perseid.sources.files(folder, schema=TEXTS_SCHEMA))
    rows.stateful("newest", Texts(), key="key", shards=2, output="key long, n long").sink("out", perseid.sinks.noop())
    return app


def likeness(source: Source | None = None, *, rate: float | None = None, shards: int = 1) -> App:
    """Fragments of 140 characters against the last one of their key; so many shards to begin with."""
    fragments = source if source is not None else made_up_fragments(words=200, rate=rate)
    app = App("likeness")
    rows = app.source("fragments", fragments).transform(
        "keyed", lambda df: df.selectExpr(f"pmod(xxhash64(line), {KEYS}) AS key", "line")
    )
    found = rows.stateful("likeness", Likeness(), key="key", shards=shards, output="key long, n long")
    found.sink("out", perseid.sinks.noop())
    return app


def texts(keys: Sequence[int], characters: int, seed: int) -> pa.Table:
    """Rows with a text of so many characters for each key, that do not compress to less than half."""
    import numpy as np

    letters = np.random.default_rng(seed).bytes(len(keys) * characters // 2).hex().encode()
    offsets = np.arange(len(keys) + 1, dtype=np.int32) * (characters // 2 * 2)
    column = pa.StringArray.from_buffers(len(keys), pa.py_buffer(offsets), pa.py_buffer(letters))
    return pa.table({"key": pa.array(keys, pa.int64()), "text": column})
