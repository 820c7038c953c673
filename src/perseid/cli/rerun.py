"""``perseid replay ROOT --verify`` and ``--at``: the real controller over what was recorded of a run (``engine.rerun``)."""

from __future__ import annotations

import json
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from perseid.cli.figures import count, counted
from perseid.cli.knowledge import knowledge, lines
from perseid.engine.controller import Controller
from perseid.engine.event_log import EventCodec
from perseid.engine.rerun import Rerun, Step
from perseid.errors import RootError, SettingsError
from perseid.storage.events import EventSeal, read_events
from perseid.storage.journal import read_journal
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.store import Store

LAST_EVENTS = 8
CONTROLLER = Controller
DAY_MS = 24 * 3_600_000

_SINCE = re.compile(r"\+(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)s?")
_OF_DAY = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


def verify(root: str, store: Store, *, as_json: bool) -> bool:
    """Run all that is recorded again. Tells how much, and the first event that is answered otherwise; returns whether there is none."""
    again = _rerun(root, store)
    records = _recorded(root, store)
    different = next((step.difference for step in again.steps(records) if step.difference is not None), None)
    if as_json:
        told = {
            "events": again.run,
            "commands": again.commands,
            "not_run": again.skipped,
            "beginnings": again.beginnings,
        }
        print(json.dumps(told | {"difference": str(different) if different is not None else None}))
        return different is None
    console = Console(highlight=False)
    ran = f"{counted(again.run, 'event')} run again, {counted(again.commands, 'command')}"
    if again.skipped:
        console.print(
            Text(
                f"{counted(again.skipped, 'event')} cannot be run again: their beginning was dropped (journal_size, journal_age) or lines"
                " are missing; the run goes on from the next controller that was written",
                "yellow",
            ),
            soft_wrap=True,
        )
    if not again.run and different is None:
        raise RootError(f"{root}: nothing can be run again: no start and no written controller is left")
    if different is None:
        console.print(Text(f"{ran}: all as recorded", "bold green"))
        return True
    console.print(Text(f"{ran}, and then it differs at {_clock(different.date_ms)}:", "bold red"))
    console.print(Text(str(different)), soft_wrap=True)
    return False


def show_at(root: str, store: Store, when: str, *, as_json: bool) -> None:
    """What the controller knew at a moment."""
    records = _recorded(root, store)
    begins = [
        _Beginning(place, *_walls(record)) for place, record in enumerate(records) if not record.keys() & {"e", "q"}
    ]
    if not begins:
        raise RootError(f"{root}: nothing can be run again: no start and no written controller is left")
    at_ms = _moment(when, root, store, begins, records)
    before = [begin for begin in begins if begin.date_ms <= at_ms]
    if not before:
        raise RootError(f"{root}: --at {when}: what is recorded begins at {_clock(begins[0].date_ms)}")
    again, seen = _rerun(root, store), deque[Step](maxlen=LAST_EVENTS)
    last: Step | None = None
    for step in again.steps(records[before[-1].place :], at_ms):
        last = step
        if step.outcomes or (
            step.event is not None and type(step.event).__name__ not in ("Ticked", "HeartbeatArrived")
        ):
            seen.append(step)
    assert again.controller is not None and last is not None
    known = knowledge(again.controller, last.at_ms)
    known["at"], known["last_events"] = _clock(last.date_ms), [_told(step) for step in seen]
    if as_json:
        print(json.dumps(known, default=str))
        return
    console = Console(highlight=False)
    console.print(Text(f"at {_clock(last.date_ms)}, after event {count(last.number)}", "bold"))
    for name, text in lines(known):
        line = Text(f"{name:>12}  ", "cyan")
        line.append(text, "yellow" if name == "trouble" else "")
        console.print(line, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A record from which events can be run."""

    place: int
    now_ms: int
    date_ms: int


def _walls(record: dict[str, Any]) -> tuple[int, int]:
    head = record.get("start") or record.get("state") or [0, 0, 0, 0]
    return int(head[2]), int(head[3])


def _moment(when: str, root: str, store: Store, begins: Sequence[_Beginning], records: Sequence[dict[str, Any]]) -> int:
    """A moment as people write it, on the wall clock."""
    if (since := _SINCE.fullmatch(when)) is not None:
        hours, minutes, seconds = (float(part or 0) for part in since.groups())
        first = next((int(record["at_ms"]) for record in read_journal(store)), begins[0].date_ms)
        return first + round(1000 * (3600 * hours + 60 * minutes + seconds))
    if (of_day := _OF_DAY.fullmatch(when)) is not None:
        hours, minutes, seconds = (float(part or 0) for part in of_day.groups())
        into_ms = round(1000 * (3600 * hours + 60 * minutes + seconds))
        end = _end_ms(begins, records)
        day = time.localtime(end / 1000)
        midnight_ms = round(time.mktime((*day[:3], 0, 0, 0, 0, 0, -1)) * 1000)
        return midnight_ms + into_ms if midnight_ms + into_ms <= end + 60_000 else midnight_ms + into_ms - DAY_MS
    for form in ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"):
        whole, _, fraction = when.partition(".")
        try:
            return round(time.mktime(time.strptime(whole, form)) * 1000) + round(1000 * float(f"0.{fraction or 0}"))
        except ValueError:
            continue
    raise SettingsError(
        f"--at {when}: expected a time of day (12:31:05), a date and time (2026-11-18T12:31:05), or a time since the beginning of the"
        " journal (+12.5s, +1:02:12.5)"
    )


def _end_ms(begins: Sequence[_Beginning], records: Sequence[dict[str, Any]]) -> int:
    """When the newest record was made."""
    last = begins[-1]
    at_ms = next((r[k][1] for r in reversed(records[last.place :]) for k in ("e", "q") if k in r), last.now_ms)
    return last.date_ms + int(at_ms) - last.now_ms


def _recorded(root: str, store: Store) -> list[dict[str, Any]]:
    records = list(read_events(store))
    if not records:
        raise RootError(
            f"{root}: no events are recorded there: no application has run on it yet, or one of an older version of Perseid"
        )
    return records


def _rerun(root: str, store: Store) -> Rerun:
    return Rerun(EventCodec(ShardSnapshot), EventSeal(store).unseal, CONTROLLER, where=root)


def _told(step: Step) -> str:
    names = ", ".join(type(outcome).__name__ for outcome in step.outcomes)
    return f"{_clock(step.date_ms)[11:]}  {step.event}" + (f" → {names}" if names else "")


def _clock(date_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(date_ms / 1000)) + f".{date_ms % 1000:03d}"
