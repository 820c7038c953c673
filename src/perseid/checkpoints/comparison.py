"""Checkpoint schemes to measure the others against. They are correct, but not meant for production.

baseline          every unit is checkpointed alone and stops meanwhile; its input is preserved
oracle            checkpoints at the smallest states of a recorded run: the best that ``adaptive`` could do
upstream_backup   no checkpoints; all input of every operator is kept
source_replay     no checkpoints; after a loss the application begins again from its sources

``recording`` and ``checkpoints_of`` read what a run has left in the journal of its checkpoint root.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perseid.checkpoint.oracle import Recording
from perseid.checkpoint.schemes import baseline, oracle, source_replay, upstream_backup

__all__ = [
    "RecordedCheckpoint",
    "Recording",
    "baseline",
    "checkpoints_of",
    "oracle",
    "recording",
    "source_replay",
    "upstream_backup",
]


def recording(root: str) -> Recording:
    """Read the state sizes of the last run on a checkpoint root, for ``oracle``.

    >>> scheme = oracle(recording("root-of-the-last-run"), every(seconds=10))  # doctest: +SKIP
    """
    records = _journal(root)
    starts = [place for place, record in enumerate(records) if record.get("kind") == "app_started"]
    return Recording.from_journal(records[starts[-1] :] if starts else records)


@dataclass(frozen=True, slots=True)
class RecordedCheckpoint:
    """One checkpoint of a run, as its journal tells of it."""

    id: int
    reason: str  # such as "period" or "minimum"
    bytes: int


def checkpoints_of(root: str) -> list[RecordedCheckpoint]:
    """The checkpoints that runs on a checkpoint root have taken, oldest first, as far back as its journal goes."""
    reasons: dict[int, str] = {}
    taken = []
    for record in _journal(root):
        if record["kind"] == "checkpoint_decided":
            reasons[record["checkpoint"]] = record["reason"]
        elif record["kind"] == "checkpoint_committed":
            number = record["checkpoint"]
            taken.append(RecordedCheckpoint(number, reasons.get(number, ""), record["bytes"]))
    return taken


def _journal(root: str) -> list[dict[str, Any]]:
    from perseid.storage.journal import read_journal  # hosts import perseid and do not need these
    from perseid.storage.store import Store

    return list(read_journal(Store.at(root)))
