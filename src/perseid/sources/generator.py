"""Rows made up by SQL expressions, as fast as wanted, the same in every run: for tests, demonstrations and benchmarks.

Row n is a function of n and the seed only, so the source is replayable and preserved by reference (M1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.errors import SettingsError
from perseid.storage.store import Store
from perseid.vocabulary import Offset

ROWS_PER_TASK = 125_000
ROWS_PER_EPOCH = 1_000_000
"""What one epoch takes when neither a rate nor ``max_rows`` nor the number of rows says less."""

_UNREPEATABLE = re.compile(
    r"\b(rand|randn|random|randstr|uniform|uuid|shuffle|now|current_timestamp|current_date|current_time|localtimestamp|curdate|"
    r"unix_timestamp\s*\(\s*\)|monotonically_increasing_id|spark_partition_id|input_file_name|reflect|try_reflect|java_method)\b",
    re.IGNORECASE,
)


def generator(
    columns: Mapping[str, str],
    *,
    rate: float | None = None,
    rows: int | None = None,
    seed: int = 0,
    partitions: int | None = None,
) -> Generator:
    """A source of made-up rows.

    ``columns`` names the columns and gives each a SQL expression over ``id``, the number of the row from 0 on, and
    ``noise``, a uniform double in [0, 1) that depends on ``id`` and ``seed`` only. ``rate`` is in rows a second
    (``None``: as fast as they are read), ``rows`` how many there are in all (``None``: no end), ``partitions`` how many
    tasks make one slice (``None``: by its size).

    >>> clicks = generator({"user": "cast(noise * 1000 as int)", "at": "timestamp_millis(id * 10)"}, rate=5_000, seed=7)
    """
    if not columns:
        raise SettingsError("generator: expected at least one column, such as {'n': 'id'}; got none")
    for name, expression in columns.items():
        if not isinstance(expression, str) or not expression.strip():
            raise SettingsError(f"generator: column {name!r}: expected a SQL expression, got {expression!r}")
        found = _UNREPEATABLE.search(re.sub(r"'[^']*'", "''", expression))
        if found:
            raise SettingsError(
                f"generator: column {name!r}: {found[0]} gives another value when a row is made again after a failure; "
                f"use the column noise, or a hash of id such as xxhash64(id, 1)"
            )
    if rate is not None and not rate > 0:
        raise SettingsError(f"generator: expected a rate above 0 rows a second (or None for no limit), got {rate!r}")
    if rows is not None and rows < 0:
        raise SettingsError(f"generator: expected a number of rows from 0 on (or None for no end), got {rows!r}")
    if partitions is not None and partitions < 1:
        raise SettingsError(f"generator: expected at least 1 partition (or None), got {partitions!r}")
    return Generator(dict(columns), rate, rows, seed, partitions)


@dataclass(eq=False)
class Generator:
    """Made by `generator`. An offset is a row number."""

    columns: Mapping[str, str]
    rate: float | None = None
    total: int | None = None
    seed: int = 0
    partitions: int | None = None
    kind: str = field(default="generator", init=False)
    _spark: SparkSession = field(init=False, repr=False)
    _began: tuple[int, int] | None = field(default=None, init=False, repr=False)  # offset and time of the first `end`
    _due: int = field(default=0, init=False, repr=False)  # never goes back, even if the clock does

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark = spark
        self._began, self._due = None, 0
        for name, expression in self.columns.items():
            try:
                self._base(0, 1, 1).select(F.expr(expression).alias(name)).schema  # noqa: B018  analysis is wanted
            except PySparkException as error:
                said = str(error).partition("\n")[0]
                raise SettingsError(
                    f"generator: column {name!r}: {expression!r} is no SQL expression over id (a long) and noise "
                    f"(a double): {said}"
                ) from error

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        if self.rate is None:
            end = start + (ROWS_PER_EPOCH if max_rows is None else max_rows)
        else:
            if self._began is None:
                self._began, self._due = (start, now_ms), start
            first, began_ms = self._began
            self._due = max(self._due, first + int((now_ms - began_ms) * self.rate / 1000))
            end = self._due if max_rows is None else min(self._due, start + max_rows)
        if self.total is not None:
            end = min(end, self.total)
        return Offset(max(start, end))

    def read(self, start: Offset, end: Offset) -> DataFrame:
        count = end - start
        if count == 0:
            base = self._base(0, 1, 1).where("id < 0")
        else:
            base = self._base(start, end, min(count, self.partitions or -(-count // ROWS_PER_TASK)))
        return base.select(*(F.expr(expression).alias(name) for name, expression in self.columns.items()))

    def rows(self, start: Offset, end: Offset) -> int | None:
        return end - start

    def waiting(self, start: Offset) -> int:
        due = self._due if self.total is None else min(self._due, self.total)
        return max(0, due - start) if self.rate is not None else 0

    def finished(self, start: Offset) -> bool:
        return self.total is not None and start >= self.total

    def trim(self, start: Offset) -> None:
        pass

    def close(self) -> None:
        pass

    def _base(self, start: int, end: int, partitions: int) -> DataFrame:
        """Rows ``start`` to ``end`` as columns id and noise.

        Spark writes the bounds of a range, and any number, into the code it generates and compiles: with other numbers in
        every epoch it would compile every epoch anew (a quarter of a second of CPU for 1 M rows). So the range is padded to
        a power of two and cut by numbers that come from an array, which generated code only refers to.
        """
        per_task = -(-(end - start) // partitions)
        padded = max(10, (per_task - 1).bit_length())
        at = F.col("id")
        zero = (at < 0).cast("int")  # not known to be constant, so that the array is not folded into the code
        numbers = F.array(*(F.lit(n).cast("long") for n in (start, per_task, end)))
        first, count, last = (F.get(numbers, zero + i) for i in range(3))
        place = at.bitwiseAND(F.lit((1 << padded) - 1).cast("long"))
        rows = self._spark.range(0, partitions << padded, 1, partitions).where(place < count)
        rows = rows.select((first + F.shiftright(at, padded) * count + place).alias("id"), last.alias("last"))
        high_bits = F.shiftrightunsigned(F.xxhash64(at, F.lit(self.seed).cast("long")), 11)
        return rows.where(at < F.col("last")).select(at, (high_bits * F.lit(2.0**-53)).alias("noise"))
