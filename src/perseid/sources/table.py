"""Any batch DataFrame as a stream that can be replayed: its rows are stored once, then taken slice by slice.

The DataFrame is written by value under the root at the first start, so it need not be deterministic, nor be there any
more at the next start (M1). The marker that lists the files is written last: a crash before it means a new copy, in a
folder of another name, so that two drivers never write into one.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.errors import SettingsError, SourceChanged
from perseid.sources.ordered_scan import FileSlice, ordered_scan
from perseid.sources.stored_files import stored_files
from perseid.storage.sealed import seal, unseal
from perseid.storage.store import Store, token
from perseid.vocabulary import Offset

ROWS_PER_FILE = 100_000
"""Small enough that reading a file for a part of it costs little."""


def table(df: DataFrame, *, order_by: str | Column | Sequence[str | Column] | None = None) -> TableSource:
    """A source of the rows of a batch DataFrame, in their order or ordered by ``order_by``, then finished.

    The first start on a root stores a copy of the rows there; later starts go on with it, whatever ``df`` is then.

    >>> orders = table(spark.read.parquet("history/"), order_by="at")
    """
    if not isinstance(df, DataFrame):
        raise SettingsError(f"sources.table: expected a DataFrame, got {type(df).__name__}")
    if df.isStreaming:
        raise SettingsError("sources.table: expected a batch DataFrame, got a streaming one: use sources.stream")
    keys: tuple[str | Column, ...] = ()
    if order_by is not None:
        keys = (order_by,) if isinstance(order_by, str | Column) else tuple(order_by)
        try:
            df.orderBy(*keys)
        except PySparkException as error:
            said = str(error).partition("\n")[0]
            raise SettingsError(f"sources.table: cannot order by {order_by!r}: {said}") from error
    return TableSource(df, keys)


@dataclass(eq=False)
class TableSource:
    """Made by `table`. An offset is a number of rows."""

    df: DataFrame
    order_by: tuple[str | Column, ...] = ()
    rows_per_file: int = ROWS_PER_FILE
    kind: str = field(default="table", init=False)
    _spark: SparkSession = field(init=False, repr=False)
    _schema: StructType = field(init=False, repr=False)
    _files: list[FileSlice] = field(default_factory=list, init=False, repr=False)
    _ends: list[int] = field(default_factory=list, init=False, repr=False)  # rows up to the end of each file

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark = spark
        marker = f"{folder}/table.json"
        if not store.exists(marker):
            copy = f"rows-{token()}"
            for old in store.list(folder):  # of starts that did not come so far
                store.delete(f"{folder}/{old}")
            self._store(store, f"{folder}/{copy}")
            files = stored_files(spark, store, f"{folder}/{copy}")
            content = {"schema": json.loads(self.df.schema.json()), "rows": copy, "files": files}
            store.write(marker, [seal(content)])
        stored = unseal(store.read(marker), store.uri(marker))
        rows = f"{folder}/{stored.get('rows', 'rows')}"
        self._schema = StructType.fromJson(stored["schema"])
        if self._schema.simpleString() != self.df.schema.simpleString():
            raise SourceChanged(
                f"sources.table: the copy in {store.uri(folder)} has the columns {self._schema.simpleString()}, the "
                f"DataFrame now has {self.df.schema.simpleString()}; go on with the old one, or start on a new root"
            )
        self._files = [FileSlice(store.uri(f"{rows}/{file['name']}"), file["bytes"]) for file in stored["files"]]
        self._ends = list(accumulate(file["rows"] for file in stored["files"]))

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        return Offset(self._total if max_rows is None else min(self._total, start + max_rows))

    def read(self, start: Offset, end: Offset) -> DataFrame:
        slices = []
        number = bisect_right(self._ends, start)
        at = int(start)
        while at < end:
            first = self._ends[number - 1] if number else 0
            upto = min(int(end), self._ends[number])
            whole = at == first and upto == self._ends[number]
            file = self._files[number]
            slices.append(file if whole else FileSlice(file.path, file.size, (at - first, upto - first)))
            at = upto
            number += 1
        return ordered_scan(self._spark, slices, self._load, self._schema, parquet=True)

    def rows(self, start: Offset, end: Offset) -> int | None:
        return end - start

    def waiting(self, start: Offset) -> int:
        return self._total - start

    def finished(self, start: Offset) -> bool:
        return start >= self._total

    def trim(self, start: Offset) -> None:
        pass  # the copy is what the source is

    def close(self) -> None:
        pass

    @property
    def _total(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _load(self, paths: list[str]) -> DataFrame:
        return self._spark.read.schema(self._schema).parquet(*paths)

    def _store(self, store: Store, folder: str) -> None:
        df = self.df.orderBy(*self.order_by) if self.order_by else self.df
        try:
            df.write.option("maxRecordsPerFile", self.rows_per_file).parquet(store.uri(folder))
        except PySparkException as error:
            said = str(error).partition("\n")[0]
            raise SettingsError(f"sources.table: cannot store the DataFrame as parquet: {said}") from error
        store.sync(folder)
