"""Wishes to scale: what cannot be is refused at once, with words that help; nothing reaches the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perseid import App, Operator, state
from perseid.driver.loads import Loads
from perseid.driver.scale_requests import ScaleRequests
from perseid.engine import events as on
from perseid.engine import notices
from perseid.errors import ScaleFailed
from perseid.scaling.routing import RoutingTable, even_slots, numbered
from perseid.storage import requests
from perseid.storage.store import Store
from perseid.vocabulary import OperatorName


class Source:
    kind = "none"

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Count(Operator):
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None: ...


class Hoard(Operator):
    hoard: list[int] = state(default_factory=list)

    def process(self, rows: Any) -> None: ...


@pytest.fixture
def asked() -> list[on.Event]:
    return []


@pytest.fixture
def scales(asked: list[on.Event]) -> ScaleRequests:
    app = App("words")
    words = app.source("lines", Source()).transform("split", lambda df: df)
    words.stateful("count", Count(), key="word", output="n long").sink("out", Source())
    words.stateful("hoard", Hoard(), key="word", output="n long").sink("out-2", Source())
    routing = RoutingTable.initial({OperatorName(name): numbered(even_slots(2)) for name in ("count", "hoard")})
    return ScaleRequests(app.graph, Loads(), lambda: routing, asked.append)


@pytest.mark.parametrize(
    ("operator", "shards", "words"),
    [
        ("count", 0, "shards=0: expected a number from 1 to 256"),
        ("count", -3, "from 1 to 256"),
        ("count", 257, "from 1 to 256"),
        ("count", 2.5, "from 1 to 256"),
        ("count", True, "from 1 to 256"),
        ("cuont", 4, "no operator 'cuont' to scale; stateful operators: 'count', 'hoard'"),
        ("split", 4, "'split' is a transform and has no state"),
        ("lines", 4, "'lines' is a source and has no state"),
        ("hoard", 4, r"field 'hoard' is a list, not a dict by key.*split=function"),
    ],
)
def test_what_cannot_be_scaled_is_refused_with_words_that_help(
    scales: ScaleRequests, asked: list[on.Event], operator: str, shards: Any, words: str
) -> None:
    with pytest.raises(ScaleFailed, match=words):
        scales.ask(operator, shards)
    assert not asked, "the controller hears nothing of it"


def test_whoever_asked_hears_how_it_ended(scales: ScaleRequests, asked: list[Any]) -> None:
    one, other = scales.ask("count", 4), scales.ask("count", 2)
    scales.told(notices.ScaleGivenUp(asked[0].request, "a host died", again=True))
    assert not one.done(), "another attempt follows"
    scales.told(notices.Scaled(asked[0].request, 2, 40, 3_000))
    scales.told(notices.ScaleGivenUp(asked[1].request, "'count' is being scaled", again=False))
    done = one.result(0)
    assert (done.operator, done.before, done.shards, done.pause_ms, done.duration_ms) == ("count", 2, 4, 40, 3_000)
    with pytest.raises(ScaleFailed, match="keeps its shards: 'count' is being scaled"):
        other.result(0)


def test_nobody_waits_for_an_application_that_has_ended(scales: ScaleRequests) -> None:
    future = scales.ask("count", 4)
    scales.ended(None)
    with pytest.raises(ScaleFailed, match="the application has ended"):
        future.result(0)


def test_wishes_on_the_root_are_answered(scales: ScaleRequests, asked: list[Any], tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    good, bad = (requests.ask(store, {"scale": name, "shards": 4}) for name in ("count", "nobody"))
    for name, wish in requests.pending(store):
        scales.take_up(store, name, wish)
    assert len(asked) == 1
    assert "no operator 'nobody'" in requests.wait(store, bad, 0)["error"]
    assert [name for name, _ in requests.pending(store)] == [good]
    scales.told(notices.Scaled(asked[0].request, 2, 40, 3_000))
    assert requests.wait(store, good, 0)["scaled"]["pause_ms"] == 40
    assert requests.pending(store) == []
