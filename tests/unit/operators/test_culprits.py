"""Which rows make an operator raise, and that the rest is applied as if they had never come."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from perseid import KeyedOperator, Operator, state
from perseid.errors import OperatorFailed
from perseid.operators.context import Context
from perseid.operators.culprits import Found, Search, said
from perseid.state.operator_state import fresh
from perseid.state.timers import Timer
from perseid.vocabulary import Epoch, OperatorName, ShardId

SHARD = ShardId(OperatorName("add"), 0)


class Add(KeyedOperator):
    """Changes its state in place before it raises: half of a key's rows must not stay in it."""

    seen: list[int] = state(default_factory=list)

    def process_key(self, key: Any, rows: pa.Table) -> Iterator[dict[str, Any]]:
        for n in rows["n"].to_pylist():
            self.seen.append(n)
            if n < 0:
                raise ValueError(f"{key} cannot have {n}")
            yield {"k": key, "total": sum(self.seen)}

    def on_key_timer(self, key: Any, timer: Timer) -> list[dict[str, Any]]:
        if timer.name == "bad":
            raise LookupError(f"{key} has no alarm")
        return [{"k": key, "total": -1}]


class Sum(Operator):
    total: int = state(default=0)
    rows: Counter[str] = state(default_factory=Counter)

    def process(self, rows: pa.Table) -> pa.Table:
        for k, n in zip(rows["k"].to_pylist(), rows["n"].to_pylist(), strict=True):
            self.rows[k] += 1
            if n < 0:
                raise ValueError(f"cannot take {n}")
            self.total += n
        return pa.table({"k": ["all"], "total": [self.total]})


def context() -> Context:
    return Context(epoch=Epoch(3), time_ms=1_000, watermark_ms=None, shard=SHARD, key=("k",))


