"""Labelled GPS traces of others, as rows of TMI: a zip (or folder) of CSV files ``timestamp,x,y,groundtruth``.

Made for the open trajectories labelled Driving and OnFoot. Every file is a phone. The files are written ordered by time,
one a minute, so that the pools fill as they would have.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from perseid.errors import SettingsError

MODES_OF_TRACES = ("walking", "driving")
WINDOW_MINUTES = 1.0
_LABELS = {"OnFoot": "walking", "Driving": "driving"}
_CLOCK = -1  # a phone of our own: its reports after the end let the last window close


def read_traces(path: str | Path) -> pa.Table:
    """All traces as rows ``phone, at_ms, x, y, truth``, ordered by time."""
    tables = []
    for phone, data in enumerate(_files(Path(path))):
        trace = csv.read_csv(pa.py_buffer(data), convert_options=csv.ConvertOptions(column_types=_TYPES))
        at_ms = pc.cast(trace["timestamp"], pa.int64()).to_numpy() // 1_000_000
        labels = [_LABELS.get(label) for label in trace["groundtruth"].to_pylist()]
        columns: dict[str, Any] = {
            "phone": np.full(len(at_ms), phone),
            "at_ms": at_ms,
            "x": trace["x"],
            "y": trace["y"],
            "truth": pa.array(labels, pa.string()),
        }
        tables.append(pa.table(columns))
    if not tables:
        raise SettingsError(f"{path}: expected CSV files of traces, found none")
    return pa.concat_tables(tables).sort_by([("at_ms", "ascending"), ("phone", "ascending")])


def write_traces(path: str | Path, folder: Path) -> int:
    """Write the traces below a folder as parquet files, one a minute of their time; how many phones there are."""
    rows = read_traces(path)
    folder.mkdir(parents=True, exist_ok=True)
    minutes = rows["at_ms"].to_numpy() // 60_000
    for number, minute in enumerate(np.unique(minutes).tolist()):
        _write(rows.filter(pa.array(minutes == minute)), folder / f"{number:06d}.parquet")
    end_ms = pc.max(rows["at_ms"]).as_py() + round(WINDOW_MINUTES * 60_000)
    for number in range(3):  # the first two make a pair, which moves the time on; the window closes in the epoch after
        tick = {"phone": [_CLOCK], "at_ms": [end_ms + 1000 * number], "x": [0.0], "y": [0.0], "truth": [None]}
        _write(pa.table(tick, schema=rows.schema), folder / f"clock-{number}.parquet")
    return len(pc.unique(rows["phone"]))


def _write(rows: pa.Table, file: Path) -> None:
    whole = file.with_name(f".{file.name}")
    pq.write_table(rows, whole)
    whole.rename(file)


def _files(path: Path) -> Iterator[bytes]:
    if path.is_dir():
        yield from (file.read_bytes() for file in sorted(path.rglob("*.csv")))
        return
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".csv") and not name.rpartition("/")[2].startswith("."):
                yield archive.read(name)


_TYPES = {"timestamp": pa.timestamp("ns"), "x": pa.float64(), "y": pa.float64(), "groundtruth": pa.string()}
