"""What two runs of an application have written, compared epoch by epoch: rows lost, doubled, wrong.

Each epoch of a sink is a multiset of rows. A row that the fault-free run has and the other lacks is lost; one that is there
more often than it should be is doubled; one that should not be there at all is wrong, and stands for one that is missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

Epochs: TypeAlias = Mapping[int, Counter[str]]
"""Rows as JSON, how often each, by epoch."""

_EPOCH = re.compile(r"epoch=(\d+)")
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """One sink, or all of them together."""

    rows: int = 0  # as they should be
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    examples: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        return self.lost == self.doubled == self.wrong == 0

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.rows + other.rows,
            self.lost + other.lost,
            self.doubled + other.doubled,
            self.wrong + other.wrong,
            self.examples + other.examples,
        )


def judge(expected: Epochs, got: Epochs) -> Verdict:
    """``got`` against ``expected``.

    >>> judge({1: Counter(["a", "b"])}, {1: Counter(["a", "a"])})
    Verdict(rows=2, lost=1, doubled=1, wrong=0, examples=('epoch 1: lost b', 'epoch 1: doubled a'))
    """
    verdict = Verdict()
    for epoch in sorted(expected.keys() | got.keys()):
        should, have = expected.get(epoch, Counter()), got.get(epoch, Counter())
        missing, extra = should - have, have - should
        doubled = Counter({row: count for row, count in extra.items() if row in should})
        wrong = extra - doubled
        lost = max(0, missing.total() - wrong.total())
        told = [
            f"epoch {epoch}: {word} {row:.160}"
            for word, rows in (("lost", missing if lost else Counter()), ("doubled", doubled), ("wrong", wrong))
            for row in list(rows)[:_EXAMPLES]
        ]
        verdict += Verdict(should.total(), lost, doubled.total(), wrong.total(), tuple(told))
    return verdict


def epochs_in(folder: Path) -> dict[int, Counter[str]]:
    """What a parquet or JSON sink holds below a folder, read without Perseid."""
    found: dict[int, Counter[str]] = {}
    for epoch in folder.iterdir() if folder.is_dir() else ():
        match = _EPOCH.fullmatch(epoch.name)
        if match:
            parts = [part for part in sorted(epoch.iterdir()) if not part.name.startswith(("_", "."))]
            found[int(match[1])] = Counter(row for part in parts for row in _rows(part))
    return found


def _rows(part: Path) -> list[str]:
    if part.suffix == ".parquet":
        return [_text(row) for row in pq.ParquetFile(part).read().to_pylist()]
    if part.suffix == ".json":
        return [_text(json.loads(line)) for line in part.read_text().splitlines() if line]
    return []


def _text(row: Any) -> str:
    return json.dumps(row, sort_keys=True, default=repr)
