"""Whatever state holds comes back from its buffers, and every key has a slot."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.state.codec import decode, encode
from perseid.state.sizes import size_of
from perseid.state.slots import slot_of
from perseid.vocabulary import SLOTS

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.datetimes(),
    st.dates(),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(scalars, inner),
        st.sets(st.integers()),
        st.frozensets(st.text()),
    ),
    max_leaves=25,
)
keys = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(), st.dates(),
    st.datetimes(), st.datetimes(timezones=st.just(datetime.UTC)),
)  # fmt: skip


def round_trip(value: Any) -> Any:
    return decode([memoryview(bytes(buffer)) for buffer in encode({"fields": {"value": value}})])["fields"]["value"]


@settings(deadline=None)
@given(values)
def test_plain_values_come_back_equal_and_have_a_size(value: Any) -> None:
    assert round_trip(value) == value
    assert size_of(value) >= 0


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(0, 5), st.sampled_from(["C", "F"]))
def test_arrays_come_back_equal_and_writable(numbers: list[int], columns: int, order: Any) -> None:
    array = np.asarray(numbers * columns, dtype=np.int64).reshape((len(numbers), columns), order=order)
    again = round_trip(array)
    assert np.array_equal(again, array)
    assert again.flags.writeable


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text())), st.data())
def test_slices_of_arrow_data_come_back_equal(texts: list[str | None], data: Any) -> None:
    column = pa.chunked_array([pa.array(texts, pa.string()), pa.array(texts[::-1], pa.string())])
    start = data.draw(st.integers(0, len(column)))
    few = pa.table({"text": column}).slice(start, data.draw(st.integers(0, len(column))))
    assert round_trip(few).equals(few)
    assert round_trip(few.column("text")).equals(few.column("text"))


@settings(deadline=None)
@given(st.lists(keys, min_size=1, max_size=4))
def test_every_key_has_a_slot_in_range_and_always_the_same(key: list[Any]) -> None:
    assert 0 <= slot_of(*key) < SLOTS
    assert slot_of(*key) == slot_of(*key)
