"""Narrow columns put side by side into words, by Spark, before the shuffle; ``words`` says why, and takes them apart again."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, ByteType, DataType, DateType, IntegerType, ShortType, StructType

from perseid.spark.rows import SHARD
from perseid.spark.words import NULLS, Layout, layout_of, word_column

_BITS: dict[type[DataType], int] = {BooleanType: 1, ByteType: 8, ShortType: 16, IntegerType: 32, DateType: 32}


def layout_for(schema: StructType) -> Layout | None:
    """How rows with these columns travel; None: as they are."""
    return layout_of({field.name: _BITS[type(field.dataType)] for field in schema if type(field.dataType) in _BITS})


def packed(df: DataFrame, layout: Layout, shard: Column, *more: Column) -> DataFrame:
    """The rows of ``df`` as words, their other columns, and ``more`` columns."""
    columns = {name: df[f"`{name}`"] for name in df.columns}
    fields = {name: F.coalesce(_number(columns[name], df.schema[name].dataType), _long(0)) for name in layout.columns}
    fields[SHARD] = shard.cast("long")
    fields[NULLS] = _either(
        F.when(columns[name].isNull(), _long(1 << bit)).otherwise(_long(0)) for bit, name in enumerate(layout.columns)
    )
    words: list[list[Column]] = [[] for _ in range(layout.words)]
    for name, place in layout.places.items():
        words[place.word].append(F.shiftleft(fields[name].bitwiseAND(_long(place.mask)), place.shift))
    named = [_either(parts).alias(word_column(number)) for number, parts in enumerate(words)]
    return df.select(*named, *(column for name, column in columns.items() if name not in layout.columns), *more)


def shard_of(df: DataFrame, layout: Layout) -> Column:
    """The shard of a packed row."""
    place = layout.places[SHARD]
    return F.shiftright(df[word_column(place.word)], place.shift).bitwiseAND(_long(place.mask)).cast("int")


def _number(column: Column, kind: DataType) -> Column:
    return (F.unix_date(column) if isinstance(kind, DateType) else column).cast("long")


def _long(number: int) -> Column:
    return F.lit(number).cast("long")


def _either(parts: Iterable[Column]) -> Column:
    """All bits of several numbers."""
    first, *others = parts
    for other in others:
        first = first.bitwiseOR(other)
    return first
