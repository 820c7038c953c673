"""Tests for your own application: one operator without Spark, a clock you move, real faults on real processes."""

from perseid.testing.clock import Clock
from perseid.testing.harness import HarnessSnapshot, OperatorHarness

__all__ = ["Clock", "HarnessSnapshot", "OperatorHarness"]
