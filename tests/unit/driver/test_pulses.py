"""What the driver hears of the hearts of hosts, over real connections."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator

import pytest

from perseid.channel.connection import Connection
from perseid.driver.pulses import Pulses
from perseid.engine import events as on
from perseid.engine.messages import Beat
from perseid.recovery.pulse import Pulse
from perseid.vocabulary import HostId

ONE = HostId(1)
NEVER_MS, OFTEN_MS = 3_600_000, 20


class Heart:
    """Beats when a test says so; the driver listens in a thread."""

    def __init__(self, pulses: Pulses, host: HostId) -> None:
        mine, theirs = (Connection(sock, purpose="heart", keys=None) for sock in socket.socketpair())
        self.connection, self.number = mine, 0
        self.host_ended: queue.Queue[bool] = queue.Queue()
        self.thread = threading.Thread(target=lambda: self.host_ended.put(pulses.listen(host, theirs)), daemon=True)
        self.thread.start()

    def beats(self, *pulses: Pulse) -> None:
        for pulse in pulses:
            self.number += 1
            self.connection.tell(Beat(self.number, pulse))

    def ends(self) -> bool:
        """Whether its host has ended, too, as the driver says."""
        self.connection.close()
        self.thread.join()
        return self.host_ended.get()


class Driver:
    """Its pulses, and what the controller is told."""

    def __init__(self) -> None:
        self.told: queue.Queue[on.Event] = queue.Queue()
        self.pulses = Pulses(self.told.put)
        self.hearts: list[Heart] = []

    def heart(self, host: HostId = ONE) -> Heart:
        self.hearts.append(Heart(self.pulses, host))
        return self.hearts[-1]

    def next(self) -> on.Event:
        return self.told.get(timeout=60)

    def all_told(self) -> list[on.Event]:
        return [self.told.get() for _ in range(self.told.qsize())]


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.pulses.stop()
    for heart in made.hearts:
        heart.connection.close()


def test_the_controller_is_told_that_a_host_lives_but_not_with_every_beat(driver: Driver) -> None:
    driver.pulses.wanted(ONE, NEVER_MS)
    heart = driver.heart()
    heart.beats(Pulse.BUSY, Pulse.IDLE, Pulse.BLOCKED, Pulse.STARVED)
    told = [driver.next()]
    while not isinstance(told[-1], on.HostSilent):
        told.append(driver.next())
    assert told[0] == on.HeartbeatArrived(ONE) and told[-1] == on.HostSilent(ONE, 1, "starved")
    assert len(told) < 4


@pytest.mark.parametrize(("pulse", "why"), [(Pulse.STOPPED, "stopped"), (Pulse.STARVED, "starved")])
def test_a_host_that_does_not_run_is_told_at_once_and_when_it_is_heard_again(
    driver: Driver, pulse: Pulse, why: str
) -> None:
    driver.pulses.wanted(ONE, NEVER_MS)
    heart = driver.heart()
    heart.beats(pulse, pulse, Pulse.IDLE)
    heart.ends()
    told = driver.all_told()
    silent = [event for event in told if isinstance(event, on.HostSilent)]
    assert [(event.misses, event.why) for event in silent] == [(1, why), (2, why)]
    assert told.index(on.HostHeard(ONE)) == 2


def test_a_heart_that_says_nothing_is_missed_again_and_again(driver: Driver) -> None:
    driver.pulses.wanted(ONE, OFTEN_MS)
    driver.heart()
    assert [driver.next() for _ in range(3)] == [on.HostSilent(ONE, misses, "unheard") for misses in (1, 2, 3)]


def test_a_heart_that_says_gone_tells_of_the_end_of_its_host(driver: Driver) -> None:
    driver.pulses.wanted(ONE, NEVER_MS)
    heart = driver.heart()
    heart.beats(Pulse.IDLE, Pulse.GONE)
    assert heart.host_ended.get(timeout=60)


def test_a_heart_that_ends_without_a_word_does_not(driver: Driver) -> None:
    driver.pulses.wanted(ONE, NEVER_MS)
    heart = driver.heart()
    heart.beats(Pulse.IDLE)
    assert not heart.ends()


def test_a_heart_that_nobody_asked_for_is_not_listened_to(driver: Driver) -> None:
    assert not driver.heart(HostId(7)).host_ended.get(timeout=60)
    driver.pulses.wanted(ONE, OFTEN_MS)
    driver.pulses.gone(ONE)
    assert not driver.heart().host_ended.get(timeout=60)
    assert driver.all_told() == []


def test_nothing_is_told_of_a_host_that_is_gone(driver: Driver) -> None:
    for host, beat_ms in ((ONE, NEVER_MS), (HostId(2), OFTEN_MS)):
        driver.pulses.wanted(host, beat_ms)
    lost, silent = driver.heart(), driver.heart(HostId(2))
    lost.beats(Pulse.STOPPED)
    while driver.next() != on.HostSilent(ONE, 1, "stopped"):
        pass
    driver.pulses.gone(ONE)
    lost.beats(Pulse.STOPPED)
    assert not lost.ends()
    seen = [driver.next() for _ in range(3)]
    assert on.HostSilent(ONE, 2, "stopped") not in seen and silent.thread.is_alive()