def table(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table(
        {"k": pa.array([k for k, _ in pairs], pa.string()), "n": pa.array([n for _, n in pairs], pa.int64())}
    )


OUTPUT = pa.schema([("k", pa.string()), ("total", pa.int64())])


def search(operator: Operator, rows: pa.Table, **more: Any) -> Found:
    return Search(operator, {"rows": rows}, context, OUTPUT, **more).run()


def values(operator: Any) -> dict[Hashable, list[int]]:
    return {key: fields[0] for key, fields in operator._keyed.values.items()}


def test_a_keyed_operator_loses_only_the_rows_of_the_keys_that_raise() -> None:
    operator = fresh(Add())
    search(operator, table(("a", 1), ("b", 2)))
    found = search(operator, table(("a", 5), ("b", 1), ("c", 7), ("b", -9), ("d", -1), ("a", 6)))
    assert found.rows == {
        "rows": {
            1: "ValueError: b cannot have -9",
            3: "ValueError: b cannot have -9",
            4: "ValueError: d cannot have -1",
        }
    }
    assert found.output.to_pylist() == [{"k": "a", "total": 6}, {"k": "a", "total": 12}, {"k": "c", "total": 7}]
    assert values(operator) == {"a": [1, 5, 6], "b": [2], "c": [7]}, "b is what it was before the epoch; d never came"


def test_state_on_disk_is_put_back_between_tries() -> None:
    class Spilling(Add):
        spill = "1 MB"

    operator = fresh(Spilling())
    search(operator, table(*((f"k{n}", n) for n in range(2_000))))
    found = search(operator, table(*((f"k{n}", -1 if n == 700 else 1) for n in range(2_000))))
    assert list(found.rows["rows"]) == [700]
    assert operator._keyed.values["k700"] == ([700],) and operator._keyed.values["k701"] == ([701, 1],)


def test_many_keys_that_raise_are_found_in_one_pass() -> None:
    operator = fresh(Add())
    rows = table(*((f"k{n}", -1 if n % 3 else n) for n in range(600)))
    found = search(operator, rows, tries=10)
    assert sorted(found.rows["rows"]) == [n for n in range(600) if n % 3]
    assert len(values(operator)) == 200


def test_a_timer_that_raises_is_put_aside_and_its_key_keeps_its_rows() -> None:
    operator = fresh(Add())
    for key, name in (("a", "good"), ("b", "bad")):
        operator._timers.at_processing_time(key, 500, name=name)
    found = search(operator, table(("a", 1), ("b", 2)))
    assert found.timers == {Timer("b", 500, "processing", "bad"): "LookupError: b has no alarm"}
    assert not found.rows["rows"]
    assert values(operator) == {"a": [1], "b": [2]}
    assert {"k": "a", "total": -1} in found.output.to_pylist()
    assert not operator._timers, "it is gone: it does not come up again in every epoch"


@pytest.mark.parametrize("bad", [(0,), (799,), (3, 4), (1, 200, 650)])
def test_of_any_other_operator_single_rows_are_found(bad: tuple[int, ...]) -> None:
    operator = fresh(Sum())
    operator.total = 1_000
    rows = table(*((f"k{n % 7}", -n - 1 if n in bad else n) for n in range(800)))
    found = search(operator, rows)
    assert {place: said.split(": ")[1] for place, said in found.rows["rows"].items()} == {
        n: f"cannot take {-n - 1}" for n in bad
    }
    assert operator.total == 1_000 + sum(n for n in range(800) if n not in bad)
    assert sum(operator.rows.values()) == 800 - len(bad), "no try has left anything behind"


def test_the_search_ends_and_what_it_could_not_look_into_is_put_aside_whole() -> None:
    draw = random.Random(5)
    bad = {n for n in range(5_000) if draw.random() < 0.3}
    operator = fresh(Sum())
    rows = table(*((f"k{n % 7}", -1 if n in bad else 1) for n in range(5_000)))
    found = search(operator, rows, tries=60)
    aside = set(found.rows["rows"])
    assert bad <= aside and operator.total == 5_000 - len(aside)
    again = fresh(Sum())
    assert search(again, rows, tries=60).rows == found.rows, "the same rows whenever it is run"


def test_an_output_that_does_not_fit_is_blamed_on_its_key() -> None:
    class Shape(KeyedOperator):
        n: int = state(default=0)

        def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
            self.n += 1
            return [{"k": key, "total": "many" if key == "odd" else self.n}]

    operator = fresh(Shape())
    found = search(operator, table(("a", 1), ("odd", 1), ("b", 1), ("c", 1)))
    assert list(found.rows["rows"]) == [1]
    assert {row["k"] for row in found.output.to_pylist()} == {"a", "b", "c"}


def test_an_operator_that_raises_without_rows_is_not_helped_and_stays_as_it_was() -> None:
    class Never(Operator):
        n: int = state(default=0)

        def process(self, rows: pa.Table) -> None:
            self.n += 1
            raise RuntimeError("the model is not there")

    operator = fresh(Never())
    with pytest.raises(OperatorFailed, match=r"operator 'add', shard 0, epoch 3.*the model is not there"):
        search(operator, table(("a", 1)))
    assert operator.n == 0


def test_keys_of_several_inputs_go_together() -> None:
    class Join(KeyedOperator):
        seen: int = state(default=0)

        def process_key(self, key: Any, *, left: pa.Table, right: pa.Table) -> list[dict[str, Any]]:
            self.seen += len(left) + len(right)
            if key == "bad" and len(right):
                raise ValueError("right is wrong")
            return [{"k": key, "total": self.seen}]

    operator = fresh(Join())
    inputs = {"left": table(("a", 1), ("bad", 1)), "right": table(("bad", 2), ("b", 2), ("a", 2))}
    keyed = {"left": ("k",), "right": ("k",)}
    found = Search(operator, inputs, lambda: Context(epoch=Epoch(1), time_ms=1, shard=SHARD, key=keyed), OUTPUT).run()
    why = "ValueError: right is wrong"
    assert found.rows == {"left": {1: why}, "right": {0: why}}
    assert sorted((r["k"], r["total"]) for r in found.output.to_pylist()) == [("a", 2), ("b", 1)]


def test_an_error_is_told_in_one_line() -> None:
    assert said(ValueError("a\nb")) == "ValueError: a"
    assert said(KeyError()) == "KeyError: "
