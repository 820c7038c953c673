"""Epochs as parquet files, each epoch there wholly or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Literal

from perseid.sinks.epoch_folders import EpochFolders


def parquet(path: str | PathLike[str], *, files: int | None = None) -> ParquetSink:
    """A sink of parquet files: ``<path>/epoch=<n>/part-….parquet``.

    Each epoch appears at once and exactly once, also after a crash. ``files`` is how many files an epoch has at most
    (``None``: one for each partition that has rows); fewer files means fewer tasks in the last stage.

    >>> out = parquet("out/")

    Read it as a table that has the epoch as a column: ``spark.read.parquet("out/")``.
    """
    return ParquetSink(fspath(path), files=files)


@dataclass(eq=False)
class ParquetSink(EpochFolders):
    """Made by `parquet`."""

    kind: Literal["parquet"] = field(default="parquet", init=False)
