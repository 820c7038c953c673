"""The operator harness: what a host does with an operator, without a host."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest

from perseid import KeyedOperator, Operator, event_time, every, state
from perseid.errors import GraphError, OperatorFailed, SettingsError
from perseid.testing import Clock, OperatorHarness


class Count(Operator):
    totals: dict[str, int] = state(default_factory=lambda: defaultdict(int))

    def process(self, rows: pa.Table) -> pa.Table:
        added = Counter(rows["word"].to_pylist())
        for word, more in added.items():
            self.totals[word] += more
        return pa.table({"word": list(added), "n": [self.totals[word] for word in added]})


class Sessions(KeyedOperator):
    ttl = every(hours=1)
    clicks: int = state(default=0)

    def process_key(self, key: str, rows: pa.Table) -> None:
        self.clicks += rows.num_rows
        self.context.timers.cancel(key, name="quiet")
        self.context.timers.at_processing_time(key, self.context.time_ms + 30_000, name="quiet")

    def on_key_timer(self, key: str, timer: Any) -> list[dict[str, Any]]:
        clicks, self.clicks = self.clicks, 0
        return [{"visitor": key, "clicks": clicks}]


def words(*said: str) -> list[dict[str, str]]:
    return [{"word": word} for word in said]


def count(**more: Any) -> OperatorHarness:
    return OperatorHarness(Count(), key="word", output="word string, n long", schema="word string", **more)


def visits(**more: Any) -> OperatorHarness:
    return OperatorHarness(Sessions(), key="visitor", output="visitor string, clicks long", **more)


def test_rows_go_in_and_rows_come_out_and_the_state_stays():
    harness = count()
    assert harness.epoch(words("to", "be", "to")) == [{"word": "to", "n": 2}, {"word": "be", "n": 1}]
    assert harness.epoch({"word": ["be"]}) == [{"word": "be", "n": 2}]
    assert harness.epoch(pa.table({"word": ["or"]})) == [{"word": "or", "n": 1}]
    assert harness.epoch() == []
    assert harness.state == {"totals": {"to": 2, "be": 2, "or": 1}}
    assert harness.epochs == 4


def test_timers_fire_when_the_clock_has_been_moved():
    clock = Clock()
    harness = visits(clock=clock)
    assert harness.epoch([{"visitor": "ada"}]) == []
    clock.advance(seconds=29)
    assert harness.epoch() == []
    assert [(t.key, t.at_ms, t.name) for t in harness.timers] == [("ada", 30_000, "quiet")]
    clock.advance(seconds=1)
    assert harness.epoch() == [{"visitor": "ada", "clicks": 1}]
    assert not harness.timers


def test_an_idle_key_is_forgotten():
    harness = visits()
    harness.epoch([{"visitor": "ada"}], at_ms=0)
    assert harness.state == {"ada": {"clicks": 1}}
    harness.epoch(at_ms=60_000)  # the timer fires
    harness.epoch(at_ms=4_000_000)
    assert harness.state == {}


def test_rows_behind_the_watermark_are_late():
    harness = OperatorHarness(
        Count(), key="word", schema="word string, at long", event_time=event_time("at", delay=every(seconds=1))
    )
    assert harness.watermark_ms is None
    harness.epoch([{"word": "a", "at": 10_000}])
    assert harness.watermark_ms == 9_000
    assert harness.epoch([{"word": "a", "at": 8_999}, {"word": "b", "at": 9_000}]) == [{"word": "b", "n": 1}]
    assert harness.late_rows == 1


def test_several_inputs_come_by_their_names():
    class Both(Operator):
        lefts: dict[int, int] = state(default_factory=dict)

        def process(self, left: pa.Table, right: pa.Table) -> list[dict[str, int]]:
            for key in left["id"].to_pylist():
                self.lefts[key] = self.lefts.get(key, 0) + 1
            return [{"id": key, "n": self.lefts.get(key, 0)} for key in right["order"].to_pylist()]

    harness = OperatorHarness(
        Both(), key={"left": "id", "right": "order"}, inputs={"left": "id long", "right": "order long"}, shards=3
    )
    assert harness.epoch(left=[{"id": n} for n in (1, 2, 1)]) == []
    assert sorted(harness.epoch(right=[{"order": n} for n in (1, 2, 3)]), key=lambda row: row["id"]) == [
        {"id": 1, "n": 2},
        {"id": 2, "n": 1},
        {"id": 3, "n": 0},
    ]
    with pytest.raises(SettingsError, match="inputs are left, right"):
        harness.epoch(middle=[])


def test_a_snapshot_brings_the_state_back_and_shares_nothing_with_it():
    harness = count()
    harness.epoch(words("a"))
    saved = harness.snapshot()
    harness.epoch(words("a", "b"))
    harness.restore(saved)
    assert harness.state == {"totals": {"a": 1}}
    assert harness.epochs == 1 and saved.bytes > 0
    assert harness.epoch(words("a", "b")) == [{"word": "a", "n": 2}, {"word": "b", "n": 1}]


def test_an_epoch_that_raises_leaves_the_state_as_it_was():
    class Picky(Count):
        def process(self, rows: pa.Table) -> pa.Table:
            table = super().process(rows)
            if "bad" in rows["word"].to_pylist():
                raise ValueError("no bad words")
            return table

    harness = OperatorHarness(Picky(), key="word", output="word string, n long")
    harness.epoch(words("good"))
    with pytest.raises(OperatorFailed, match=r"epoch 2: process raised ValueError: no bad words"):
        harness.epoch(words("good", "bad"))
    assert harness.state == {"totals": {"good": 1}}
    assert harness.epoch(words("good")) == [{"word": "good", "n": 2}]


def test_output_that_does_not_fit_is_refused_as_it_is_on_spark():
    harness = OperatorHarness(Count(), key="word", output="word string, count long")
    with pytest.raises(OperatorFailed, match="missing 'count'; not declared 'n'"):
        harness.epoch(words("a"))


def test_mistakes_of_the_operator_are_named_as_in_a_graph():
    with pytest.raises(GraphError, match="write Count"):
        OperatorHarness(Count, key="word")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="'words array<string>' is no plain column"):
        OperatorHarness(Count(), key="word", output="words array<string>")
    with pytest.raises(SettingsError, match="no key column"):
        count().epoch(pa.table({"wort": ["a"]}))


# -- replay --------------------------------------------------------------------------------------------------------


def test_replay_finds_random_numbers():
    class Dice(Operator):
        def process(self, rows: pa.Table) -> list[dict[str, float]]:
            return [{"n": random.random()} for _ in range(rows.num_rows)]

    with pytest.raises(OperatorFailed, match="other rows came out"):
        OperatorHarness(Dice(), key="word", replay=True).epoch(words("a"))


def test_replay_finds_state_that_was_not_declared():
    class Forgetful(Operator):
        seen: dict[str, int] = state(default_factory=dict)

        def __init__(self) -> None:
            self.calls = 0

        def process(self, rows: pa.Table) -> None:
            self.calls += 1
            self.seen["calls"] = self.calls

    harness = OperatorHarness(Forgetful(), key="word", replay=True)
    harness.epoch(words("a"))
    with pytest.raises(OperatorFailed, match=r"its state is another one; .* declared fields"):
        harness.epoch(words("a"))


def test_replay_lets_honest_operators_pass():
    harness = visits(replay=True, shards=3)
    for n in range(5):
        harness.epoch([{"visitor": f"v{n % 3}"}, {"visitor": f"v{n}"}], at_ms=n * 20_000)
    assert sum(fields["clicks"] for fields in harness.state.values()) > 0


# -- split and merge ---------------------------------------------------------------------------------------------


def test_a_split_operator_goes_on_as_several_and_merges_into_one():
    whole = count()
    whole.epoch(words("the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog"))
    parts = whole.split(3)
    assert sum(len(part.state["totals"]) for part in parts) == 8
    for part in parts:
        part.epoch([{"word": word} for word in part.state["totals"]])
    merged = OperatorHarness.merge(parts)
    assert merged.state["totals"] == {word: n + 1 for word, n in whole.state["totals"].items()}
    assert merged.epochs == 2
    assert type(merged.state["totals"]) is defaultdict


def test_a_row_given_to_the_wrong_part_is_named():
    whole = count()
    whole.epoch(words("a", "b", "c", "d"))
    left, right = whole.split(2)
    stray = next(iter(right.state["totals"]))
    with pytest.raises(SettingsError, match=f"key '{stray}' lies in slot .* give the row to another part"):
        left.epoch(words(stray))


def test_shards_share_the_rows_by_key_and_nothing_else():
    several, one = count(shards=4), count()
    said = words(
        "how", "much", "wood", "would", "a", "woodchuck", "chuck", "if", "a", "woodchuck", "could", "chuck", "wood"
    )
    for _ in range(2):
        assert Counter(map(str, several.epoch(said))) == Counter(map(str, one.epoch(said)))
    assert several.state == one.state


def test_a_field_that_cannot_be_cut_is_named():
    class Total(Operator):
        total: int = state(default=0)

        def process(self, rows: pa.Table) -> None:
            self.total += rows.num_rows

    harness = OperatorHarness(Total(), key="word")
    harness.epoch(words("a"))
    with pytest.raises(OperatorFailed, match=r"'operator'.*field 'total' is a int, not a dict by key.*split="):
        harness.split(2)
