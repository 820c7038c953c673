"""Latency of answers, told from the files of a run (S8)."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from perseid.apps.linear_road.latency import latency_of


def commit(folder: Path, epoch: int, seconds: list[int], at_ms: int) -> None:
    where = folder / f"epoch={epoch}"
    where.mkdir()
    pq.write_table(pa.table({"time": pa.array(seconds, pa.int32())}), where / "part-0.parquet")
    (where / "_perseid-7.json").touch()
    os.utime(where / "_perseid-7.json", (at_ms / 1000, at_ms / 1000))


def test_an_answer_is_as_late_as_its_epoch_is_after_its_second(tmp_path: Path) -> None:
    began_ms = 1_000_000
    commit(tmp_path, 1, [0], at_ms=900_000)  # of a run before
    commit(tmp_path, 2, [9, 9, 9], at_ms=began_ms + 5_500)  # at twice the pace, second 9 is over after 5 s
    commit(tmp_path, 3, [19], at_ms=began_ms + 16_000)
    found = latency_of(tmp_path, began_ms, 2)
    assert found is not None
    assert (found.answers, found.median_s, found.worst_s, found.within_limit) == (4, 0.5, 6.0, 0.75)
    assert latency_of(tmp_path, began_ms + 100_000, 2) is None
