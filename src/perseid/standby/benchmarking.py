"""Detection by benchmarking (H6), to compare with heartbeats: a standard set of rows is timed against its value on an idle machine.

The set is worked on when the processor is busier than a threshold (the paper's L_th); taking longer than its value by another one (P_th)
declares a failure. The paper found it as quick as heartbeats, and prone to false alarms; Perseid does not switch by it.

Invariant: a failure is declared once, and again only after the set was quick, or the processor idle, in between.
"""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 20  # in the standard set
EVERY_MS = 50  # the processor's load is looked at
BUSY = 0.7
TIMES_SLOWER = 2.0


@dataclass(slots=True)
class Benchmarking:
    """Of one host."""

    benchmark_ms: float  # what the set takes on an idle machine
    busy: float = BUSY
    times_slower: float = TIMES_SLOWER
    declared: bool = False

    def wants_run(self, load: float) -> bool:
        """Is the processor so busy that the set is to be timed? ``load`` is a share of all processors."""
        if load < self.busy:
            self.declared = False
        return load >= self.busy

    def failed(self, took_ms: float) -> bool:
        """Does this time declare a failure?"""
        slow = took_ms > self.times_slower * self.benchmark_ms
        new = slow and not self.declared
        self.declared = slow
        return new
