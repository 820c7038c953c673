"""Python and Spark agree on the slot of every key."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import struct
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from perseid.errors import GraphError
from perseid.state.buffer import row_slots
from perseid.state.slots import slot_of, slots_of
from perseid.vocabulary import SLOTS

pytestmark = pytest.mark.spark

SCHEMA = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 long, f float, d double, s string, x binary, day date,"
    " ts timestamp, ntz timestamp_ntz, tod time(6), money decimal(9, 2), most decimal(18, 0), more decimal(19, 4), huge decimal(38, 18),"
    " whole decimal(38, 0)"
)
TYPES = ("bool", "int8", "int16", "int32", "int64", "float", "double", "string", "binary", "date32[day]",
         "timestamp[us, tz=UTC]", "timestamp[us]", "time64[ns]", "decimal128(9, 2)", "decimal128(18, 0)", "decimal128(19, 4)",
         "decimal128(38, 18)", "decimal128(38, 0)")  # fmt: skip


def _float32(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def _decimal(chance: random.Random, precision: int, scale: int) -> decimal.Decimal:
    """Of any length, with those at which the number of bytes changes, of either sign."""
    limit = 10**precision - 1
    edge = 2 ** (8 * chance.randrange(1, 17) - 1) + chance.randrange(-1, 2)
    number = chance.choice(
        [0, 1, limit, edge % (limit + 1), chance.randrange(10 ** chance.randrange(1, precision + 1))]
    )
    return decimal.Decimal((chance.randrange(2), tuple(map(int, str(number))), -scale))


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
            moment.time(),
            _decimal(chance, 9, 2),
            _decimal(chance, 18, 0),
            _decimal(chance, 19, 4),
            _decimal(chance, 38, 18),
            _decimal(chance, 38, 0),
        ]
        return tuple(None if chance.random() < 0.1 else value for value in values)

    return [row() for _ in range(count)]


def test_each_type_and_all_together_have_sparks_slot(spark: SparkSession) -> None:
    rows = _rows(7, 400)
    frame = spark.createDataFrame(rows, SCHEMA)
    names = frame.columns
    columns = [F.pmod(F.xxhash64(name), F.lit(SLOTS)).alias(f"slot_{name}") for name in names]
    together = F.pmod(F.xxhash64(*names), F.lit(SLOTS)).alias("together")
    found: list[Row] = frame.select(*columns, together).collect()
    for values, slots in zip(rows, found, strict=True):
        for name, kind, value in zip(names, TYPES, values, strict=True):
            assert slot_of(value, types=[kind]) == slots[f"slot_{name}"], (name, value)
        assert slot_of(*values, types=TYPES) == slots["together"], values
    for name, kind, column in zip(names, TYPES, zip(*rows, strict=True), strict=True):
        assert slots_of(column, [kind]) == [slots[f"slot_{name}"] for slots in found], name
    arrow = frame.toArrow()
    assert tuple(str(kind) for kind in arrow.schema.types) == TYPES
    assert row_slots(arrow.columns, TYPES).tolist() == [slots["together"] for slots in found]


@pytest.mark.parametrize("value", ["1.234", "12345678.9", "NaN"])
def test_a_decimal_that_its_column_cannot_hold_has_no_slot(value: str) -> None:
    with pytest.raises(ValueError):
        slot_of(decimal.Decimal(value), types=["decimal128(9, 2)"])


def test_a_decimal_has_the_slot_of_its_column_however_it_is_written() -> None:
    kinds = ["decimal128(9, 2)"]
    assert slot_of(decimal.Decimal("5"), types=kinds) == slot_of(decimal.Decimal("5.00"), types=kinds)
    assert slot_of(5, types=kinds) == slot_of(decimal.Decimal("5.0"), types=kinds)
    with pytest.raises(GraphError, match="pass types="):
        slot_of(decimal.Decimal("5"))


def test_without_types_an_int_is_a_long_and_a_float_a_double(spark: SparkSession) -> None:
    rows = [(n - 50, (n - 50) / 3, f"word {n}") for n in range(100)]
    frame = spark.createDataFrame(rows, "n long, d double, s string")
    found = frame.select(F.pmod(F.xxhash64("n", "d", "s"), F.lit(SLOTS))).collect()
    assert [slot_of(*row) for row in rows] == [row[0] for row in found]
