"""Narrow columns side by side in words: nothing overlaps, everything comes back (design, ``channel/packed_layout.py``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.channel.packed_layout import MOST_COLUMNS, NULLS, WORD_BITS, Layout, layout_of, word_column
from perseid.channel.rows import SHARD

BITS = st.sampled_from([1, 8, 16, 32])
KINDS = {1: pa.bool_(), 8: pa.int8(), 16: pa.int16(), 32: pa.int32()}


def named(bits: list[int]) -> dict[str, int]:
    return {f"c{number}": wide for number, wide in enumerate(bits)}


@settings(deadline=None)
@given(st.lists(BITS, min_size=1, max_size=60))
def test_no_two_fields_share_a_bit(bits: list[int]) -> None:
    layout = layout_of(named(bits))
    if layout is None:
        return
    used = [(p.word, bit) for p in layout.places.values() for bit in range(p.shift, p.shift + p.bits)]
    assert len(used) == len(set(used)) and all(bit < WORD_BITS for _, bit in used)
    assert {SHARD, NULLS, *layout.columns} == set(layout.places)
    assert layout.words < len(layout.columns) <= MOST_COLUMNS


def by_hand(layout: Layout, rows: list[list[int | None]]) -> pa.RecordBatch:
    """What Spark does, in Python: the words of these rows, as signed numbers."""
    words = np.zeros((layout.words, len(rows)), np.uint64)
    for number, row in enumerate(rows):
        fields = dict(zip(layout.columns, (value or 0 for value in row), strict=True))
        fields[NULLS] = sum(1 << bit for bit, value in enumerate(row) if value is None)
        fields[SHARD] = 7
        for name, value in fields.items():
            place = layout.places[name]
            words[place.word, number] |= np.uint64((value & place.mask) << place.shift)
    columns = {word_column(number): words[number].view(np.int64) for number in range(layout.words)}
    return pa.RecordBatch.from_pydict({**columns, "text": ["x"] * len(rows)})


@settings(deadline=None)
@given(st.data())
def test_every_value_comes_back(data: st.DataObject) -> None:
    bits = data.draw(st.lists(BITS, min_size=3, max_size=12))
    layout = layout_of(named(bits))
    if layout is None:
        return

    def value(wide: int) -> st.SearchStrategy[int | None]:
        low, high = (0, 1) if wide == 1 else (-(1 << (wide - 1)), (1 << (wide - 1)) - 1)
        return st.none() | st.integers(low, high)

    rows = data.draw(st.lists(st.tuples(*map(value, bits)).map(list), max_size=5))
    schema = pa.schema([(name, KINDS[wide]) for name, wide in named(bits).items()] + [("text", pa.string())])
    came = layout.unpacked(by_hand(layout, rows), schema)
    assert came.schema == schema
    assert [list(row.values())[:-1] for row in came.to_pylist()] == rows


def test_a_date_comes_back_as_a_date() -> None:
    layout = layout_of(named([32, 8, 8]))
    assert layout is not None
    schema = pa.schema([("c0", pa.date32()), ("c1", pa.int8()), ("c2", pa.int8())])
    came = layout.unpacked(by_hand(layout, [[-1, 3, None]]), schema)
    assert str(came.column("c0")[0]) == "1969-12-31" and came.column("c2")[0].as_py() is None


@pytest.mark.parametrize("bits", [[], [32], [32, 32]])
def test_columns_that_words_would_not_make_fewer_stay_as_they_are(bits: list[int]) -> None:
    assert layout_of(named(bits)) is None
