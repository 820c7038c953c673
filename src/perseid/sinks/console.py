"""Epochs as tables on the terminal."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from perseid.errors import SettingsError
from perseid.sinks.delivered import Delivered
from perseid.storage.store import Store
from perseid.vocabulary import Epoch


def console(rows: int = 20) -> ConsoleSink:
    """A sink that prints the first ``rows`` rows of every epoch that has some.

    After a crash, the epoch that was under way may be printed again.

    >>> out = console(rows=5)
    """
    if rows < 0:
        raise SettingsError(f"sink console: expected a number of rows from 0 on, got {rows!r}")
    return ConsoleSink(rows)


@dataclass(eq=False)
class ConsoleSink:
    """Made by `console`."""

    limit: int = 20
    kind: str = field(default="console", init=False)
    _delivered: Delivered = field(default_factory=Delivered, init=False, repr=False)

    def open(self, spark: SparkSession, store: Store) -> None:
        pass

    def holds(self, epoch: Epoch, digest: str) -> bool:
        return self._delivered.holds(epoch, digest)

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        rows = df.toArrow()
        if rows.num_rows:
            title = f"epoch {epoch}: {rows.num_rows:,} rows"
            table = Table(*rows.column_names, title=title, title_justify="left")
            for row in zip(*(column.to_pylist() for column in rows.slice(0, self.limit).columns), strict=True):
                table.add_row(*(str(value) for value in row))
            if rows.num_rows > self.limit:
                table.caption = f"only the first {self.limit:,} are shown"
            Console(markup=False).print(table)
        self._delivered.add(epoch, digest)

    def close(self) -> None:
        pass
