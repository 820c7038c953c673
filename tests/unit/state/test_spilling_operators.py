"""Operators whose state is larger than the memory they may use: the same results as others, saved, cut and merged like theirs (S2)."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from perseid import KeyedOperator, Operator, every, state
from perseid.errors import GraphError
from perseid.state import Spilled, checkpoint_state, restore_state, slot_of
from perseid.state.size_estimate import SizeEstimate
from perseid.testing import OperatorHarness
from perseid.vocabulary import Epoch


class Counts(Operator):
    counts: dict[str, int] = state(spill="8 KB")
    last: dict[str, list[int]] = state(spill="8 KB")

    def process(self, rows: pa.Table) -> pa.Table:
        words = rows["word"].to_pylist()
        for word in words:
            self.counts[word] = self.counts.get(word, 0) + 1
            self.last.setdefault(word, []).append(self.context.epoch)
        return pa.table({"word": words, "n": [self.counts[word] for word in words]})


class InMemory(Counts):
    counts: dict[str, int] = state(default_factory=dict)
    last: dict[str, list[int]] = state(default_factory=dict)


class MoreInMemory(Counts):
    counts: dict[str, int] = state(spill="1 MB")


class Visits(KeyedOperator):
    ttl = every(seconds=4)
    spill = "8 KB"
    n: int = state(default=0)
    seen: list[int] = state(default_factory=list)

    def process_key(self, key: str, rows: pa.Table) -> list[dict[str, Any]]:
        self.n += rows.num_rows
        self.seen.append(self.context.epoch)
        if self.n % 7 == 0:
            self.context.timers.at_processing_time(key, self.context.time_ms + 1_500)
        return [{"word": key, "n": self.n}]

    def on_key_timer(self, key: str, timer: Any) -> list[dict[str, Any]]:
        return [{"word": key, "n": -len(self.seen)}]


class VisitsInMemory(Visits):
    spill = None  # type: ignore[assignment]


def epochs(count: int) -> list[list[dict[str, str]]]:
    chance = random.Random(3)
    return [[{"word": f"word-{chance.randrange(400)}"} for _ in range(120)] for _ in range(count)]


def harness(operator: Operator, **given: Any) -> OperatorHarness:
    return OperatorHarness(operator, key="word", output="word string, n long", schema="word string", **given)


def _name(operator: Operator) -> str:
    return type(operator).__name__


@pytest.mark.parametrize(("spilling", "plain"), [(Counts(), InMemory()), (Visits(), VisitsInMemory())], ids=_name)
def test_results_do_not_depend_on_what_is_in_memory(spilling: Operator, plain: Operator) -> None:
    one, other = harness(spilling, replay=True), harness(plain)
    for number, rows in enumerate(epochs(12)):
        assert one.epoch(rows, at_ms=number * 1_000) == other.epoch(rows, at_ms=number * 1_000)
    assert one.state == other.state and one.timers == other.timers


@pytest.mark.parametrize("operator", [Counts(), Visits()], ids=_name)
def test_shards_of_spilled_state_go_on_as_the_whole_would(operator: Operator) -> None:
    whole, plain = harness(operator), harness(operator)
    rows = epochs(10)
    for number in range(5):
        whole.epoch(rows[number], at_ms=number * 1_000)
        plain.epoch(rows[number], at_ms=number * 1_000)
    halves = OperatorHarness.merge(whole.split(3)).split(2)
    for number in range(5, 10):
        expected = sorted(map(str, plain.epoch(rows[number], at_ms=number * 1_000)))
        got = [row for half in halves for row in half.epoch(mine(half, rows[number]), at_ms=number * 1_000)]
        assert sorted(map(str, got)) == expected
    assert OperatorHarness.merge(halves).state == plain.state


def mine(half: OperatorHarness, rows: list[dict[str, str]]) -> list[dict[str, str]]:
    first, last = half._slots
    return [row for row in rows if first <= slot_of(row["word"]) < last]


def test_an_operator_may_begin_to_spill_and_leave_off_again() -> None:
    plain = restore_state(InMemory(), None)
    plain.counts = {f"w{n}": n for n in range(100)}
    spilling = restore_state(Counts(), checkpoint_state(plain, Epoch(1)))
    assert isinstance(spilling.counts, Spilled) and spilling.counts == plain.counts
    again = restore_state(MoreInMemory(), checkpoint_state(spilling, Epoch(1))).counts
    assert isinstance(again, Spilled) and again.limit == 1 << 20
    keyed = harness(VisitsInMemory())
    keyed.epoch(epochs(1)[0])
    spilled, back = harness(Visits()), harness(VisitsInMemory())
    spilled.restore(keyed.snapshot())
    assert isinstance(spilled._shards[0][1]._keyed.values, Spilled)
    back.restore(spilled.snapshot())
    assert type(back._shards[0][1]._keyed.values) is dict
    assert back.state == spilled.state == keyed.state


def test_a_plain_dict_put_in_its_place_is_spilled() -> None:
    class Reset(Operator):
        words: dict[str, int] = state(spill="8 KB")

        def process(self, rows: pa.Table) -> None:
            self.words = dict.fromkeys(rows["word"].to_pylist(), 1)

    reset = harness(Reset())
    reset.epoch([{"word": "a"}, {"word": "b"}])
    assert isinstance(reset.state["words"], Spilled) and reset.state["words"] == {"a": 1, "b": 1}


def test_its_size_is_that_of_memory_and_disk_and_costs_no_look_into_it() -> None:
    shard = restore_state(Counts(), None)
    assert isinstance(shard.counts, Spilled)
    shard.counts.put_many([f"word-{n}" for n in range(30_000)], range(30_000))
    estimate = SizeEstimate("counts", shard)
    assert estimate.now() > 400_000
    assert estimate.warnings() == []


def test_what_is_wrong_with_a_limit_is_said_before_anything_runs() -> None:
    class Wrong(KeyedOperator):
        spill = "much"
        n: dict[str, int] = state(spill=1000)

        def process_key(self, key: str, rows: pa.Table) -> None: ...

    with pytest.raises(GraphError, match=r"(?s)Wrong.spill: expected an amount of memory.*'n' of a KeyedOperator"):
        harness(Wrong())
    for wrong in ("0 MB", "12 parsecs", -1, True):
        with pytest.raises(GraphError, match="expected an amount of memory"):
            state(spill=wrong)
    with pytest.raises(GraphError, match="give no other default"):
        state(spill="1 MB", default_factory=list)
