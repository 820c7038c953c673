"""A folder that both sides read from: filled at once with the rows that make the state, then fed with a file five times a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perseid.bench.scaling.applications import texts

CHARACTERS = 1_000
TICK_S = 0.2
_FILES = 10


def fill(folder: Path, keys: int) -> int:
    """A text for every key, in a few files; how many rows that is."""
    folder.mkdir(parents=True)
    for number in range(_FILES):
        mine = range(keys * number // _FILES, keys * (number + 1) // _FILES)
        _put(texts(mine, CHARACTERS, number), folder, f"fill-{number:03d}")
    return keys


@contextlib.contextmanager
def feeding(folder: Path, keys: int, rows_per_s: int) -> Iterator[None]:
    """New texts for some of the keys, at this rate, as long as this lasts."""
    ended = threading.Event()

    def feed() -> None:
        draw, number, began = np.random.default_rng(7), 0, time.monotonic()
        while not ended.wait(max(0.0, began + number * TICK_S - time.monotonic())):
            some = draw.integers(0, keys, int(rows_per_s * TICK_S)).tolist()
            _put(texts(some, CHARACTERS, 1_000 + number), folder, f"more-{number:05d}")
            number += 1

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _put(rows: pa.Table, folder: Path, name: str) -> None:
    """Whole or not at all: Spark and Perseid both pass over names that begin with a dot."""
    hidden = folder / f".{name}"
    pq.write_table(rows, hidden, compression="none")
    hidden.rename(folder / f"{name}.parquet")
