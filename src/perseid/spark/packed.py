"""Narrow columns put side by side into words, by Spark, before the shuffle; ``words`` says why, and takes them apart again.

Written as SQL: a few strings cross from Python to the JVM, where an expression built by function calls would cross hundreds of times,
in every epoch.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, ByteType, DataType, DateType, IntegerType, ShortType, StructType

from perseid.spark.rows import SHARD
from perseid.spark.words import NULLS, Layout, layout_of, word_column

_BITS: dict[type[DataType], int] = {BooleanType: 1, ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32}


def layout_for(schema: StructType) -> Layout | None:
    """How rows with these columns travel; None: as they are."""
    layout = layout_of({field.name: _BITS[type(field.dataType)] for field in schema if type(field.dataType) in _BITS})
    if layout is None:
        return None
    dates = frozenset(field.name for field in schema if isinstance(field.dataType, DateType))
    return replace(layout, dates=dates, others=tuple(name for name in schema.names if name not in layout.columns))


def packed(df: DataFrame, layout: Layout, shard: str, *more: str) -> DataFrame:
    """The rows of ``df`` as words, their other columns, and ``more`` columns; ``shard`` and those are SQL."""
    numbers = {n: f"unix_date({quoted(n)})" if n in layout.dates else quoted(n) for n in layout.columns}
    fields = {name: f"coalesce(cast({number} AS bigint), 0L)" for name, number in numbers.items()}
    fields[SHARD] = f"cast({shard} AS bigint)"
    fields[NULLS] = " | ".join(f"if({quoted(name)} IS NULL, {1 << n}L, 0L)" for n, name in enumerate(layout.columns))
    words: list[list[str]] = [[] for _ in range(layout.words)]
    for name, place in layout.places.items():
        words[place.word].append(f"shiftleft(({fields[name]}) & {place.mask}L, {place.shift})")
    named = [f"{' | '.join(parts)} AS {word_column(number)}" for number, parts in enumerate(words)]
    return df.selectExpr(*named, *map(quoted, layout.others), *more)


def packed_shard(layout: Layout) -> str:
    """The shard of a packed row, as SQL."""
    place = layout.places[SHARD]
    return f"cast(shiftright({word_column(place.word)}, {place.shift}) & {place.mask}L AS int)"


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return "`" + name.replace("`", "``") + "`"
