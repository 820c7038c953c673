"""Faults as functions: ``kill(running, host=0)`` strikes a running application at once.

``running`` is what ``app.start`` returned, or a ``Driver``. Each returns a ``Hit`` that says what was struck, and heals what passes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from perseid.testing.faults import Corrupt, CrashDriver, FailStorage, Kill, Overload, Partition, Pause, Slow, Target
from perseid.testing.injection import Hit, inject

if TYPE_CHECKING:
    from perseid.driver.running import Running
    from perseid.testing.subject import Subject

_chance = random.Random(0)


def kill(running: Running | Subject, host: Target | None = None, *, executor: Target | None = None) -> Hit:
    """SIGKILL to a host (``0``, ``"count/0"``, ``"any"``, ``"all"``, ``"spare"``), or to an executor."""
    return inject(Kill(host, executor), running, _chance)


def pause(
    running: Running | Subject, host: Target | None = None, *, seconds: float = 3.0, executor: Target | None = None
) -> Hit:
    """SIGSTOP to a host (any, if none is named), or to an executor with all in it; it wakes up after ``seconds``, or at
    ``hit.heal()``."""
    return inject(Pause(host, seconds, executor), running, _chance)


def slow(running: Running | Subject, host: Target = "any", *, seconds: float = 5.0, percent: int = 80) -> Hit:
    """A host that stands still for ``percent`` of the time."""
    return inject(Slow(host, seconds, percent), running, _chance)


def overload(running: Running | Subject, *, seconds: float = 5.0, processes: int | None = None) -> Hit:
    """Processes that burn all cores of this machine."""
    return inject(Overload(seconds, processes), running, _chance)


def partition(
    running: Running | Subject, one: Target = "any", other: Target = "driver", *, seconds: float = 3.0
) -> Hit:
    """Connections between a host and ``"driver"``, ``"tasks"`` or another host are dropped and refused."""
    return inject(Partition(one, other, seconds), running, _chance)


def corrupt(
    running: Running | Subject, how: Any = "flip", *, checkpoint: Any = "newest", shard: str | None = None
) -> Hit:
    """``flip`` a byte of a snapshot, or ``cut`` it in half."""
    return inject(Corrupt(how, checkpoint, shard), running, _chance)


def fail_storage(running: Running | Subject, how: Any = "unreachable", *, seconds: float = 3.0) -> Hit:
    """The checkpoint root is ``full``, ``slow`` or ``unreachable``."""
    return inject(FailStorage(how, seconds), running, _chance)


def crash_driver(driver: Subject) -> Hit:
    """SIGKILL to a ``Driver`` and all it has started; it is started again at once."""
    return inject(CrashDriver(), driver, _chance)
