"""The event log: every event that the controller was given, with its time, so that the run can be run again (``rerun``).

The controller is pure: what made it and its events are all there is to know. A log is a sequence of JSON objects, one a line:

    {"start": …}   a controller was made: of what, and the time of the steady clock and of the wall clock
    {"state": …}   the controller itself, sealed: a log whose beginning was dropped goes on from here
    {"e": [number, ms, event, commands, digest]}   an event, and what the controller answered, where it answered
    {"q": [number, ms, …]}   nothing but ticks (-1 - ms since the last) and heartbeats (ms since the last, host)

Invariant: events are numbered without gaps, and what is read back is equal to what the controller was given. The digest runs over all
commands since the controller was made, and is the same in every process.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from perseid.checkpoint.lifecycle import SavedShard
from perseid.checkpoint.schemes import KnownScheme, Scheme
from perseid.codec import Codec
from perseid.engine import events as on
from perseid.engine.commands import Command
from perseid.engine.controller import Controller
from perseid.engine.notices import Notice, Outcome
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.graph.topology import Topology
from perseid.scaling.routing import RoutingTable

FORMAT = 1
"""Of the lines. What events and commands are made of has a fingerprint of its own."""

QUIET = 512
"""So many numbers of ticks and heartbeats go into one line."""

STATE_BYTES = 1 << 20
"""After so many bytes of events the controller itself is written."""


class Seal(Protocol):
    """Proves who wrote a state: it is unpickled when it is read."""

    def __call__(self, data: bytes) -> str: ...


class EventCodec:
    """Events and what makes a controller, as JSON and back. ``saved`` is the class that stands for a shard's snapshot."""

    def __init__(self, saved: type) -> None:
        stands_for: dict[Any, Any] = {SavedShard: saved, Scheme: KnownScheme}
        self.values = Codec(stands_for)
        self.version = self.values.fingerprint(on.Event, Command, Topology, EngineSettings, RootHistory)
        self._table: RoutingTable | None = None
        self._table_digest = 0
        # Of commands only the digest is wanted: a table is in many of them, and mappings may be filled in any order.
        self._tables = Codec(stands_for, ordered=True)
        self._commands = Codec(stands_for, {RoutingTable: self._digest_of_table}, ordered=True)
        self._write_commands = self._commands.writer(tuple[Command, ...])
        self.write_event = self.values.writer(on.Event)
        self.read_event = self.values.reader(on.Event)

    def _digest_of_table(self, table: RoutingTable) -> int:
        if table is not self._table:
            self._table, self._table_digest = table, zlib.crc32(_json(self._tables.write(RoutingTable, table)))
        return self._table_digest

    def digest(self, commands: Sequence[Command], before: int) -> int:
        """Of these commands and all before them."""
        assert self._write_commands is not None
        return zlib.crc32(_json(self._write_commands(commands)), before)


def commands_of(outcomes: Sequence[Outcome]) -> tuple[Command, ...]:
    """What is to be done, without what people are told."""
    return tuple([outcome for outcome in outcomes if not isinstance(outcome, Notice)])


class EventLog:
    """Writes the log of one controller. Used by the controller's thread alone; ``write`` must not wait for storage."""

    def __init__(self, codec: EventCodec, write: Callable[[bytes], None], seal: Seal | None) -> None:
        """Without ``seal`` no states are written: the log can be run again from its start alone."""
        self._codec, self._write, self._seal = codec, write, seal
        self._number = 0  # of the last event
        self._digest = 0
        self._quiet: list[int] = []  # its first event's number, the time before it, then ticks and heartbeats
        self._quiet_ms = 0  # the time of its last event
        self._bytes = 0  # since the last state

    @property
    def events(self) -> int:
        return self._number

    def started(
        self, topology: Topology, settings: EngineSettings, past: RootHistory, now_ms: int, date_ms: int
    ) -> None:
        """A controller was made of this."""
        write = self._codec.values.write
        made_of = [write(Topology, topology), write(EngineSettings, settings), write(RootHistory, past)]
        self._put({"start": [*self._head(now_ms, date_ms), *made_of]})

    def handled(self, event: on.Event, now_ms: int, outcomes: Sequence[Outcome]) -> None:
        """The controller was given this event at this time, and this came of it."""
        self._number += 1
        kind = type(event)
        if not outcomes and (kind is on.Ticked or kind is on.HeartbeatArrived):
            quiet = self._quiet
            if not quiet:
                quiet += (self._number, now_ms)
                self._quiet_ms = now_ms
            passed_ms, self._quiet_ms = now_ms - self._quiet_ms, now_ms
            assert passed_ms >= 0, "a steady clock does not go back"
            if isinstance(event, on.HeartbeatArrived):
                quiet += (passed_ms, event.host)
            else:
                quiet.append(-1 - passed_ms)
            if len(quiet) >= QUIET:
                self.flush()
            return
        self.flush()
        assert self._codec.write_event is not None
        line = [self._number, now_ms, self._codec.write_event(event)]
        commands = commands_of(outcomes)
        if commands:
            self._digest = self._codec.digest(commands, self._digest)
            line += [[type(command).__name__ for command in commands], self._digest]
        self._put({"e": line})

    @property
    def wants_state(self) -> bool:
        """Is it time to write the controller itself?"""
        return self._seal is not None and self._bytes >= STATE_BYTES

    def state(self, controller: Controller, now_ms: int, date_ms: int) -> None:
        """The controller as it is now."""
        assert self._seal is not None
        self.flush()
        data = zlib.compress(pickle.dumps(controller, protocol=5), 1)
        self._put({"state": [*self._head(now_ms, date_ms), self._number, self._digest, self._seal(data)]})
        self._bytes = 0

    def flush(self) -> None:
        """Ticks and heartbeats that wait for more of them."""
        if self._quiet[2:]:
            self._put({"q": self._quiet})
        self._quiet = []

    def _head(self, now_ms: int, date_ms: int) -> list[Any]:
        return [FORMAT, self._codec.version, now_ms, date_ms]

    def _put(self, record: Mapping[str, Any]) -> None:
        line = _json(record)
        self._bytes += len(line)
        self._write(line)


def sealed_plainly(data: bytes) -> str:
    """For logs that never leave the process."""
    return base64.b64encode(data).decode()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
