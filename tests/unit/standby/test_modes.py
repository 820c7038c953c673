"""What users may say of standby, and what is refused."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

from perseid import every
from perseid.errors import SettingsError
from perseid.standby import modes
from perseid.standby.modes import Standby, active, hybrid, none, passive, standby_mode


def test_the_examples_are_true() -> None:
    assert doctest.testmod(modes).failed == 0


def test_the_defaults_are_the_papers() -> None:
    mode = hybrid()
    assert (mode.heartbeat.ms, mode.misses, mode.give_up.ms, mode.refresh.ms) == (100, 1, 20_000, 500)
    assert passive().misses == 3
    assert (none().misses, active().misses) == (None, None)
    assert none().share == 1


@pytest.mark.parametrize(
    ("mode", "guards", "refreshes"),
    [(none(), False, False), (active(), True, False), (passive(), True, True), (hybrid(), True, True)],
)
def test_a_mode_says_what_it_needs(mode: Standby, guards: bool, refreshes: bool) -> None:
    assert (mode.guards, mode.refreshes) == (guards, refreshes)


@pytest.mark.parametrize("make", [none, active, passive, hybrid])
def test_a_name_is_the_mode_with_its_defaults(make: Callable[[], Standby]) -> None:
    assert standby_mode(make().mode) == make()
    assert standby_mode(make()) == make()


def test_a_mode_reads_as_the_call_that_makes_it() -> None:
    mode = hybrid(heartbeat=0.05, give_up=every(seconds=5), share=3)
    assert repr(mode) == "hybrid(heartbeat=every(seconds=0.05), give_up=every(seconds=5), share=3)"
    assert eval(repr(mode), {"hybrid": hybrid, "every": every}) == mode


@pytest.mark.parametrize("make", [active, passive, hybrid])
def test_a_heartbeat_under_20_ms_is_refused(make: Callable[..., Standby]) -> None:
    assert make(heartbeat=every(milliseconds=20)).heartbeat.ms == 20
    with pytest.raises(SettingsError, match=r"expected at least 20 ms, got 19 ms; a busy machine"):
        make(heartbeat=every(milliseconds=19))


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (hybrid, {"heartbeat": 1, "give_up": 1}, "two heartbeats of 1 s"),
        (hybrid, {"give_up": 0}, "give_up=0.*above zero"),
        (hybrid, {"refresh": True}, "refresh=True"),
        (hybrid, {"refresh": "500"}, "refresh='500'"),
        (hybrid, {"share": 0}, "share=0.*at least 1"),
        (active, {"share": True}, "share=True"),
        (passive, {"share": 1.5}, r"share=1\.5"),
        (standby_mode, {"mode": "hybird"}, "did you mean 'hybrid'"),
        (standby_mode, {"mode": "x"}, "one of perseid.standby's functions"),
        (standby_mode, {"mode": None}, "standby=None"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[..., Standby], given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        make(**given)
