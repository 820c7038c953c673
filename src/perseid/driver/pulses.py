"""The hearts of hosts, as the driver hears them: one connection each; what they miss is told to the controller (``standby.beats``)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from perseid.channel.connection import Connection
from perseid.channel.protocol import BEAT
from perseid.clocks import steady_ms
from perseid.engine import events as on
from perseid.errors import ChannelError
from perseid.recovery.pulse import Pulse
from perseid.standby.beats import Beats
from perseid.vocabulary import HostId

LOOKS = 4  # for every beat
LIVES_MS = 250  # so often the controller is told that a host lives


class Pulses:
    """Of all hosts with a heart; nothing runs where there are none."""

    def __init__(self, post: Callable[[on.Event], None]) -> None:
        self._post, self._beats = post, Beats()
        self._lock = threading.Lock()
        self._wanted: dict[HostId, int] = {}
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def wanted(self, host: HostId, beat_ms: int) -> None:
        """A host was told to start its heart."""
        with self._lock:
            self._wanted[host] = beat_ms

    def gone(self, host: HostId) -> None:
        with self._lock:
            self._wanted.pop(host, None)
            self._beats.gone(host)

    def stop(self) -> None:
        self._ended.set()

    def listen(self, host: HostId, connection: Connection) -> bool:
        """Until the heart ends. Whether its host has ended, too."""
        with self._lock:
            beat_ms = self._wanted.get(host)
            if beat_ms is None:
                return False
            self._beats.watch(host, beat_ms, steady_ms())
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="perseid-pulses", daemon=True)
                self._thread.start()
        lived_ms = 0
        try:
            while True:
                beat = connection.hear(BEAT)
                if beat.pulse is Pulse.GONE:
                    return True
                now_ms = steady_ms()
                with self._lock:
                    told = self._beats.arrived(host, beat.pulse, now_ms)
                for event in told:
                    self._post(event)
                if beat.pulse.alive and now_ms - lived_ms >= LIVES_MS:
                    lived_ms = now_ms
                    self._post(on.HeartbeatArrived(host))  # alive, whatever holds its own thread up
        except ChannelError:
            return False

    def _look(self) -> None:
        while not self._ended.wait(self._pause_s()):
            with self._lock:
                told = self._beats.tick(steady_ms())
            for event in told:
                self._post(event)

    def _pause_s(self) -> float:
        with self._lock:
            return min(self._wanted.values(), default=1000) / LOOKS / 1000
