"""A shard: made fresh, run, captured, restored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid import Context, KeyedOperator, Operator, state
from perseid.errors import GraphChanged, OperatorFailed
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch, state_bytes
from perseid.vocabulary import Epoch, OperatorName, ShardId


class Words(Operator):
    counts: dict[str, int] = state(default_factory=dict)
    epochs: int = state(default=0)

    def __init__(self, stop_words: list[str] | None = None) -> None:
        self.stop_words = stop_words or []

    def process(self, rows: pa.Table) -> pa.Table:
        self.epochs += 1
        self.scratch = rows.num_rows
        for word in rows.column("word").to_pylist():
            if word not in self.stop_words:
                self.counts[word] = self.counts.get(word, 0) + 1
        return pa.table({"word": list(self.counts), "n": list(self.counts.values())})


class Renamed(Operator):
    tally: dict[str, int] = state(default_factory=dict)


class ByKey(KeyedOperator):
    counts: int = state(default=0)
    epochs: int = state(default=0)


def context(epoch: int = 1, **more: Any) -> Context:
    return Context(
        epoch=Epoch(epoch), time_ms=epoch * 1000, shard=ShardId(OperatorName("count"), 3), key=("word",), **more
    )


def rows(*words: str) -> dict[str, pa.Table]:
    return {"rows": pa.table({"word": pa.array(words, pa.string())})}


def test_fresh_copies_share_neither_state_nor_configuration() -> None:
    prototype = Words(["the"])
    one, other = fresh(prototype), fresh(prototype)
    run_epoch(one, rows("a", "the"), context())
    one.stop_words.append("a")
    assert (one.counts, one.epochs) == ({"a": 1}, 1)
    assert (other.counts, other.epochs, other.stop_words) == ({}, 0, ["the"])
    assert prototype.stop_words == ["the"]


def test_fresh_starts_from_defaults_even_if_the_prototype_was_used() -> None:
    prototype = fresh(Words())
    run_epoch(prototype, rows("a"), context())
    again = fresh(prototype)
    assert (again.counts, again.epochs) == ({}, 0)
    assert "scratch" in vars(again), "configuration and scratch look alike on a prototype"


def test_capture_gives_references_not_copies() -> None:
    shard = fresh(Words())
    assert capture(shard)["fields"]["counts"] is shard.counts


def test_a_restored_shard_goes_on_where_the_captured_one_was() -> None:
    one, other = fresh(Words()), fresh(Words())
    run_epoch(one, rows("a", "b"), context(1))
    restore(other, decode(encode(capture(one))))
    for epoch in (2, 3):
        assert run_epoch(one, rows("b"), context(epoch)) == run_epoch(other, rows("b"), context(epoch))
    assert other.counts == {"a": 1, "b": 3}


def test_undeclared_attributes_are_not_state() -> None:
    one, other = fresh(Words()), fresh(Words())
    run_epoch(one, rows("a"), context())
    assert set(capture(one)["fields"]) == {"counts", "epochs"}
    restore(other, capture(one))
    assert not hasattr(other, "scratch")


def test_a_snapshot_with_other_fields_is_refused() -> None:
    with pytest.raises(GraphChanged, match=r"\('counts', 'epochs'\), the operator declares \('tally',\)"):
        restore(fresh(Renamed()), capture(fresh(Words())))


def test_a_snapshot_by_key_and_one_as_a_whole_are_not_the_same() -> None:
    with pytest.raises(GraphChanged, match="keeps its state by key, the snapshot was taken as a whole"):
        restore(fresh(ByKey()), capture(fresh(Words())))


def test_process_is_called_without_rows_too() -> None:
    shard = fresh(Words())
    run_epoch(shard, rows(), context(1))
    run_epoch(shard, rows(), context(2))
    assert shard.epochs == 2


class Fails(Operator):
    def process(self, rows: pa.Table) -> None:
        raise KeyError("price")


def test_a_failure_names_operator_shard_epoch_and_first_rows() -> None:
    with pytest.raises(OperatorFailed) as caught:
        run_epoch(fresh(Fails()), rows("a", "b", "c", "d"), context(7))
    text = str(caught.value)
    assert "operator 'count', shard 3, epoch 7: process raised KeyError: 'price'" in text
    assert "[{'word': 'a'}, {'word': 'b'}, {'word': 'c'}]" in text
    assert isinstance(caught.value.__cause__, KeyError)


class Alarm(Operator):
    fired: list[str] = state(default_factory=list)

    def process(self, rows: pa.Table) -> list[dict[str, Any]]:
        for word in rows.column("word").to_pylist():
            self.context.timers.at_processing_time(word, self.context.time_ms + 1000)
        return [{"word": word, "late": False} for word in rows.column("word").to_pylist()]

    def on_timer(self, timers: Any) -> pa.Table:
        self.fired += [timer.key for timer in timers]
        return pa.table({"word": [timer.key for timer in timers], "late": [True] * len(timers)})


def test_results_of_process_and_of_timers_are_one_table() -> None:
    shard = fresh(Alarm())
    run_epoch(shard, rows("a"), context(1))
    output = run_epoch(shard, rows("b"), context(2))
    assert output is not None
    assert output.to_pylist() == [{"word": "b", "late": False}, {"word": "a", "late": True}]


def test_timers_survive_a_snapshot() -> None:
    one, other = fresh(Alarm()), fresh(Alarm())
    run_epoch(one, rows("z", "a"), context(1))
    restore(other, decode(encode(capture(one))))
    run_epoch(other, rows(), context(2))
    assert other.fired == ["z", "a"]


class Two(Operator):
    def process(self, left: pa.Table, right: pa.Table) -> pa.Table:
        return pa.table({"n": [left.num_rows, right.num_rows]})


def test_several_inputs_come_by_name() -> None:
    output = run_epoch(fresh(Two()), {"right": rows("a")["rows"], "left": rows("b", "c")["rows"]}, context())
    assert output is not None
    assert output.column("n").to_pylist() == [2, 1]


class Holder(Operator):
    data: Any = state(default=None)


def test_state_bytes_of_arrays_is_exact() -> None:
    shard = fresh(Holder())
    shard.data = pa.array(np.zeros(1000))
    assert state_bytes(shard) == 8000
