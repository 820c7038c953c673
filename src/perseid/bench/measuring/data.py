"""The rows: parquet files, made once, that all sides read the same way, some files to an epoch.

Row ``id`` has the key ``sizes.KEY_SQL``. A folder of many epochs has few different files, linked again and again under new names:
no side can tell, and the disk stays free.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from perseid.bench.measuring.sizes import KEYS, PROCESSOR_KEYS, ROWS_PER_EPOCH, SMALL_ROWS

DIFFERENT = 4
"""Epochs with files of their own; the ones after them are links."""

SLICE = 10
"""``transformWithState`` gets the rows of one key in so many: as many rows for a key as everybody, in a tenth of the time."""


def keys(first: int, count: int) -> np.ndarray:
    """The keys of some rows in a row."""
    ids = np.arange(first, first + count, dtype=np.int64)
    return ids * 2654435761 % KEYS


def big(folder: Path, epochs: int) -> Path:
    """Epochs of a million rows in two files each."""
    return _files(folder, epochs, ROWS_PER_EPOCH, parts=2)


def sliced(folder: Path, epochs: int) -> Path:
    """The same epochs, of which only the rows of a tenth of the keys are left."""
    return _files(folder, epochs, ROWS_PER_EPOCH, parts=2, below=KEYS // SLICE)


def small(folder: Path, epochs: int) -> Path:
    """Epochs of a thousand rows in a file each."""
    return _files(folder, epochs, SMALL_ROWS, parts=1)


def keyed(folder: Path, epochs: int, rows: int) -> Path:
    """Epochs for processors: ten rows of every key in a hundred thousand, with a value."""
    return _files(folder, epochs, rows, parts=2, values=True, different=epochs if rows == SMALL_ROWS else DIFFERENT)


def _files(
    folder: Path,
    epochs: int,
    rows: int,
    *,
    parts: int,
    below: int | None = None,
    values: bool = False,
    different: int = DIFFERENT,
) -> Path:
    folder.mkdir(parents=True)
    oldest_s = int(time.time()) - epochs - 60
    part_rows = rows // parts
    for epoch in range(epochs):
        for part in range(parts):
            path = folder / f"{epoch:05d}-{part}.parquet"
            like = folder / f"{epoch % different:05d}-{part}.parquet"
            if like == path:
                column = keys(epoch * rows + part * part_rows, part_rows)
                column = column if below is None else column[column < below]
                columns = {"key": column % PROCESSOR_KEYS, "value": column} if values else {"key": column}
                pq.write_table(pa.table(columns), path)
                # Spark takes files by their time, and in any order where that is the same; links cannot have one of their own
                at_s = oldest_s + epoch if epochs <= different else oldest_s
                os.utime(path, (at_s, at_s))
            else:
                path.hardlink_to(like)
    return folder
