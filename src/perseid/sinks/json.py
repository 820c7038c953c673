"""Epochs as JSON lines, each epoch there wholly or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Literal

from perseid.sinks.epoch_folders import EpochFolders


def json(path: str | PathLike[str]) -> JsonSink:
    """A sink of JSON files, one object a line: ``<path>/epoch=<n>/part-….json``.

    Each epoch appears at once and exactly once, also after a crash.

    >>> out = json("out/")

    Read it as a table that has the epoch as a column: ``spark.read.json("out/")``.
    """
    return JsonSink(fspath(path))


@dataclass(eq=False)
class JsonSink(EpochFolders):
    """Made by `json`."""

    kind: Literal["json"] = field(default="json", init=False)
