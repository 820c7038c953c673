"""Narrow columns put side by side into words, by Spark, before the shuffle; ``words`` says why, and takes them apart again.

The expressions are hundreds of calls from Python into the JVM, so they are made once for every division of the keys, not in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, ByteType, DataType, DateType, IntegerType, ShortType, StructType

from perseid.channel.packed_layout import NULLS, SEED_BIT, Layout, layout_of, word_column
from perseid.channel.rows import ORDER, SHARD
from perseid.spark.seed_rows import Seeds

_BITS: dict[type[DataType], int] = {BooleanType: 1, ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32}


def layout_for(schema: StructType) -> Layout | None:
    """How rows with these columns travel; None: as they are."""
    layout = layout_of({field.name: _BITS[type(field.dataType)] for field in schema if type(field.dataType) in _BITS})
    if layout is None:
        return None
    dates = frozenset(field.name for field in schema if isinstance(field.dataType, DateType))
    return replace(layout, dates=dates, others=tuple(name for name in schema.names if name not in layout.columns))


class Packed:
    """The rows of an operator under one division of its keys."""

    def __init__(self, layout: Layout, shard: Column, shards: int, seeds: Seeds) -> None:
        place = layout.places[SHARD]
        self._columns = [*_words(layout, shard), *(column_named(name) for name in layout.others)]
        self._shards, self._seeds = shards, seeds
        number = F.shiftright(word_column(place.word), place.shift)
        self._shard = number.bitwiseAND(_long(place.mask & ~SEED_BIT)).cast("int")
        seed = F.shiftleft(F.col("id").bitwiseOR(_long(SEED_BIT)), place.shift)
        words = {word_column(n): seed if n == place.word else _long(0) for n in range(layout.words)}
        self._seed = words | {ORDER: _long(0)}

    def of(self, df: DataFrame, extra: tuple[str, ...], place: Sequence[Column]) -> DataFrame:
        """The rows of ``df`` packed, with ``extra`` columns and their place beside them, brought together by shard."""
        rows = df.select(*self._columns, *extra, *place)
        return self._seeds.added(rows, self._seed, extra).repartitionById(self._shards, self._shard)


def column_named(name: str) -> Column:
    """The column of this very name, whatever characters are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def _words(layout: Layout, shard: Column) -> list[Column]:
    columns = {name: column_named(name) for name in layout.columns}
    numbers = {name: F.unix_date(column) if name in layout.dates else column for name, column in columns.items()}
    fields = {name: F.coalesce(number.cast("long"), _long(0)) for name, number in numbers.items()}
    fields[SHARD] = shard.cast("long")
    nulls = enumerate(column.isNull() for column in columns.values())
    fields[NULLS] = _either(F.when(is_null, _long(1 << bit)).otherwise(_long(0)) for bit, is_null in nulls)
    words: list[list[Column]] = [[] for _ in range(layout.words)]
    for name, place in layout.places.items():
        words[place.word].append(F.shiftleft(fields[name].bitwiseAND(_long(place.mask)), place.shift))
    return [_either(parts).alias(word_column(number)) for number, parts in enumerate(words)]


def _long(number: int) -> Column:
    return F.lit(number).cast("long")


def _either(parts: Iterable[Column]) -> Column:
    """All bits of several numbers."""
    first, *others = parts
    for other in others:
        first = first.bitwiseOR(other)
    return first
