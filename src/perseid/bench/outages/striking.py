"""Outages of one host: it is stopped and goes on (SIGSTOP, SIGCONT) for a share of the time, regularly or as a Poisson process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence

Outage = tuple[float, float]  # from, to


def outages(share: float, seconds: float, mean_s: float, *, poisson: bool, seed: int = 0) -> list[Outage]:
    """When, in seconds from now on; the last one has ended by ``seconds``."""
    chance, found, at = random.Random(seed), list[Outage](), 0.0
    if share <= 0:
        return []
    gap_s = mean_s * (1 - share) / share
    while True:
        gap, length = (chance.expovariate(1 / gap_s), chance.expovariate(1 / mean_s)) if poisson else (gap_s, mean_s)
        if at + gap + length > seconds:
            return found
        found.append((at + gap, at + gap + length))
        at += gap + length


def strike(plan: Sequence[Outage], victim: Callable[[], int | None], seconds: float) -> list[Outage]:
    """Carry it out; takes ``seconds``. Who is struck is asked at the beginning of every outage. Returns wall times in ms."""
    began, struck = time.monotonic(), list[Outage]()
    for start, end in plan:
        _sleep_until(began + start)
        pid = victim()
        if pid is None:
            continue
        with stopped(pid) as at_ms:
            _sleep_until(began + end)
        struck.append((at_ms, time.time() * 1000))
    _sleep_until(began + seconds)
    return struck


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[float]:
    """The process is stopped meanwhile; gives the wall time in ms."""
    at_ms = time.time() * 1000
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield at_ms
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def slow_down(pid: int, percent: int, seconds: float, period_s: float = 0.1) -> None:
    """Take a share of a process's time, by stopping it in every period."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with stopped(pid):
            time.sleep(period_s * percent / 100)
        time.sleep(period_s * (100 - percent) / 100)


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))
