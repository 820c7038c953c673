"""``perseid export``: an operator's state as a folder of Parquet files that other programs read and ``perseid import`` takes back.

    export.json                   which operator, checkpoint and epoch, its shards and their slots, the columns that are JSON text
    values/shard-00000.parquet    one folder for each table, one file for each shard

Invariant: ``export.json`` is written last, so a folder with one is complete. One shard is in memory at a time, and of spilled state a
piece.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from perseid.errors import RootError
from perseid.transfer.read_state import SavedOperator

NAME = "export.json"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    operator: str
    checkpoint: int
    epoch: int
    shards: int
    rows: dict[str, int]  # by table


def export_state(
    saved: SavedOperator, folder: Path, *, text: Collection[str] = (), without: Collection[str] = ()
) -> Exported:
    """Write an operator's state to a new or empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RootError(f"{folder}: is not empty; export to a new folder")
    tables = saved.tables(text=text, without=without)
    rows = dict.fromkeys((table.name for table in tables), 0)
    shards: list[dict[str, Any]] = []
    for snapshot in saved.snapshots:
        state, where = saved.read(snapshot), saved.where(snapshot)
        for table in tables:
            path = folder / table.name / file_name(snapshot.index)
            path.parent.mkdir(parents=True, exist_ok=True)
            with pq.ParquetWriter(path, table.schema) as writer:
                for batch in table.batches(state, snapshot.index, where):
                    writer.write_batch(batch)
                    rows[table.name] += batch.num_rows
        captured = state.processing
        keyed = captured["keyed"]
        shards.append({
            "index": snapshot.index, "slots": list(state.slots), "epoch": int(state.epoch),
            "shape": None if state.shape is None else state.shape.to_json(),
            "keyed": None if keyed is None else {"key_types": list(keyed["key_types"]), "clock_ms": keyed["clock_ms"]},
        })  # fmt: skip
    about = {
        "format": FORMAT,
        "operator": saved.name,
        "checkpoint": int(saved.manifest.id),
        "event_times_ms": _event_times(saved),
        "key": list(saved.key),
        "text": sorted({column.name for table in tables for column in table.columns if column.is_text}),
        "tables": {table.name: table.kind for table in tables},
        "shards": shards,
    }
    (folder / NAME).write_text(json.dumps(about, indent=1))
    return Exported(saved.name, int(saved.manifest.id), max(s["epoch"] for s in shards), len(shards), rows)


def file_name(shard: int) -> str:
    return f"shard-{shard:05d}.parquet"


def _event_times(saved: SavedOperator) -> dict[str, int]:
    """The newest event times of its inputs: from them follows its watermark."""
    own = f"{saved.name}."
    return {name: at_ms for name, at_ms in saved.manifest.event_times_ms.items() if name.startswith(own)}
