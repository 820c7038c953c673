"""A source and a sink of your own: orders from one SQLite database, totals into another, exactly once."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from perseid import App, Fenced, Operator, state
from perseid.sinks import Epoch
from perseid.sources import Offset, Store

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-own-"))


class Orders:
    """A source: the rows of a table that only grows. An offset is the id of the last row read."""

    kind = "orders"  # a checkpoint root remembers it, and refuses another kind of source

    def __init__(self, database: Path) -> None:
        self._database = database

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark = spark

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        """How far the next epoch may read. It only says what is safely there: rows up to here never change."""
        newest = self._query("SELECT coalesce(max(id), 0) AS id FROM orders")[0]["id"]
        return Offset(newest if max_rows is None else min(newest, start + max_rows))

    def read(self, start: Offset, end: Offset) -> DataFrame:
        """The same rows in the same order whenever it is asked: a recovery reads them again."""
        rows = self._query("SELECT customer, amount FROM orders WHERE id > ? AND id <= ? ORDER BY id", start, end)
        columns = pa.schema([("customer", pa.string()), ("amount", pa.float64())])
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, columns))

    def rows(self, start: Offset, end: Offset) -> int:
        return end - start

    def finished(self, start: Offset) -> bool:
        return False  # more orders may come

    def trim(self, start: Offset) -> None:
        """Checkpoints cover all rows up to here: a queue would be told now. A table keeps its rows."""

    def close(self) -> None:
        """There is nothing to let go of: every query has a connection of its own."""

    def _query(self, sql: str, *values: int) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self._database)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql, values)]


class Totals:
    """A sink: the newest total of each customer, written in one transaction for each epoch."""

    kind = "totals"

    def __init__(self, database: Path) -> None:
        self._database = database

    def open(self, spark: SparkSession, store: Store) -> None:
        self._fence = store.fence  # higher for every later start of the application
        with closing(sqlite3.connect(self._database)) as connection:
            connection.executescript(TABLES)
        with self._transaction():
            pass  # from here on the database refuses the driver before this one

    def holds(self, epoch: Epoch, digest: str) -> bool:
        with self._transaction() as connection:
            found = connection.execute("SELECT 1 FROM epochs WHERE epoch = ? AND digest = ?", (epoch, digest))
            return found.fetchone() is not None

    def write(self, epoch: Epoch, digest: str, df: DataFrame) -> None:
        rows = df.toArrow().to_pylist()  # the one action on df
        with self._transaction() as connection:
            connection.execute("DELETE FROM totals WHERE epoch = ?", (epoch,))
            connection.executemany(
                "INSERT INTO totals VALUES (?, ?, ?)", [(epoch, row["customer"], row["total"]) for row in rows]
            )
            connection.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?)", (epoch, digest))

    def close(self) -> None:
        """There is nothing to let go of: every transaction has a connection of its own."""

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and only for the newest driver."""
        with closing(sqlite3.connect(self._database)) as connection, connection:
            mine = connection.execute("UPDATE driver SET fence = ? WHERE fence <= ?", (self._fence, self._fence))
            if mine.rowcount == 0:
                raise Fenced(f"a newer driver writes to {self._database}")
            yield connection


TABLES = """
CREATE TABLE IF NOT EXISTS totals (epoch INTEGER, customer TEXT, total REAL);
CREATE TABLE IF NOT EXISTS epochs (epoch INTEGER PRIMARY KEY, digest TEXT);
CREATE TABLE IF NOT EXISTS driver (fence INTEGER);
INSERT INTO driver SELECT 0 WHERE NOT EXISTS (SELECT * FROM driver);
"""


class Total(Operator):
    totals: dict[str, float] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> list[dict[str, Any]]:
        for row in rows.to_pylist():
            self.totals[row["customer"]] = self.totals.get(row["customer"], 0.0) + row["amount"]
        customers = dict.fromkeys(rows["customer"].to_pylist())
        return [{"customer": customer, "total": self.totals[customer]} for customer in customers]


def build() -> App:
    app = App("totals")
    orders = app.source("orders", Orders(FOLDER / "orders.db"))
    totals = orders.stateful("total", Total(), key="customer", output="customer string, total double")
    totals.sink("totals", Totals(FOLDER / "totals.db"))
    return app


def order(count: int) -> None:
    """Customers buy something: one row for each order."""
    with closing(sqlite3.connect(FOLDER / "orders.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, customer TEXT, amount REAL)")
        sold = [("ada" if n % 3 else "grace", 2.5) for n in range(count)]
        connection.executemany("INSERT INTO orders (customer, amount) VALUES (?, ?)", sold)


def main() -> None:
    for count in (300, 150):  # the second run goes on where the first one ended
        order(count)
        build().run(root=str(FOLDER / "root"), hosts=1, available_now=True, max_rows_per_epoch=100)
        with closing(sqlite3.connect(FOLDER / "totals.db")) as connection:
            newest = "SELECT customer, total, max(epoch) FROM totals GROUP BY customer ORDER BY customer"
            print(", ".join(f"{customer} {total:.2f}" for customer, total, _ in connection.execute(newest)))


if __name__ == "__main__":
    main()
