"""What hosts see of the keys."""

from __future__ import annotations

import pyarrow as pa

from perseid.host.key_load import SAMPLE_ROWS, KeyLoad
from perseid.state.slots import slot_of


def load() -> KeyLoad:
    return KeyLoad(("rows",), {"rows": ("k",)}, ("string",))


def rows(*keys: str) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.string()), "n": pa.array(range(len(keys)), pa.int64())})


def test_rows_are_counted_by_slot_and_the_heaviest_key_is_known() -> None:
    seen = load()
    seen.came(rows(*["a"] * 70, *["b"] * 30), 1.0)
    assert seen.report() == (100, {slot_of("a"): 70, slot_of("b"): 30}, ("'a'", 0.7))


def test_a_sample_stands_for_all_rows_since_the_last() -> None:
    seen = load()
    seen.came(rows("a"), 1.0)
    for n in range(10):
        seen.came(rows(*["b"] * 1_000), 1.1 + n / 1000)  # too soon for another sample
    seen.came(rows(*["b"] * 10 * SAMPLE_ROWS), 2.0)
    assert sum(seen.report()[1].values()) == 1 + 10_000 + 10 * SAMPLE_ROWS


def test_what_is_old_fades() -> None:
    seen = load()
    seen.came(rows(*["old"] * 1_000), 1.0)
    seen.report()
    for n in range(20):
        seen.came(rows(*["new"] * 1_000), 2.0 + n)
        _, _, hot = seen.report()
    assert hot is not None and hot[0] == "'new'" and hot[1] > 0.99


def test_no_rows_are_no_load() -> None:
    seen = load()
    seen.came(rows(), 1.0)
    assert seen.report() == (0, {}, None)
