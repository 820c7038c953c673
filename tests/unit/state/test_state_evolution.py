"""State of one version of the code, read by the next."""

from __future__ import annotations

import dataclasses
import io
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest

from perseid import KeyedOperator, Operator, migrate, moved, state
from perseid.errors import GraphChanged, GraphError
from perseid.state.codec import Unpickler, decode, encode, known_class, learn
from perseid.state.evolution import as_declared, changes
from perseid.state.operator_state import fresh
from perseid.state.shape import StateShape, shape_of
from perseid.state.shard_state import ShardState, checkpoint_state, restore_state
from perseid.storage.persisted import header_of, state_of
from perseid.vocabulary import Epoch, OperatorName, ShardId


class First(Operator):
    total: int = state(default=0)
    names: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None: ...


class Second(Operator):
    total: float = state(default=0.0)
    people: dict[str, int] = state(default_factory=dict, was="names")
    seen: int = state(default=7)

    def process(self, rows: Any) -> None: ...


class Third(Operator):
    state_version = 3
    cents: int = state(default=0)
    people: dict[str, int] = state(default_factory=dict)

    @migrate(from_version=1)
    def in_cents(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        return {"cents": fields["total"] * 100, "names": fields["names"]}

    @migrate(from_version=2)
    def renamed(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
        return {"cents": fields["cents"], "people": fields["names"]}

    def process(self, rows: Any) -> None: ...


class PerKeyFirst(KeyedOperator):
    n: int = state(default=0)
    gone: str = state(default="")

    def process_key(self, key: Any, rows: Any) -> None: ...


class PerKeySecond(KeyedOperator):
    best: int = state(default=-1)
    n: int = state(default=0)

    def process_key(self, key: Any, rows: Any) -> None: ...


def written() -> ShardState:
    """As a snapshot holds it: header and buffers."""
    operator = fresh(First())
    operator.total, operator.names = 3, {"ada": 1}
    saved = checkpoint_state(operator, Epoch(5))
    header = header_of(ShardId(OperatorName("sum"), 0), saved)
    return state_of(header, [memoryview(bytes(piece)) for piece in encode(saved.processing)])


def test_a_snapshot_says_what_its_fields_are() -> None:
    shape = written().shape
    assert shape is not None and shape == shape_of(First) and shape.version == 1
    assert shape.fields["total"].type == "int" and shape.fields["total"].of == "builtins:int"
    assert StateShape.from_json(shape.to_json()) == shape


def test_a_new_field_a_renamed_one_and_a_wider_number() -> None:
    now = restore_state(Second(), as_declared(written(), Second(), "sum"))
    assert (now.total, type(now.total), now.people, now.seen) == (3.0, float, {"ada": 1}, 7)
    assert [change.text for change in changes(shape_of(First), shape_of(Second))] == [
        "state field 'total' was int, is now float: its values are taken over",
        "state field 'names' is now 'people'",
        "state field 'seen' is new and begins with 7",
    ]


def test_fields_of_every_key_come_and_go() -> None:
    operator = fresh(PerKeyFirst())
    operator._keyed.values.update({"a": (1, "x"), "b": (2, "y")})
    now = restore_state(PerKeySecond(), as_declared(checkpoint_state(operator, Epoch(1)), PerKeySecond(), "n"))
    assert now._keyed.values == {"a": (-1, 1), "b": (-1, 2)}


def test_migrations_run_one_after_the_other() -> None:
    now = restore_state(Third(), as_declared(written(), Third(), "sum"))
    assert (now.cents, now.people) == (300, {"ada": 1})


def test_a_migration_that_raises_is_named() -> None:
    class Raises(Third):
        @migrate(from_version=1)
        def in_cents(fields: dict[str, Any]) -> dict[str, Any]:  # type: ignore[misc]
            raise KeyError("euros")

    with pytest.raises(
        GraphChanged, match=r"'sum'.*migration from version 1 raised KeyError: 'euros'.*Nothing was written"
    ):
        as_declared(written(), Raises(), "sum")


def test_a_version_that_is_newer_than_the_code_is_refused() -> None:
    newer = dataclasses.replace(shape_of(First), version=4)
    (change,) = changes(newer, shape_of(Third))
    assert change.refused and "newer than the code's 3" in change.text
    with pytest.raises(GraphChanged, match=r"version 4, the code 3"):
        as_declared(dataclasses.replace(written(), shape=newer), Third(), "sum")


def test_another_type_needs_a_migration() -> None:
    class Text(First):
        total: str = state(default="")  # type: ignore[assignment]  # that is what is tested

    (change,) = changes(shape_of(First), shape_of(Text))
    assert change.refused and "@migrate(from_version=1)" in change.text


@dataclass
class Account:
    owner: str
    tags: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Slim:
    owner: str
    limit: int = 5


@dataclass(slots=True)
class Thin:
    owner: str


def test_objects_of_a_dataclass_get_the_defaults_of_new_attributes() -> None:
    account = object.__new__(Account)
    account.__dict__["owner"] = "ada"
    data = pickle.dumps([account, Plain(account)], 5)
    (again, _) = Unpickler(io.BytesIO(data)).load()
    assert again == Account("ada", [])
    before = pickle.dumps(Thin("ada"), 5).replace(b"Thin", b"Slim")  # an object of the class when it had one attribute
    assert Unpickler(io.BytesIO(before)).load() == Slim("ada", 5)


@dataclass
class Plain:
    of: Account


def test_a_class_that_has_moved_is_found_where_it_is() -> None:
    data = [bytes(piece) for piece in encode({"fields": {"x": Plain(Account("ada"))}})]
    data[0] = data[0].replace(b"Plain", b"Mopsy")
    moved(f"{__name__}:Mopsy", Plain)
    assert decode(data)["fields"]["x"] == Plain(Account("ada"))
    with pytest.raises(GraphError, match=r"old\.module:Class"):
        moved("nonsense", Plain)


def test_classes_of_one_name_that_know_one_another_are_all_looked_at() -> None:
    class Again(First): ...

    class Other(First):
        also = Again

    Again.also = Other  # type: ignore[attr-defined]
    Again.__qualname__ = Other.__qualname__ = "Twice"
    learn(Again)
    assert known_class(Again.__module__, "Twice") is Again
