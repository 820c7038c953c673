"""Python and Spark agree on the slot of every key."""

from __future__ import annotations

import datetime
import math
import random
import struct
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from perseid.state.slots import slot_of
from perseid.vocabulary import SLOTS

pytestmark = pytest.mark.spark

SCHEMA = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 long, f float, d double, s string, x binary, day date,"
    " ts timestamp, ntz timestamp_ntz"
)
TYPES = ("bool", "int8", "int16", "int32", "int64", "float", "double", "string", "binary", "date32[day]",
         "timestamp[us, tz=UTC]", "timestamp[us]")  # fmt: skip


def _float32(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _rows(seed: int, count: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    epoch = datetime.datetime(1970, 1, 1)

    def row() -> tuple[Any, ...]:
        moment = epoch + datetime.timedelta(microseconds=chance.randrange(-(10**15), 4 * 10**15))
        values: list[Any] = [
            chance.random() < 0.5,
            chance.randrange(-128, 128),
            chance.randrange(-(2**15), 2**15),
            chance.randrange(-(2**31), 2**31),
            chance.randrange(-(2**63), 2**63),
            _float32(chance.choice([0.0, -0.0, math.inf, -math.inf, chance.uniform(-1e9, 1e9)])),
            chance.choice([0.0, -0.0, math.nan, math.inf, chance.uniform(-1e9, 1e9)]),
            "".join(chance.choice("aé漢😀 z") for _ in range(chance.randrange(70))),
            chance.randbytes(chance.randrange(70)),
            moment.date(),
            moment.replace(tzinfo=datetime.UTC),
            moment,
        ]
        return tuple(None if chance.random() < 0.1 else value for value in values)

    return [row() for _ in range(count)]


def test_each_type_and_all_together_have_sparks_slot(spark: SparkSession) -> None:
    rows = _rows(7, 200)
    frame = spark.createDataFrame(rows, SCHEMA)
    names = frame.columns
    columns = [F.pmod(F.xxhash64(name), F.lit(SLOTS)).alias(f"slot_{name}") for name in names]
    together = F.pmod(F.xxhash64(*names), F.lit(SLOTS)).alias("together")
    found: list[Row] = frame.select(*columns, together).collect()
    for values, slots in zip(rows, found, strict=True):
        for name, kind, value in zip(names, TYPES, values, strict=True):
            assert slot_of(value, types=[kind]) == slots[f"slot_{name}"], (name, value)
        assert slot_of(*values, types=TYPES) == slots["together"], values


def test_without_types_an_int_is_a_long_and_a_float_a_double(spark: SparkSession) -> None:
    rows = [(n - 50, (n - 50) / 3, f"word {n}") for n in range(100)]
    frame = spark.createDataFrame(rows, "n long, d double, s string")
    found = frame.select(F.pmod(F.xxhash64("n", "d", "s"), F.lit(SLOTS))).collect()
    assert [slot_of(*row) for row in rows] == [row[0] for row in found]
