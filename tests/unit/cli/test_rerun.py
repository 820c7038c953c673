"""``perseid replay --verify`` and ``--at`` over a recorded run."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from perseid.cli.main import app
from perseid.engine import commands as do
from perseid.engine import event_log
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.event_log import EventLog
from perseid.engine.notices import Outcome
from perseid.simulation.root import Snapshot
from perseid.simulation.scenario import Options, drawn
from perseid.simulation.world import World, event_codec
from perseid.storage import layout
from perseid.storage.events import EventSeal
from perseid.storage.journal import Journal
from perseid.storage.journal_segments import Limits, segments
from perseid.storage.root_key import own_key
from perseid.storage.store import Store
from perseid.vocabulary import Generation


class Recorded(World):
    """A simulated run whose events go where a driver writes them."""

    def __init__(self, store: Store, seed: int, limits: Limits) -> None:
        self.store, self.limits, self.journals = store, limits, list[Journal]()
        super().__init__(drawn(seed, Options(epochs=60)), recorded=True)

    def event_log(self, generation: int) -> EventLog:
        journal = Journal(
            self.store,
            Generation(generation),
            now_ms=lambda: self.clock.now_ms,
            limits=self.limits,
            folder=layout.EVENTS,
        )
        self.journals.append(journal)

        def add(line: bytes) -> None:
            journal.add(line)
            if len(self.journals) == generation:
                journal.flush()

        return EventLog(event_codec(), add, EventSeal(self.store).seal)


SMALL = Limits(keep_bytes=60_000, segment_bytes=8_000)
"""Most of what was recorded is dropped again."""


@pytest.fixture
def recorded(tmp_path: Path, once: Callable[[Limits], Path]) -> Callable[..., Store]:
    """A root of one's own with the events of a run; with few of them under other limits."""

    def copied(limits: Limits = Limits()) -> Store:  # noqa: B008
        shutil.copytree(once(limits), tmp_path, dirs_exist_ok=True)
        return Store.at(str(tmp_path))

    return copied


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Limits], Path]:
    return cache(lambda limits: record(tmp_path_factory.mktemp("recorded"), limits))


def record(path: Path, limits: Limits) -> Path:
    store = Store.at(str(path))
    own_key(store)
    store.write("app.json", [b"{}"])
    world = Recorded(store, 3, limits)
    world.run()
    for journal in world.journals:
        journal.close()
    return path


@pytest.fixture(autouse=True)
def simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root is that of a simulation."""
    monkeypatch.setattr("perseid.cli.rerun.ShardSnapshot", Snapshot)
    monkeypatch.setattr(event_log, "STATE_BYTES", 10_000)


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def replayed(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"COLUMNS": "100", "TZ": "UTC"})


def test_a_recorded_run_is_verified(recorded: Callable[..., Store], tmp_path: Path) -> None:
    recorded()
    result = replayed(tmp_path, "--verify")
    assert result.exit_code == 0 and "all as recorded" in result.output
    told = json.loads(replayed(tmp_path, "--verify", "--json").stdout)
    assert told["difference"] is None and told["not_run"] == 0 and told["events"] > told["commands"] > 0


def test_a_run_whose_beginning_was_dropped_is_verified_from_a_written_controller(
    recorded: Callable[..., Store], tmp_path: Path
) -> None:
    store = recorded(SMALL)
    assert segments(store, layout.EVENTS)[0].part > 1, "the first is gone"
    result = replayed(tmp_path, "--verify")
    assert result.exit_code == 0, result.output
    assert "cannot be run again: their beginning was dropped" in result.output and "all as recorded" in result.output


def test_a_journal_torn_in_the_middle_is_verified_as_far_as_it_can_be(
    recorded: Callable[..., Store], tmp_path: Path
) -> None:
    store = recorded()
    (segment, *_) = segments(store, layout.EVENTS)
    data = store.read(segment.path)
    torn = data.index(b'"e":', len(data) // 2)
    store.write(segment.path, [data[:torn], data[torn + 300 :]])
    result = replayed(tmp_path, "--verify")
    assert result.exit_code == 0 and "lines are missing" in result.output.replace("\n", " ")


def test_a_changed_controller_is_told_with_its_event_and_exit_code(
    recorded: Callable[..., Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(Controller):
        def handle(self, event: on.Event, now_ms: int) -> tuple[Outcome, ...]:
            outcomes = super().handle(event, now_ms)
            return tuple(o for o in outcomes if not (isinstance(o, do.CommitEpoch) and o.epoch == 30))

    recorded()
    monkeypatch.setattr("perseid.cli.rerun.CONTROLLER", Silent)
    result = replayed(tmp_path, "--verify")
    assert result.exit_code == 1
    assert "UnitFinished(" in result.output and "recorded is CommitEpoch" in result.output


def test_a_forged_controller_is_not_unpickled(recorded: Callable[..., Store], tmp_path: Path) -> None:
    store = recorded(SMALL)
    store.delete(layout.KEY)
    own_key(Store.at(str(tmp_path)))  # of another application
    result = replayed(tmp_path, "--verify")
    assert result.exit_code != 0 and "a written controller fails its hash" in result.output.replace("\n", " ")


@pytest.mark.parametrize("when", ["+3s", "+0:03", "1970-01-01T00:00:03", "1970-01-01 00:00:03.0", "00:00:03"])
def test_what_the_controller_knew_at_a_moment(
    recorded: Callable[..., Store], tmp_path: Path, when: str, utc: None
) -> None:
    recorded()
    known = json.loads(replayed(tmp_path, "--at", when, "--json").stdout)
    assert "1970-01-01 00:00:02.9" < known["at"] <= "1970-01-01 00:00:03.000"
    assert known["phase"] in ("starting", "recovering", "running")
    text = replayed(tmp_path, "--at", when).output
    assert "phase" in text and "checkpoint" in text and "last events" in text and "host " in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--at", "noon"), "--at noon: expected a time of day"),
        (("--at", "1969-01-01T00:00:00"), "what is recorded begins at"),
        (("--verify", "--follow"), "--verify and --at stand alone"),
        (("--verify", "--at", "+1s"), "--verify and --at stand alone"),
    ],
)
def test_bad_input_is_told(
    recorded: Callable[..., Store], tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    recorded()
    result = replayed(tmp_path, *arguments)
    assert result.exit_code != 0 and said in result.output.replace("\n", " ")


def test_a_root_without_events_is_told(tmp_path: Path) -> None:
    Store.at(str(tmp_path)).write("app.json", [b"{}"])
    result = replayed(tmp_path, "--verify")
    assert result.exit_code != 0 and "no events are recorded there" in result.output


def test_a_newer_version_is_refused_with_what_to_do(recorded: Callable[..., Store], tmp_path: Path) -> None:
    store = recorded()
    for segment in segments(store, layout.EVENTS):
        data = store.read(segment.path)
        store.write(segment.path, [data.replace(event_codec().version.encode(), b"0123456789ab")])
    result: Any = replayed(tmp_path, "--verify")
    assert result.exit_code != 0 and "another version of Perseid" in result.output.replace("\n", " ")
