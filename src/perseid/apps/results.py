"""What an application found out, and how right it was: rows of a sink's folder, and a report made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Report:
    """What is printed at the end: sentences, tables, and the numbers in them by name."""

    title: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)

    def show(self, console: Console) -> None:
        """Print it."""
        console.rule(f"[bold]{self.title}")
        for table in self.tables:
            console.print(table)
        for sentence in self.sentences:
            console.print(sentence, highlight=False, soft_wrap=True)


def rows_of(folder: str | Path) -> pa.Table | None:
    """All rows a parquet sink has committed; None if there are none."""
    files = sorted(Path(folder).glob("epoch=*/[!._]*.parquet"), key=lambda file: (_epoch(file), file.name))
    tables = [pq.ParquetFile(file).read() for file in files]
    tables = [table for table in tables if table.num_rows]
    return pa.concat_tables(tables) if tables else None


def grid(title: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    """A small table: the first column on the left, numbers on the right."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2))
    for n, name in enumerate(header):
        table.add_column(name, justify="left" if n == 0 else "right")
    for line in lines:
        table.add_row(*line)
    return table


def confusion(title: str, truth: Sequence[str], found: Sequence[str], names: Sequence[str]) -> tuple[Table, float]:
    """How often what was taken for what, and the share that was right."""
    index = {name: n for n, name in enumerate(names)}
    pairs = np.zeros((len(names), len(names)), np.int64)
    true_codes = np.array([index[name] for name in truth], np.int64)
    found_codes = np.array([index[name] for name in found], np.int64)
    np.add.at(pairs, (true_codes, found_codes), 1)
    shown = [n for n in range(len(names)) if pairs[n].any() or pairs[:, n].any()]
    lines = [[names[n], *(str(pairs[n, m] or "·") for m in shown)] for n in shown]
    return grid(title, ["truth", *(names[m] for m in shown)], lines), share(pairs.trace(), pairs.sum())


def share(part: float, whole: float) -> float:
    """A share, 0 of nothing."""
    return float(part / whole) if whole else 0.0


def mean(values: NDArray[np.float64]) -> float:
    """A mean, 0 of nothing."""
    return float(values.mean()) if len(values) else 0.0


def _epoch(file: Path) -> int:
    return int(file.parent.name.partition("=")[2])
