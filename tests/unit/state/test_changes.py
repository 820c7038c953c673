"""What changed since a state was sent, applied to what was sent, makes the state of now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perseid import KeyedOperator, Operator, state
from perseid.state import codec
from perseid.state.changes import SMALL, Changed, Sent, Slid, apply, changes
from perseid.state.operator_state import capture, fresh


class Holder(Operator):
    counts: dict[int, Any] = state(default_factory=dict)
    window: list[Any] = state(default_factory=list)

    def process(self, rows: pa.Table) -> None: ...


class ByKey(KeyedOperator):
    seen: list[int] = state(default_factory=list)

    def process_key(self, key: int, rows: pa.Table) -> Iterator[Any]:
        yield from ()


class Pair:
    """A state, and its copy."""

    def __init__(self) -> None:
        self.mine, self.copy = fresh(Holder()), fresh(Holder())
        self.sent: Sent | None = None

    def send(self) -> dict[str, Any]:
        """What was sent."""
        changed, self.sent = changes(self.mine, self.sent)
        apply(self.copy, codec.decode([bytes(piece) for piece in codec.encode(changed)]))
        assert capture(self.copy)["fields"] == capture(self.mine)["fields"]
        fields: dict[str, Any] = changed["fields"]
        return fields


def test_a_window_that_slides_sends_what_is_new() -> None:
    pair = Pair()
    pair.mine.window = [bytes([n]) * 1_000 for n in range(50)]
    assert len(pair.send()["window"]) == 50
    pair.mine.window = [*pair.mine.window[3:], b"new"]
    assert pair.send()["window"] == Slid(3, 47, [b"new"])
    pair.mine.window.append(b"newer")
    assert pair.send()["window"] == Slid(0, 48, [b"newer"])
    pair.mine.window[10] = b"other"
    assert pair.send()["window"].kept == 10
    pair.mine.window = []
    assert pair.send()["window"] == []


def test_entries_that_can_be_changed_in_place_are_sent_whole() -> None:
    pair = Pair()
    inner = [1]
    pair.mine.window, pair.mine.counts = [inner], dict.fromkeys(range(SMALL), inner)
    pair.send()
    inner.append(2)
    sent = pair.send()
    assert sent["window"] == [inner] and not isinstance(sent["counts"], Changed)


def test_of_a_large_dict_the_keys_that_changed_are_sent() -> None:
    pair = Pair()
    pair.mine.counts = {n: 10_000 + n for n in range(2 * SMALL)}
    pair.send()
    pair.mine.counts[5] = 77_777
    del pair.mine.counts[6]
    assert pair.send()["counts"] == Changed({5: 77_777}, [6])


EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 2 * SMALL), st.integers(0, 9)),
        st.tuples(st.just("gone"), st.integers(0, 2 * SMALL), st.just(0)),
        st.tuples(st.just("append"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("slide"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("set"), st.integers(0, 40), st.integers(0, 3)),
        st.tuples(st.just("send"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(EDITS)
def test_whatever_happens_the_copy_is_as_the_state(edits: list[tuple[str, int, int]]) -> None:
    pair = Pair()
    pair.mine.counts = {n: n for n in range(SMALL)}
    pair.send()
    for what, number, value in edits:
        match what:
            case "put":
                pair.mine.counts[number] = value
            case "gone":
                pair.mine.counts.pop(number, None)
            case "append":
                pair.mine.window.append(number)
            case "slide":
                pair.mine.window = pair.mine.window[number:]
            case "set":
                if number < len(pair.mine.window):
                    pair.mine.window[number] = value
            case _:
                pair.send()
    pair.send()


@pytest.mark.parametrize("entry", [float("nan"), None, 2**80])
def test_values_are_compared_as_objects(entry: Any) -> None:
    pair = Pair()
    pair.mine.window = [entry, 1]
    changes(pair.mine, None)
    pair.sent = changes(pair.mine, None)[1]
    assert changes(pair.mine, pair.sent)[0]["fields"]["window"] == Slid(0, 2, [])


def test_fields_of_keys_are_sent_by_key() -> None:
    mine, copy = fresh(ByKey()), fresh(ByKey())
    sent = None
    for _ in range(2):
        changed, sent = changes(mine, sent)
        apply(copy, codec.decode([bytes(piece) for piece in codec.encode(changed)]))
    assert capture(copy)["keyed"]["values"] == capture(mine)["keyed"]["values"]
