"""Requests on the root are taken up once and answered, whatever they ask for."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from perseid.driver.root_requests import RootRequests
from perseid.driver.scale_requests import ScaleRequests
from perseid.driver.state_requests import StateRequests, TakenCheckpoint
from perseid.engine import events as on
from perseid.errors import NoAnswer, RequestFailed
from perseid.standby.modes import Standby
from perseid.storage import requests
from perseid.storage.store import Store


class Scale:
    def __init__(self) -> None:
        self.taken: list[str] = []

    def take_up(self, store: Store, name: str, wish: Any) -> None:
        self.taken.append(wish["scale"])


class State:
    def __init__(self, store: Store) -> None:
        self.store, self.fails = store, False

    def standby(self, operator: str, standby: Standby, timeout_s: float) -> str:
        return "" if operator == "count" else f"{operator} has no state"

    def checkpoint(self, timeout_s: float) -> TakenCheckpoint:
        if self.fails:
            raise RequestFailed("the disk is full")
        return TakenCheckpoint(7, {"main": 4}, (), self.store)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path))


def answered(store: Store, name: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while True:
        try:
            return requests.wait(store, name, 1)
        except NoAnswer:
            assert time.monotonic() < until


def test_each_kind_goes_to_who_knows_it_and_is_taken_up_once(store: Store) -> None:
    scale, state, posted = Scale(), State(store), list[on.Event]()
    looking = RootRequests(cast(ScaleRequests, scale), cast(StateRequests, state), posted.append)
    names = [
        requests.ask(store, wish) for wish in ({"scale": "count", "shards": 2}, {"checkpoint": True}, {"stop": True})
    ]
    looking.look(store)
    looking.look(store)
    assert scale.taken == ["count"] and posted == [on.StopRequested()]
    assert answered(store, names[1]) == {"checkpoint": {"id": 7, "bytes": 0, "epochs": {"main": 4}}}
    assert answered(store, names[2]) == {"stopping": True}


def test_what_fails_or_is_unknown_is_answered_too(store: Store) -> None:
    state = State(store)
    state.fails = True
    looking = RootRequests(cast(ScaleRequests, Scale()), cast(StateRequests, state), lambda event: None)
    failing, unknown = requests.ask(store, {"checkpoint": True}), requests.ask(store, {"fly": 1})
    looking.look(store)
    assert answered(store, failing) == {"error": "the disk is full"}
    assert "unknown request ['fly']" in answered(store, unknown)["error"]


@pytest.mark.parametrize(
    ("operator", "mode", "said"),
    [
        ("count", "hybrid", {"standby": {"operator": "count", "mode": "hybrid", "nothing": ""}}),
        ("split", "hybrid", {"standby": {"operator": "split", "mode": "hybrid", "nothing": "split has no state"}}),
    ],
)
def test_another_standby_is_answered_with_what_holds(store: Store, operator: str, mode: str, said: Any) -> None:
    looking = RootRequests(cast(ScaleRequests, Scale()), cast(StateRequests, State(store)), list[on.Event]().append)
    name = requests.ask(store, {"standby": operator, "mode": mode})
    looking.look(store)
    assert answered(store, name) == said


def test_an_unknown_standby_is_an_error(store: Store) -> None:
    looking = RootRequests(cast(ScaleRequests, Scale()), cast(StateRequests, State(store)), list[on.Event]().append)
    name = requests.ask(store, {"standby": "count", "mode": "passiv"})
    looking.look(store)
    assert "did you mean 'passive'" in answered(store, name)["error"]
