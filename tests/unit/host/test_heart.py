"""A heart beats for its host whatever holds the host up: with real processes, and the order of what is heard."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perseid.channel.connection import Connection
from perseid.channel.protocol import BEAT
from perseid.engine.messages import Beat
from perseid.errors import ChannelError
from perseid.recovery.pulse import Pulse

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="the system does not tell how processes are, nor when they end"
)

HOST = """
import os, re, socket, sys, threading, time
from perseid.channel.connection import Connection
from perseid.host.heart import start_heart
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
heart = start_heart(Connection(sock, purpose="heart", keys=None), 20)
print(os.getpid(), heart.process, flush=True)
{}
"""
WAITS = "sys.stdin.read()"
HOLDS_THE_INTERPRETER = """
ticks = 0
def tick():
    while True:
        time.sleep(0.001)
        os.write(1, b"tick\\n")
threading.Thread(target=tick, daemon=True).start()
time.sleep(0.05)
os.write(1, b"holding\\n")
re.match(r"(a+)+$", "a" * 60 + "b")
"""
STOPS_ITS_HEART = """
sys.stdin.readline()
heart.stop()
print("stopped", flush=True)
sys.stdin.read()
"""


class Living:
    """A host process, and what is heard of it."""

    def __init__(self, process: subprocess.Popen[str], sock: socket.socket) -> None:
        assert process.stdout is not None
        self.process, self.connection = process, Connection(sock, purpose="heart", keys=None)
        self.heard = self._beats()
        self.host, self.heart = map(int, process.stdout.readline().split())

    def _beats(self) -> Iterator[Beat]:
        """Until the connection ends."""
        while True:
            try:
                yield self.connection.hear(BEAT)
            except ChannelError:
                return

    def until(self, pulse: Pulse) -> list[Beat]:
        """The beats up to the first with this pulse; without an end if there is none."""
        found = []
        for beat in self.heard:
            found.append(beat)
            if beat.pulse is pulse:
                return found
        raise AssertionError(f"the heart has ended; heard {found[-5:]}")


Starter = Callable[[str], Living]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    started: list[subprocess.Popen[str]] = []
    livings: list[Living] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "heart"))
    listener.listen()

    def begin(what: str) -> Living:
        command = [sys.executable, "-c", HOST.format(what), str(tmp_path / "heart")]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        livings.append(Living(started[-1], listener.accept()[0]))
        return livings[-1]

    yield begin
    for living in livings:
        living.connection.close()
    for process in started:
        process.kill()
        process.communicate()
    listener.close()


def test_a_host_that_holds_its_interpreter_is_alive(start: Starter) -> None:
    living = start(HOLDS_THE_INTERPRETER)
    assert living.process.stdout is not None
    while living.process.stdout.readline() != "holding\n":
        pass
    out, ticking = living.process.stdout.fileno(), True
    while ticking:  # until its heart beats on while none of its own threads has anything to say
        while select.select([out], [], [], 0)[0]:
            os.read(out, 1 << 16)
        works(living, 50)
        ticking = bool(select.select([out], [], [], 0)[0])
    os.kill(living.host, signal.SIGKILL)
    living.until(Pulse.GONE)


def works(living: Living, beats_in_a_row: int) -> None:
    """It has work to do, also where others have the processors."""
    working = 0
    while working < beats_in_a_row:
        working = working + 1 if next(living.heard).pulse in (Pulse.BUSY, Pulse.STARVED) else 0


def test_a_stopped_host_is_told_from_a_dead_one_and_comes_back(start: Starter) -> None:
    living = start(WAITS)
    living.until(Pulse.IDLE)
    os.kill(living.host, signal.SIGSTOP)
    living.until(Pulse.STOPPED)
    os.kill(living.host, signal.SIGCONT)
    living.until(Pulse.IDLE)
    os.kill(living.host, signal.SIGSTOP)
    living.until(Pulse.STOPPED)
    os.kill(living.host, signal.SIGKILL)
    living.until(Pulse.GONE)
    assert list(living.heard) == []


def test_the_last_beat_of_a_killed_host_says_so(start: Starter) -> None:
    living = start(WAITS)
    living.until(Pulse.IDLE)
    os.kill(living.host, signal.SIGKILL)
    heard = living.until(Pulse.GONE)
    assert [beat.pulse for beat in heard].count(Pulse.GONE) == 1
    assert list(living.heard) == []


def test_beats_are_numbered_without_a_gap(start: Starter) -> None:
    living = start(WAITS)
    assert [next(living.heard).number for _ in range(5)] == [1, 2, 3, 4, 5]


def test_a_host_without_its_heart_is_not_called_gone(start: Starter) -> None:
    living = start(WAITS)
    living.until(Pulse.IDLE)
    os.kill(living.heart, signal.SIGKILL)
    assert Pulse.GONE not in {beat.pulse for beat in living.heard}
    assert living.process.poll() is None


def test_a_heart_that_was_stopped_leaves_nothing_behind(start: Starter) -> None:
    living = start(STOPS_ITS_HEART)
    living.until(Pulse.IDLE)
    assert living.process.stdin is not None
    living.process.stdin.write("stop\n")
    living.process.stdin.flush()
    assert Pulse.GONE not in {beat.pulse for beat in living.heard}
    assert living.process.stdout is not None and living.process.stdout.readline() == "stopped\n"
    assert not Path(f"/proc/{living.heart}").exists()


def test_a_heart_ends_when_nobody_listens(start: Starter) -> None:
    living = start(WAITS)
    living.until(Pulse.IDLE)
    watch = os.pidfd_open(living.heart)
    living.connection.close()
    assert select.select([watch], [], [], 60)[0] == [watch]
    os.close(watch)


def test_a_signal_for_the_host_does_not_silence_its_heart(start: Starter) -> None:
    living = start(WAITS)
    living.until(Pulse.IDLE)
    for stray in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
        os.kill(living.heart, stray)
    living.until(Pulse.IDLE)
    os.kill(living.host, signal.SIGTERM)
    living.until(Pulse.GONE)
