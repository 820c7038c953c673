"""What is recorded of a run is enough to run it again: a second controller, given the events read back, commands the same."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from perseid.engine import commands as do
from perseid.engine import event_log
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.notices import Outcome
from perseid.engine.rerun import Rerun
from perseid.errors import CorruptData, RootError
from perseid.simulation.scenario import Options, drawn
from perseid.simulation.world import World, event_codec


def recorded(seed: int) -> list[list[dict[str, Any]]]:
    """The logs of all drivers of a run."""
    world = World(drawn(seed, Options(epochs=60)), recorded=True)
    world.run()
    assert world.recordings is not None
    return [[json.loads(line) for line in lines] for lines in world.recordings.values()]


def rerun(lines: Iterable[dict[str, Any]], controller: type[Controller] = Controller) -> tuple[Rerun, list[str]]:
    """Run a log again; what differs."""
    again = Rerun(event_codec(), base64.b64decode, controller)
    return again, [str(step.difference) for step in again.steps(lines) if step.difference is not None]


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Controllers are written often."""
    monkeypatch.setattr(event_log, "STATE_BYTES", 4_000)


@pytest.mark.parametrize("decade", range(5))
def test_a_second_controller_commands_the_same(decade: int) -> None:
    for seed in range(10 * decade, 10 * decade + 10):
        for lines in recorded(seed):
            again, different = rerun(lines)
            assert not different, f"seed {seed}: {different[0]}"
            assert again.run and again.commands and not again.skipped


def test_a_log_without_its_beginning_goes_on_from_a_written_controller(states: None) -> None:
    lines = max(recorded(3), key=len)
    written = [number for number, line in enumerate(lines) if "state" in line]
    assert len(written) >= 2
    again, different = rerun(lines[written[0] // 2 + 1 :])
    assert not different and again.beginnings == 1 and again.skipped > 0 and again.run > 0


def test_a_log_that_is_torn_in_the_middle_goes_on_from_the_next_written_controller(states: None) -> None:
    lines = max(recorded(3), key=len)
    second = [number for number, line in enumerate(lines) if "state" in line][1]
    whole, _ = rerun(lines)
    torn, different = rerun([*lines[: second - 5], *lines[second - 3 :]])
    assert not different and torn.beginnings == 2
    assert 0 < torn.skipped < whole.run and torn.run + torn.skipped == whole.run


def test_a_log_that_is_torn_and_has_no_written_controller_after_it_is_run_up_to_there() -> None:
    (lines, *_) = recorded(5)
    torn, different = rerun([*lines[:40], *lines[41:]])
    assert not different and torn.skipped and torn.controller is None


class Forgetful(Controller):
    """Commits nothing in its fortieth epoch."""

    def handle(self, event: on.Event, now_ms: int) -> tuple[Outcome, ...]:
        outcomes = super().handle(event, now_ms)
        return tuple(o for o in outcomes if not (isinstance(o, do.CommitEpoch) and o.epoch == 40))


class Hasty(Controller):
    """Runs its fortieth epoch as an eager attempt: the same commands, with other contents."""

    def handle(self, event: on.Event, now_ms: int) -> tuple[Outcome, ...]:
        outcomes = super().handle(event, now_ms)
        return tuple(
            do.CommitEpoch(o.unit, type(o.epoch)(41)) if isinstance(o, do.CommitEpoch) and o.epoch == 40 else o
            for o in outcomes
        )


@pytest.mark.parametrize(
    ("broken", "said"), [(Forgetful, "recorded is .*CommitEpoch.*now gives "), (Hasty, "with other contents")]
)
def test_a_changed_controller_is_found_at_the_event_that_it_answers_otherwise(
    broken: type[Controller], said: str
) -> None:
    lines = recorded(2)[0]
    _, different = rerun(lines, broken)
    assert len(different) == 1 and re.search(rf"event \d+, UnitFinished\(.*epoch=40.*: .*{said}", different[0])


def test_a_log_of_another_version_is_refused_with_what_to_do() -> None:
    lines = recorded(2)[0]
    lines[0]["start"][1] = "feedbeef"
    with pytest.raises(RootError, match=r"another version of Perseid: .*feedbeef.*run it again with the version"):
        rerun(lines)


def test_a_line_that_is_not_an_event_is_told_with_its_place() -> None:
    lines = recorded(2)[0]
    place = next(n for n, line in enumerate(lines) if "e" in line and line["e"][2][0] == "UnitFinished")
    lines[place]["e"][2][1] = 7
    with pytest.raises(
        CorruptData, match=r"after event \d+: a line cannot be read: : UnitFinished.unit: expected str, got 7"
    ):
        rerun(lines)


def test_commands_do_not_depend_on_the_process(tmp_path: Path) -> None:
    """Strings hash otherwise in every process: no order of commands may come from a set of them."""
    lines = [recorded(seed)[0] for seed in (7, 11, 13)]
    (tmp_path / "log.json").write_text(json.dumps(lines))
    code = (
        "import base64, json, sys\n"
        "from perseid.engine.rerun import Rerun\n"
        "from perseid.simulation.world import event_codec\n"
        "for lines in json.load(open(sys.argv[1])):\n"
        "    for step in Rerun(event_codec(), base64.b64decode).steps(lines):\n"
        "        assert step.difference is None, step.difference\n"
    )
    for seed in "123":
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "log.json")],
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
