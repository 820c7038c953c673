"""Splitter and counter: how often each word came in each window (S7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import perseid
from perseid.application import App
from perseid.apps.windowed_count import OUTPUT, WindowedCount
from perseid.duration import Duration, every

if TYPE_CHECKING:
    from perseid.sinks.sink import Sink
    from perseid.sources.generator import Generator
    from perseid.sources.source import Source

WINDOW = every(seconds=30)
FRAGMENT_CHARACTERS = 140


def word_frequency(
    fragments: Source, sink: Sink, *, window: Duration = WINDOW, delay: Duration = WINDOW, shards: int = 2
) -> App:
    """The application over fragments with the columns ``line`` and ``at``; it writes ``window, key, n``."""
    app = App("word-frequency")
    words = app.source("fragments", fragments).transform(
        "splitter",
        lambda df: df.selectExpr("explode(split(lower(line), '[^\\\\p{L}0-9]+')) AS key", "at").where("key <> ''"),
    )
    counts = words.stateful(
        "counter",
        WindowedCount(window),
        key="key",
        shards=shards,
        output=OUTPUT,
        event_time=perseid.event_time("at", delay=delay),
    )
    counts.sink("frequencies", sink)
    return app


def made_up_fragments(
    *, words: int = 10_000, per_second: int = 1_000, rows: int | None = None, rate: float | None = None, seed: int = 0
) -> Generator:
    """Fragments of 140 characters from a vocabulary of so many words; ``per_second`` is of event time."""
    word = f"lpad(cast(pmod(xxhash64(id, i, {seed}), {words}) AS string), 6, 'w')"
    line = f"substr(array_join(transform(sequence(1, 20), i -> {word}), ' '), 1, {FRAGMENT_CHARACTERS - 1})"
    return perseid.sources.generator(
        {"line": f"{line} || '.'", "at": f"timestamp_millis(1442016000000 + id * 1000 div {per_second})"},
        rows=rows, rate=rate, seed=seed,
    )  # fmt: skip
