"""Tests for your own application: one operator without Spark, a clock you move, real faults on real processes.

Nothing here imports Spark before an application is started.
"""

from perseid.errors import FaultError
from perseid.testing.attack import Report, Struck
from perseid.testing.clock import Clock
from perseid.testing.counter import injected
from perseid.testing.driver import Driver
from perseid.testing.harness import HarnessSnapshot, OperatorHarness
from perseid.testing.injection import Hit, heal_everything
from perseid.testing.plan import Plan, at
from perseid.testing.running import run, session
from perseid.testing.strike import corrupt, crash_driver, fail_storage, kill, overload, partition, pause, slow

__all__ = [
    "Clock",
    "Driver",
    "FaultError",
    "HarnessSnapshot",
    "Hit",
    "OperatorHarness",
    "Plan",
    "Report",
    "Struck",
    "at",
    "corrupt",
    "crash_driver",
    "fail_storage",
    "heal_everything",
    "injected",
    "kill",
    "overload",
    "partition",
    "pause",
    "run",
    "session",
    "slow",
]
