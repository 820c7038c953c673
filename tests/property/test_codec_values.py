"""What is written by its type and read back is equal to what it was; what is not of the type is refused with its place."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as some

from perseid.codec import Codec, Mismatch
from perseid.engine import events as on
from perseid.engine.event_log import EventCodec
from perseid.storage.manifest import ShardSnapshot
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, Version

Number = NewType("Number", int)


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Named(Protocol):
    @property
    def name(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    number: Number


@dataclass(frozen=True)
class Branch:
    many: tuple[Leaf, ...]
    pair: tuple[int, str]
    by_shard: Mapping[ShardId, float]
    by_pair: Mapping[tuple[str, int], frozenset[Number]]
    colour: Colour
    word: Literal["yes", "no"]
    maybe: Leaf | None
    text: int | str
    what: Named
    free: Mapping[str, object]
    flag: bool = False
    made: int = field(init=False, default=7)


Tree = Leaf | Branch
CODEC = Codec({Named: Leaf})

numbers = some.integers(-(2**53), 2**53)
leaves = some.builds(Leaf, some.text(), numbers)
shards = some.builds(ShardId, some.text(), some.integers(0, 99))
branches = some.builds(
    Branch,
    some.lists(leaves).map(tuple),
    some.tuples(numbers, some.text()),
    some.dictionaries(shards, some.floats(allow_nan=False)),
    some.dictionaries(some.tuples(some.text(), numbers), some.frozensets(numbers)),
    some.sampled_from(Colour),
    some.sampled_from(["yes", "no"]),
    some.none() | leaves,
    numbers | some.text(),
    leaves,
    some.dictionaries(some.text(), some.none() | numbers | some.lists(some.text())),
    some.booleans(),
)


@given(leaves | branches)
def test_what_is_read_is_what_was_written(tree: Tree) -> None:
    assert CODEC.read(Tree, json.loads(json.dumps(CODEC.write(Tree, tree)))) == tree


@given(some.dictionaries(shards, numbers))
def test_ordered_mappings_are_the_same_text_however_they_were_filled(mapping: dict[ShardId, int]) -> None:
    ordered, kind = Codec(ordered=True), Mapping[ShardId, int]
    assert ordered.write(kind, mapping) == ordered.write(kind, dict(reversed(mapping.items())))


junk = some.recursive(
    some.none() | some.booleans() | numbers | some.text(), lambda inner: some.lists(inner, max_size=4), max_leaves=8
)


@given(junk | junk.map(lambda data: ["Branch", data, [1, "a"]]))
def test_junk_is_refused_or_read_but_never_anything_else(data: Any) -> None:
    try:
        tree = CODEC.read(Tree, data)
    except Mismatch:
        return
    assert CODEC.write(Tree, tree) == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (["Leaf", "a"], ": Leaf: expected the fields name, number, got ['a']"),
        (["Leaf", "a", "b"], ": Leaf.number: expected int, got 'b'"),
        (["Leaf", "a", True], ": Leaf.number: expected int, got True"),
        (["Root"], ": expected one of Branch, Leaf, got ['Root']"),
        (None, ": expected one of Branch, Leaf, got None"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(data: Any, said: str) -> None:
    with pytest.raises(Mismatch) as raised:
        CODEC.read(Tree, data)
    assert str(raised.value) == said


def test_a_type_that_cannot_be_told_is_refused_when_its_codec_is_made() -> None:
    with pytest.raises(TypeError, match="cannot be written"):
        CODEC.writer(bytes)
    with pytest.raises(TypeError, match="cannot be told apart"):
        CODEC.writer(tuple[int, ...] | tuple[str, ...])


def test_the_fingerprint_changes_with_a_field_anywhere_below() -> None:
    codec = Codec({Named: Leaf})
    assert codec.fingerprint(Leaf) == Codec({Named: Leaf}).fingerprint(Leaf) != codec.fingerprint(Branch)
    assert codec.fingerprint(Leaf | Branch) == codec.fingerprint(Branch | Leaf)


def test_every_event_can_be_recorded() -> None:
    codec = EventCodec(ShardSnapshot)
    event = on.ShardsRestored(HostId(3), Version(2), {"read": 5}, {ShardId(OperatorName("count"), 1): Epoch(9)})
    assert codec.write_event is not None
    assert codec.read_event(json.loads(json.dumps(codec.write_event(event)))) == event
    assert codec.version == EventCodec(ShardSnapshot).version
