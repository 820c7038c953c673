"""The story of a simulated run: the notices that a journal would have (``engine.notices``), as ``perseid replay`` tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine import notices
from perseid.engine.notices import Notice, noticed
from perseid.simulation.faults import Planned, told

Entry = tuple[int, int, object]  # when, which generation of the driver (0: the world), what


def records(log: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    """What is worth telling."""
    for at_ms, generation, what in log:
        for notice in _notices(at_ms, what):
            yield {"at_ms": at_ms, "kind": notice.kind, "generation": generation, **notice.record()}


def _notices(at_ms: int, what: Any) -> Iterator[Notice]:
    """What the shell adds is said by the world here."""
    match what:
        case Planned(fault):
            yield notices.Fault(told(fault))
        case on.HostRegistered(host):
            yield notices.HostReady(host, "-", "simulated")
        case do.CommitCheckpoint(pending):
            size = sum(snapshot.state_bytes for snapshot in pending.saved.values())
            yield notices.CheckpointCommitted(pending.id, size, at_ms - pending.started_ms)
        case do.StopApplication(error, unsaved):
            yield notices.AppStopped(error or "finished", unsaved)
        case _:
            yield from noticed(what)
