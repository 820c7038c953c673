"""Declaring state."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pytest

from perseid import Operator, state
from perseid.errors import GraphError
from perseid.state.fields import StateField, fields_of


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Point:
    x: int = 0


@dataclass(frozen=True)
class Pool:
    members: list[int] = field(default_factory=list)


class Parent(Operator):
    first: int = state(default=1)
    second: dict[str, int] = state(default_factory=dict)


class Child(Parent):
    third: str = state(default="")
    first: int = state(default=10)


def test_fields_are_inherited_in_order_and_can_be_overridden() -> None:
    assert list(fields_of(Parent)) == ["first", "second"]
    assert list(fields_of(Child())) == ["first", "second", "third"]
    assert fields_of(Child)["first"].initial() == 10


def test_a_subclass_can_take_a_field_away() -> None:
    class Less(Parent):
        second = None  # type: ignore[assignment]

    assert list(fields_of(Less)) == ["first"]


def test_fields_need_no_annotation() -> None:
    class Bare(Operator):
        n = state(default=0)

    assert list(fields_of(Bare)) == ["n"]


def test_a_field_has_its_default_without_an_engine() -> None:
    operator = Parent()
    operator.second["a"] = 1
    operator.first += 1
    assert (operator.first, operator.second) == (2, {"a": 1})
    assert (Parent().first, Parent().second) == (1, {})


def test_the_class_shows_the_declaration() -> None:
    assert isinstance(Parent.first, StateField)
    assert Parent.first.name == "first"


@pytest.mark.parametrize(
    "value",
    [
        0,
        1.5,
        "",
        b"",
        True,
        None,
        (),
        (1, ("a",)),
        frozenset({1}),
        Decimal(1),
        datetime.date(2026, 1, 1),
        Colour.RED,
        Point(),
    ],
)
def test_immutable_defaults_are_taken(value: Any) -> None:
    assert state(default=value).initial() == value


@pytest.mark.parametrize("value", [[], {}, set(), bytearray(), np.zeros(1), ([],), (1, {"a": 1}), Pool()])
def test_mutable_defaults_are_refused(value: Any) -> None:
    with pytest.raises(GraphError, match="can be changed in place") as caught:
        state(default=value)
    assert "default_factory" in str(caught.value)


def test_a_factory_given_as_default_is_refused_with_a_hint() -> None:
    with pytest.raises(GraphError, match=r"write state\(default_factory=dict\)"):
        state(default=dict)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got neither"),
        ({"default": 0, "default_factory": int}, "got both"),
        ({"default_factory": 5}, "expected something to call"),
        ({"default": 0, "sample": 0}, "sample=0"),
        ({"default": 0, "element_size": -1}, "element_size=-1"),
        ({"default": 0, "length": 3}, "length=3"),
        ({"default": 0, "split": "by key"}, "split='by key'"),
    ],
)
def test_other_wrong_declarations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        state(**options)
