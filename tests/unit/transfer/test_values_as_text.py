"""Values as JSON text are the same values again, and columns of typed fields as well."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from perseid.errors import PerseidError, RootError
from perseid.transfer.columns import Column, column_type
from perseid.transfer.text import NoText, as_text, from_text


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: Any


@dataclass(frozen=True)
class Account:
    owner: str
    tags: list[str] = field(default_factory=list)
    colour: Colour = Colour.RED


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.dates() | st.datetimes()
    | st.times() | st.timedeltas() | st.decimals(allow_nan=False) | st.uuids() | st.sampled_from(Colour)
)  # fmt: skip
KEYS = st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inside: (
        st.lists(inside, max_size=3) | st.lists(inside, max_size=3).map(tuple) | st.dictionaries(KEYS, inside, max_size=3)
        | st.dictionaries(st.text(), inside, max_size=3).map(OrderedDict) | st.lists(inside, max_size=3).map(lambda v: deque(v, 5))
        | st.sets(KEYS, max_size=3) | st.frozensets(KEYS, max_size=3) | st.builds(Point, st.integers(), inside)
    ),
    max_leaves=10,
)  # fmt: skip


def types(value: Any) -> Any:
    """The type of a value and of all inside it."""
    if isinstance(value, dict):
        return type(value), [(types(key), types(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value), [types(one) for one in value]
    return type(value)


@given(VALUES)
def test_a_value_is_the_same_again(value: Any) -> None:
    again = from_text(as_text(value))
    assert again == value and types(again) == types(value)


@pytest.mark.parametrize(
    "value",
    [
        Counter(a=2), {"$tuple": [1]}, {"$odd": 1, "b": 2}, float("inf"), np.float32(1.5), np.int64(7), Account("ada", ["x"]),
        bytearray(b"x"), decimal.Decimal("1.50"), uuid.UUID(int=5), datetime.timedelta(days=-1, microseconds=3), Row(a=1, b="x"),
        [Account("ada"), Point(1, Account("b"))],
    ],
    ids=repr,
)  # fmt: skip
def test_these_values_too(value: Any) -> None:
    again = from_text(as_text(value))
    assert again == value and type(again) is type(value)


def test_arrays_and_dicts_with_a_default() -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    again = from_text(as_text(array))
    assert again.dtype == array.dtype and (again == array).all() and again.flags.writeable
    words = from_text(as_text(defaultdict(list, a=[1])))
    assert words == {"a": [1]} and words["b"] == []


def test_a_new_attribute_of_a_dataclass_gets_its_default() -> None:
    older = as_text(Account("ada", ["x"])).replace('"tags":["x"],', "")
    assert from_text(older) == Account("ada")


@pytest.mark.parametrize(
    "value", [object(), lambda: 1, np.array([object()]), defaultdict(lambda: 7), [object()]], ids=type
)
def test_what_has_no_form_as_text_is_refused(value: Any) -> None:
    with pytest.raises(NoText, match="has no form as text"):
        as_text(value)


@pytest.mark.parametrize(
    "text",
    ['{"$dataclass":["os:system",{}]}', '{"$namedtuple":["subprocess:Popen",["ls"]]}', '{"$enum":["nowhere:E","A"]}'],
)
def test_text_makes_objects_only_of_data_classes_that_are_loaded(text: str) -> None:
    with pytest.raises(PerseidError, match="is not loaded, or is no dataclass"):
        from_text(text)


@pytest.mark.parametrize("text", ['{"$unheard":1}', "{", '{"$date":"noon"}', '{"$numpy":["<i8"]}'])
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(PerseidError, match="is no value as text"):
        from_text(text)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("int", pa.int64()), ("float | None", pa.float64()), ("list[str]", pa.list_(pa.string())),
        ("dict[str, list[int]]", pa.map_(pa.string(), pa.list_(pa.int64()))), ("bytes", pa.binary()),
        ("Any", None), ("", None), ("tuple[int, int]", None), ("dict[str, Account]", None), ("int | str", None), ("list[", None),
    ],
)  # fmt: skip
def test_declared_types_and_their_columns(declared: str, kind: Any) -> None:
    assert column_type(declared) == kind


def test_typed_columns_give_the_same_values_again() -> None:
    for declared, values in (
        ("int", [1, None, -(1 << 62)]),
        ("float", [1.5, None, 2.0]),
        ("list[int]", [[1, 2], [], None]),
        ("dict[str, dict[str, int]]", [{"a": {"b": 1}}, {}, None]),
        ("list[dict[str, float]]", [[{"a": 0.5}], None]),
    ):
        column = Column.declared("n", declared)
        assert not column.is_text and column.values(column.array(values, "")) == values


def test_numpy_scalars_are_numbers_in_a_typed_column() -> None:
    assert Column.declared("n", "int").array([np.int32(3)], "").to_pylist() == [3]


@pytest.mark.parametrize(
    ("declared", "value"), [("int", 1.0), ("int", True), ("int", 1 << 70), ("str", b"x"), ("list[int]", (1,))]
)
def test_a_value_of_another_type_is_refused_and_not_rounded(declared: str, value: Any) -> None:
    with pytest.raises(RootError, match="field 'n': a value is not of its declared type"):
        Column.declared("n", declared).array([value], "field 'n'")
