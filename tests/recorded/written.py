"""Journals of runs that nobody ran, made of the real notices: what happens too seldom, or takes too long, to be recorded.

A run is written by saying what happens; its clock goes on by itself. ``python written.py week ROOT`` writes a journal of a week,
through the real ``Journal``, in segments.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from typing import Any, Literal

from perseid.checkpoint.policy import Decision, Reason
from perseid.engine import notices
from perseid.recovery.plan import ApplicationRecovery, ShardRecovery
from perseid.scaling.machine import ScaleRequest
from perseid.storage.journal import Journal
from perseid.storage.journal_segments import Limits
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId, Epoch, Generation, HostId, OperatorName, ShardId, SourceName, UnitName

BEGAN_MS = 1_795_000_000_000
LIMITS = Limits()
MAIN = UnitName("main")
COUNT, BILL = OperatorName("count"), OperatorName("bill")
SHARDS = tuple(ShardId(operator, index) for operator in (COUNT, BILL) for index in range(2))
GRAPH = (
    {"name": "calls", "kind": "source", "unit": "main", "inputs": [], "what": "files"},
    {"name": "count", "kind": "operator", "unit": "main", "inputs": ["calls"], "what": "Count", "key": ["number"], "delay_ms": 5_000},
    {"name": "bill", "kind": "operator", "unit": "main", "inputs": ["count"], "what": "Bill", "key": ["customer"]},
    {"name": "bills", "kind": "sink", "unit": "main", "inputs": ["bill"], "what": "parquet"},
)  # fmt: skip
Write = Callable[[int, str, dict[str, Any]], None]


class Run:
    """One run: four shards on two hosts, two hosts more for copies or as spares."""

    def __init__(self, write: Write, *, every_ms: int = 400, began_ms: int = BEGAN_MS, graph: Any = GRAPH) -> None:
        self.now_ms, self._write, self._every_ms, self._graph = began_ms, write, every_ms, graph
        self._dice = random.Random(1)
        self.epoch_number, self._checkpoint, self._load_ms = 0, 0, began_ms
        self.places = dict(zip(SHARDS, map(HostId, (1, 1, 2, 2)), strict=True))
        self.hosts = [HostId(id) for id in (1, 2, 3, 4)]

    def say(self, notice: notices.Notice, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self._write(self.now_ms, notice.kind, notice.record())

    # -- a run without faults -------------------------------------------------------------------------------------

    def start(self) -> None:
        operators = {COUNT: 2, BILL: 2}
        self._started = notices.AppStarted(
            "calls",
            Generation(1),
            (MAIN,),
            operators,
            2,
            None,
            Epoch(0),
            CheckpointId(1),
            self._graph,
            "adaptive",
            30_000,
        )
        self.say(self._started)
        for host in self.hosts:
            self.say(notices.HostReady(host, 4_000 + host, f"10.0.0.{host}:36000"), 300)
        plan = ApplicationRecovery(None, dict.fromkeys(SHARDS, ()), {MAIN: Epoch(0)})
        self.say(notices.RecoveryStarted("start", plan))
        for host in (HostId(1), HostId(2)):
            self.say(notices.ShardsAssigned(host, self._held(host)))
        self.say(notices.RecoveryFinished(plan, 1_900, {"reload": 1_890, "reconnect": 10}, True), 10)

    def epochs(self, count: int) -> None:
        for _ in range(count):
            self.epoch()

    def epoch(self, ms: int = 80) -> None:
        """One epoch; every five seconds hosts say what they had to do."""
        self.epoch_number += 1
        number, rows = Epoch(self.epoch_number), self._dice.randint(900, 1_100)
        calls = SourceName("calls")
        slices, counts = (
            {calls: (self.epoch_number - 1, self.epoch_number)},
            {calls: (rows, self._dice.randint(0, 300))},
        )
        admitted = notices.EpochAdmitted(number, slices, rows, self.now_ms, 1.3, sources=counts)
        self.say(admitted, max(1, self._every_ms - ms))
        took = ms + self._dice.randint(0, 20)
        state = int(4e6 * (1.2 + math.sin(self.epoch_number / 17)))
        parts = {"waiting": 0.4, "spark": took * 0.6, "hosts": took * 0.25, "sink": took * 0.15 - 0.4}
        operators = {
            COUNT: {
                "in": rows,
                "out": rows,
                "state": state,
                "busy_ms": took * 0.25,
                "event_time_ms": self.now_ms - 800,
            },
            BILL: {"in": rows, "out": rows // 10, "state": 900_000, "busy_ms": took * 0.1},
        }
        time_ms = self.now_ms
        self.say(
            notices.EpochCommitted(
                number, took, rows, rows // 10, state + 900_000, round(took * 0.35), 0.2, time_ms, parts, operators
            ),
            took,
        )
        if self.now_ms - self._load_ms >= 5_000:
            self._load_ms = self.now_ms
            for host in self.hosts:
                said = {str(s): {"busy": 0.12, "rows": rows * 6} for s in self._held(host)}
                self.say(notices.HostLoad(host, 0.1 + 0.3 * bool(said), 150 << 20, said))

    def checkpoint(self, reason: Reason = Reason.MINIMUM) -> None:
        """One checkpoint, whole."""
        self._checkpoint += 1
        id, facts = CheckpointId(self._checkpoint), {"bytes": 1_500_000, "threshold": 2_000_000, "rate": 12_000}
        self.say(notices.CheckpointDecided(id, Decision(reason, None, facts)))
        self.say(notices.CheckpointStarted(id, {MAIN: Epoch(self.epoch_number)}))
        holders = sorted(set(self.places.values()))
        for host in holders:
            self.say(notices.SnapshotsOrdered(id, host, MAIN, Epoch(self.epoch_number), False))
        for host in holders:
            self.say(notices.SnapshotsForked(id, host, MAIN), 6)
            for shard in self._held(host):
                self.say(notices.SnapshotWritten(id, shard, 600_000, 30, 12, 9), 14)
        self.say(notices.CheckpointCommitted(id, 600_000 * len(SHARDS), 90), 5)
        self.say(notices.Trimmed(Epoch(max(0, self.epoch_number - 80))))

    def continued(self) -> tuple[str, dict[str, Any]]:
        """What another file of its journal begins with."""
        alive = tuple(notices.HostReady(host, 4_000 + host, f"10.0.0.{host}:36000") for host in self.hosts)
        said = notices.JournalContinues(self._started, alive, self.places)
        return said.kind, said.record()

    def stop(self) -> None:
        self.say(notices.AppStopped("finished"))

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def lose(self, host: HostId, to: HostId) -> None:
        """A host is lost, and recovered on another one by the usual recovery; a new host comes in its place."""
        shards = self._held(host)
        self.say(notices.HostLost(host, "its connection broke"), 5)
        self.hosts.remove(host)
        plan = ShardRecovery(
            CheckpointId(self._checkpoint), dict.fromkeys(shards, ()), {}, {MAIN: (Epoch(1), Epoch(3))}
        )
        self.say(notices.RecoveryStarted(f"host {host}: its connection broke", plan), 3)
        self.say(notices.ShardsAssigned(to, shards), 1)
        self.places |= dict.fromkeys(shards, to)
        phases = {"detect": 8, "reload": 210, "read": 20, "deserialise": 40, "reconnect": 3, "catch_up": 160}
        self.say(notices.RecoveryFinished(plan, sum(phases.values()), phases), sum(phases.values()))
        self.come(HostId(max(self.hosts) + 1))

    def come(self, host: HostId) -> None:
        self.hosts.append(host)
        self.say(notices.HostReady(host, 4_000 + host, f"10.0.0.{host}:36000"), 700)

    def scale(self, shards: int) -> None:
        """``count`` gets so many shards and loses them again: the picture stays small."""
        request = ScaleRequest(1, COUNT, tuple((at, at + 1) for at in range(shards)))
        self.say(notices.ScaleStarted(request))
        self.say(notices.ScaleGivenUp(request, "a host was lost meanwhile", False), 900)

    # -- standby --------------------------------------------------------------------------------------------------

    def guard(self, primary: HostId, copy: HostId, same_fate: Literal["machine", "executor"] | None = None) -> None:
        """A primary gets a copy."""
        self.say(notices.CopyDeploying(primary, copy, same_fate))
        self.say(notices.CopyDeployed(primary, copy, Epoch(self.epoch_number), 5_400_000, 113), 113)

    def refresh(self, primary: HostId, copy: HostId, full: bool = False) -> None:
        size = 5_400_000 if full else 60_000 + self._dice.randint(0, 9_000)
        self.say(notices.CopyRefreshed(primary, copy, Epoch(self.epoch_number), size, 70 if full else 9, full))

    def switch(self, primary: HostId, copy: HostId, silent_ms: int = 118) -> None:
        has = Epoch(self.epoch_number - 1)
        self.say(notices.Switched(primary, copy, has, silent_ms, "a heartbeat was missed"), silent_ms)

    def standby_run(self) -> None:
        """Two pairs: one switches and gives back, then its primary is given up; the copy of the other is lost and made again."""
        one, two, three, four = (HostId(id) for id in (1, 2, 3, 4))
        self.start()
        self.say(notices.StandbyChanged(COUNT, "hybrid"))
        self.say(notices.StandbyChanged(BILL, "hybrid"))
        self.guard(one, three)
        self.guard(two, four, "machine")
        self._guarded(20, (one, three), (two, four))
        self.checkpoint()
        self.switch(one, three)
        self.epochs(4)
        self.roll_back(one, three)
        self._guarded(20, (one, three), (two, four))
        self.say(notices.CopyLost(two, four, "its connection broke"))
        self.say(notices.HostLost(four, "its connection broke"))
        self.hosts.remove(four)
        self.say(notices.CopyWanted(two, "no host is free"), 20)
        self._guarded(6, (one, three))
        self.come(HostId(5))
        self.guard(two, HostId(5))
        self._guarded(20, (one, three), (two, HostId(5)))
        self.switch(one, three, 204)
        self.epochs(12)
        self.give_up(one, three)
        self.epochs(3)
        self.come(HostId(6))
        self.guard(three, HostId(6))
        self._guarded(20, (three, HostId(6)), (two, HostId(5)))

    def _guarded(self, epochs: int, *pairs: tuple[HostId, HostId]) -> None:
        """Epochs with refreshes, about every second one."""
        for number in range(epochs):
            self.epoch()
            for primary, copy in pairs:
                if (number + primary) % 2 == 0:
                    self.refresh(primary, copy, full=number % 16 == 0)

    def roll_back(self, primary: HostId, copy: HostId) -> None:
        self.say(notices.RolledBack(primary, copy, Epoch(self.epoch_number), 86), 86)

    def give_up(self, primary: HostId, copy: HostId) -> None:
        """The copy becomes the primary for good."""
        self.say(notices.GivenUp(primary, copy, "silent for 20 s"))
        self.say(notices.HostLost(primary, "silent for 20 s"), 2)
        self.hosts.remove(primary)
        self.say(notices.ShardsAssigned(copy, self._held(primary)), 1)
        self.places = {shard: copy if host == primary else host for shard, host in self.places.items()}

    def _held(self, host: HostId) -> tuple[ShardId, ...]:
        return tuple(shard for shard, at in self.places.items() if at == host)


def records(tell: Callable[[Run], None]) -> list[dict[str, Any]]:
    """The journal of a run, as a reader of it gets the records."""
    found: list[dict[str, Any]] = []
    tell(Run(lambda at_ms, kind, fields: found.append({"at_ms": at_ms, "kind": kind, "generation": 1, **fields})))
    return found


def week(root: str, *, epochs: int = 66_000, limits: Limits = LIMITS) -> int:
    """A journal of a week under a root: an epoch every nine seconds, a checkpoint a minute, a fault every five hours. Its records."""
    now, written = [0], [0]
    journal = Journal(Store.at(root), Generation(1), now_ms=lambda: now[0], limits=limits)

    def write(at_ms: int, kind: str, fields: dict[str, Any]) -> None:
        now[0] = at_ms
        journal.record(kind, **fields)
        written[0] += 1

    run = Run(write, every_ms=7 * 24 * 3_600_000 // epochs)
    journal.continued = run.continued
    run.start()
    for number in range(1, epochs + 1):
        run.epoch()
        if number % 7 == 0:
            run.checkpoint()
        if number % 2_000 == 0:
            holder = run.places[SHARDS[0]]
            run.lose(holder, next(host for host in run.hosts if host not in run.places.values()))
        if number % 5_000 == 0:
            run.scale(4)
        if number % 200 == 0:
            journal.flush()
    run.stop()
    journal.close()
    return written[0]


if __name__ == "__main__":
    assert sys.argv[1] == "week"
    print(week(sys.argv[2]), "records")
