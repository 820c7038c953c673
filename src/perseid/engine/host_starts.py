"""Hosts on their way: how many were asked for, when the next is asked for, when to give up, and which of Spark's choices are taken.

A host that could not be started is asked for again after a pause, which is doubled with every failure in a row. Where too few hosts
come for too long, the application ends: all of them are needed at its start, and one of them later.

Invariant: nobody waits for hosts without an end, unless there is no limit. Time counts only while the controller listens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

PAUSE_MS, PAUSE_LIMIT_MS = 200, 10_000  # after a host that could not be started
LISTENED_MS = 5_000  # a longer time without a look counts as so much: the driver's process was paused meanwhile
DECLINE_PAUSES_S = (0.2, 0.4, 0.8, 1.5, 2.0, 2.0, 2.0, 2.0)


@dataclass(slots=True)
class HostStarts:
    """What became of the hosts that were asked for."""

    hosts: int  # that the application needs at its start
    timeout_ms: int | None  # None: it waits as long as it takes
    slots: int | None  # for tasks of the cluster, where that is known
    now_ms: int
    coming: int = 0  # asked for and not there yet
    failures: int = 0  # in a row
    failure: str = ""  # why the last one could not be started
    pause_ends_ms: int = 0
    any_came: bool = False
    waited_ms: int = 0  # without enough hosts

    def requested(self, hosts: int) -> None:
        """Spark was asked for so many more."""
        self.coming += hosts

    def registered(self) -> None:
        """One is there."""
        self.coming = max(0, self.coming - 1)
        self.failures, self.failure, self.pause_ends_ms, self.any_came = 0, "", 0, True

    def failed(self, reason: str, hopeless: str | None, now_ms: int) -> str | None:
        """One could not be started. Returns why the application ends, if none of them ever can be (``hopeless``)."""
        self.coming = max(0, self.coming - 1)
        self.failure = reason
        if hopeless is not None and not self.any_came:
            return f"no host can start: {hopeless}"
        if now_ms >= self.pause_ends_ms:  # those that fail together are one failure
            self.pause_ends_ms = now_ms + min(PAUSE_MS << min(self.failures, 16), PAUSE_LIMIT_MS)
            self.failures += 1
        return None

    def may_ask(self, now_ms: int) -> bool:
        """A cluster that could not start a host a moment ago is not asked again at once."""
        return now_ms >= self.pause_ends_ms

    def looked(self, alive: int, now_ms: int, *, starting: bool) -> str | None:
        """Time has passed. Returns why the application ends, if too few hosts have come for too long."""
        passed_ms, self.now_ms = min(now_ms - self.now_ms, LISTENED_MS), now_ms
        if alive >= (self.hosts if starting else 1):
            self.waited_ms = 0
            return None
        self.waited_ms += passed_ms
        if self.timeout_ms is None or self.waited_ms <= self.timeout_ms:
            return None
        few = f"only {alive} of {self.hosts} hosts started within {self.timeout_ms / 1000:g} s: "
        if self.failure:
            return few + f"the last that did not, says: {self.failure}"
        slots = self.slots if self.slots is not None else "an unknown number"
        return few + (
            f"every host holds a task slot for good (the cluster has {slots});"
            " use a larger master, fewer hosts, or a longer start_timeout"
        )

    @property
    def trouble(self) -> str:
        """Why the next host is not there, in a sentence; empty while all is well."""
        return f"a host could not be started: {self.failure}" if self.failure else ""

    def check(self) -> None:
        assert self.coming >= 0 and self.waited_ms >= 0


@dataclass(slots=True)
class Spread:
    """Which hosts are better started again, since other executors have fewer: Spark alone chooses where they run.

    Invariant: a host is declined a limited number of times, and taken as it is then.
    """

    declined: Counter[int] = field(default_factory=Counter)  # launches, how often
    executors: int = 0  # the most there have been

    def declines(self, launch: int, executor: str, hosts: Mapping[str, int], now: int) -> bool:
        """Is the host of this launch, on this executor, declined? ``hosts``: how many each executor has. ``now``: executors there are.

        An executor that died is waited for, too: the most there have been are expected, until they do not come.
        """
        self.executors = max(self.executors, now)
        least = min(hosts.values(), default=0) if len(hosts) >= self.executors else 0
        if hosts.get(executor, 0) <= least:
            return False
        if self.declined[launch] == len(DECLINE_PAUSES_S):
            self.executors = now
            return False
        self.declined[launch] += 1
        return True

    def pause_s(self, launch: int) -> float:
        """How long to wait before a launch is tried again."""
        declined = self.declined[launch]
        return DECLINE_PAUSES_S[declined - 1] if declined else 0.0
