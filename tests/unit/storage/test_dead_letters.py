"""Dead letters: what was put aside is known again by what is in it, and nobody writes over it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from perseid.errors import CorruptData
from perseid.storage.dead_letters import Aside, LeftOut, all_letters, epochs_with, identities, left_out, put_aside
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId

O = OperatorName("count")  # noqa: E741
ROWS = pa.table(
    {
        "k": pa.array(["a", "b", "a", None, "a"]),
        "x": pa.array([0.1, float("nan"), 0.1, None, 0.2]),
        "at": pa.array([datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)] * 5, pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.10")] * 5, pa.decimal128(10, 2)),
        "tags": pa.array([["x", None], [], ["x", None], None, ["y"]], pa.list_(pa.string())),
    }
)


def aside(name: str, rows: pa.Table, places: list[int]) -> tuple[pa.Table, list[tuple[str, str, int]], list[str]]:
    known = identities(name, rows)
    return rows.take(pa.array(places, pa.int64())), [known[p] for p in places], [f"ValueError: {p}" for p in places]


def test_the_rows_put_aside_are_left_out_and_equal_ones_are_told_apart(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    assert put_aside(store, ShardId(O, 0), Epoch(4), 9, Aside({"rows": aside("rows", ROWS, [1, 2, 3])}), LeftOut())
    absent = left_out(store, O, Epoch(4))
    assert absent.kept({"rows": ROWS})["rows"].equals(ROWS.take(pa.array([0, 4])))
    mine = ROWS.take(pa.array([0, 2, 4]))  # as another shard of another division has them
    assert absent.kept({"rows": mine})["rows"].num_rows == 2, "one of two equal rows, wherever they go together"
    (found,) = all_letters(store, O)
    assert (found.shard, found.epoch, found.rows, found.error, found.errors) == (0, 4, 3, "ValueError: 1", 3)
    assert epochs_with(store, O) == [4] and epochs_with(store, O, after=4) == []
    assert not left_out(store, O, Epoch(5)).letters


def test_rows_of_several_inputs_and_timers_lie_in_one_file(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    other = pa.table({"k": ["a", "z"], "n": [1, 2]})
    rows = {"left": aside("left", ROWS, [4]), "right": aside("right", other, [0])}
    timer = "Timer(key='a', at_ms=5, kind='event', name='')"
    assert put_aside(store, ShardId(O, 2), Epoch(1), 9, Aside(rows, {timer: "KeyError: 1"}), LeftOut())
    absent = left_out(store, O, Epoch(1))
    kept = absent.kept({"left": ROWS, "right": other})
    assert repr(kept["left"].to_pylist()) == repr(ROWS.slice(0, 4).to_pylist())  # nan is not nan
    assert kept["right"].equals(other.slice(1))
    assert absent.timers == {timer} and absent.letters[0].rows == 2
    (file,) = (tmp_path / "dead-letters" / "count" / "epoch=1").iterdir()
    shown = pa.ipc.open_file(pa.OSFile(str(file))).read_all().to_pylist()
    assert [(row["left"] is None, row["__perseid_error"]) for row in shown] == [
        (False, "ValueError: 4"),
        (True, "ValueError: 0"),
    ]


def test_a_file_is_never_replaced_and_a_torn_one_is_not_taken_for_none(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    first, second = (Aside({"rows": aside("rows", ROWS, [place])}) for place in (0, 1))
    nothing = LeftOut()
    assert put_aside(store, ShardId(O, 0), Epoch(4), 9, first, nothing)
    assert not put_aside(store, ShardId(O, 0), Epoch(4), 9, second, nothing), "a host thought dead comes too late"
    known = left_out(store, O, Epoch(4))
    assert len(known.rows) == 1
    assert put_aside(store, ShardId(O, 0), Epoch(4), 9, second, known), "but one that knows of the first may add to it"
    assert len(left_out(store, O, Epoch(4)).rows) == 2
    file = tmp_path / "dead-letters" / "count" / "epoch=4" / "0.arrow"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(CorruptData, match=r"epoch=4/0\.arrow"):
        left_out(store, O, Epoch(4))
