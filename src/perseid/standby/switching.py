"""The shards of one primary host and their second copy (H3, H4, H5): who answers, from one step to the next.

unguarded   the primary works without a copy; a place for one is looked for
deploying   the primary's state is on its way to another host
guarded     the copy is there: suspended and refreshed (hybrid, passive), or at work as the primary is (active): the primary is then one
            that is not silent, since snapshots are taken of it
switched    the primary is silent: the copy answers (hybrid)
returning   the primary is heard again and reads the copy's state, while the copy goes on answering (hybrid)
launching   the primary is gone, and a new host gets the state that the copy keeps (passive)
lost        nobody can go on: the usual recovery is at work, and this pair is over

Rows cannot be lost by a wrong decision here: a shard applies its epochs in order and once on either host, from the same kept input, and a
task hands on one answer to an epoch. What is decided is who works, and for how long one waits.

Either host can take over from where it stands, as long as input is kept from where the hindmost stands (``stands``). Reading the state
back only saves the primary the way. So a copy that falls silent or dies while it answers hands back to a primary that is heard, at once.

Invariant: a host that is the only one left is not judged here: the detector says whether it is dead (``recovery.detection``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, assert_never

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby
from perseid.vocabulary import Epoch, HostId

Phase = Literal["unguarded", "deploying", "guarded", "switched", "returning", "launching", "lost"]

PAUSE_MS = 500  # after a copy could not be deployed, twice as long after the next time
READS = 3  # attempts at reading state back, then the primary goes on with its own
LAUNCH_MS = 5_000  # a new host is waited for so long while others wait for the pair
STUCK_MS = 60_000  # a host that is alive but does not finish what it was told


@dataclass(slots=True)
class Pair:
    """A primary's shards, and their copy."""

    standby: Standby
    primary: HostId
    phase: Phase = "unguarded"
    copy: HostId | None = None
    target: HostId | None = None  # of a launch
    stands: Epoch = Epoch(0)  # both hosts have the state of this epoch, or a later one
    silent: dict[HostId, int] = field(default_factory=dict)  # since when
    why: str = ""  # the newest one was taken for silent
    heard_ms: int = 0  # when one that was silent was heard again
    number: int = 0  # of the last state that was sent
    failures: int = 0  # in a row
    since_ms: int = 0  # when the phase began
    not_before_ms: int = 0  # the next deployment

    # -- what others may know -------------------------------------------------------------------------------------

    @property
    def answering(self) -> HostId | None:
        """Who answers; under active standby the copy does, too."""
        if self.phase in ("switched", "returning"):
            return self.copy
        return None if self.phase in ("launching", "lost") else self.primary

    def wants_copy(self, now_ms: int) -> bool:
        """Is a place for a copy looked for?"""
        return self.phase == "unguarded" and self.primary not in self.silent and now_ms >= self.not_before_ms

    @property
    def guarded(self) -> bool:
        """Is the copy there, and nothing else on its way?"""
        return self.phase == "guarded"

    def patience_ms(self, host: HostId) -> int | None:
        """How long a silent host is waited for, as another stands in for it; None: not longer than any other."""
        if self.standby.mode == "passive" or self.phase not in ("guarded", "switched", "returning"):
            return None
        return 2 * self.standby.give_up.ms if host in (self.primary, self.copy) else None

    # -- what happens ---------------------------------------------------------------------------------------------

    def handle(self, event: on.Event, now_ms: int) -> tuple[do.Command, ...]:
        """Take in an event, and say what is to be done."""
        if self.phase == "lost":
            return ()
        match event:
            case on.HostSilent(host, misses, why):
                if host in (self.primary, self.copy) and misses >= (self.standby.misses or 1):
                    self.silent.setdefault(host, now_ms)
                    self.why = why
            case on.HostHeard(host):
                if self.silent.pop(host, None) is not None:
                    self.heard_ms = now_ms
            case on.HostDied(host):
                return self._died(host, now_ms)
            case on.PlaceFound(host):
                return self._deploy(host, now_ms)
            case on.CopyTaken(number, epoch):
                return self._taken(epoch, now_ms) if number == self.number else ()
            case on.CopyNotTaken(number, reason):
                return self._not_taken(reason, now_ms) if number == self.number else ()
            case on.AnswerDiffered(host):
                return self._differed(host, now_ms)
            case on.HostLaunched(host):
                if self.phase == "launching" and self.target is None and self.copy is not None:
                    self.target = host
                    return (self._send(self.copy, host),)
            case _:
                assert_never(event)
        return self._advance(now_ms)

    def refreshed(self, epoch: Epoch) -> None:
        """The copy has the state of this epoch."""
        if self.phase == "guarded":
            self.stands = max(self.stands, epoch)

    def tick(self, now_ms: int) -> tuple[do.Command, ...]:
        """Time has passed: is somebody to be given up?"""
        stuck = now_ms - self.since_ms >= STUCK_MS
        given_up = f"silent for {self.standby.give_up}"
        away, copy_away = self._overdue(self.primary, now_ms), self._overdue(self.copy, now_ms)
        match self.phase:
            case "deploying" if stuck or copy_away:
                return self._copy_gone("it could not be deployed in time", now_ms)
            case "guarded" if copy_away and self.primary not in self.silent:
                return self._copy_gone(given_up, now_ms)
            case "guarded" | "switched" | "returning" if away and (copy_away or self.copy not in self.silent):
                return (do.GiveUp(self.primary, given_up),)
            case "returning" if stuck:
                return self._not_taken("it took too long", now_ms)
            case "launching" if stuck:
                return self._recover("no new host has got the state in time", now_ms)
        return self._advance(now_ms)

    def not_launched(self, now_ms: int) -> tuple[do.Command, ...]:
        """A recovery of other shards needs this pair's answers, and no new host has come."""
        waited = self.phase == "launching" and self.target is None and now_ms - self.since_ms >= LAUNCH_MS
        return self._recover("no new host has come, and a recovery waits for its shards", now_ms) if waited else ()

    # -- what follows ---------------------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> tuple[do.Command, ...]:
        """Whatever is true now, whichever event made it so."""
        away, copy_away = self.primary in self.silent, self.copy in self.silent
        match self.phase:
            case "guarded" if away and self.standby.mode == "passive":
                return (do.GiveUp(self.primary, f"{self.standby.misses} heartbeats missed"),)
            case "guarded" if away and not copy_away and self.standby.mode == "hybrid":
                return self._switch(now_ms)
            case "guarded" if away and not copy_away:
                return self._swap(f"{self.why}, a missed heartbeat")
            case "switched" | "returning" if copy_away and not away:
                return self._return(now_ms, read=False)
            case "switched" if not away:
                return self._read_back(now_ms)
            case "returning" if away:
                self._enter("switched", now_ms)
        return ()

    def _died(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        self.silent.pop(host, None)
        reason = f"host {host} died"
        if self.phase == "launching":
            return self._recover(reason, now_ms) if host in (self.copy, self.target) else ()
        if host == self.copy:
            taken_back = self._return(now_ms, read=False) if self.phase in ("switched", "returning") else ()
            return (*taken_back, *self._copy_gone(reason, now_ms))
        if host != self.primary:
            return ()
        if self.copy is None or self.phase == "deploying":
            return self._recover(reason, now_ms)
        if self.standby.mode == "passive":
            self._enter("launching", now_ms)
            return (do.Launch(host),)
        return self._promote(self.copy, reason, now_ms)

    def _deploy(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        if not self.wants_copy(now_ms) or host == self.primary:
            return ()
        self.copy = host
        self._enter("deploying", now_ms)
        return (self._send(self.primary, host),)

    def _taken(self, epoch: Epoch, now_ms: int) -> tuple[do.Command, ...]:
        match self.phase:
            case "deploying":
                assert self.copy is not None
                self.stands, self.failures = epoch, 0
                self._enter("guarded", now_ms)
                return (do.Guard(self.primary, self.copy), *self._advance(now_ms))
            case "returning":
                self.stands = max(self.stands, epoch)
                return self._return(now_ms, read=True)
            case "launching":
                assert self.target is not None and self.copy is not None
                self.stands, kept = epoch, self.copy
                launched = self._promote(self.target, "a new host was launched", now_ms)
                return (*launched, do.DropCopy(kept, "its state was launched"))
        return ()

    def _not_taken(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        match self.phase:
            case "deploying":
                return self._copy_gone(reason, now_ms)
            case "returning":
                self.failures += 1
                if self.failures >= READS:  # kept input brings it there, too
                    return self._return(now_ms, read=False)
                return self._read_back(now_ms)
            case "launching":
                return self._recover(reason, now_ms)
        return ()

    def _switch(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self._enter("switched", now_ms)
        return (do.Switch(self.primary, self.copy),)

    def _swap(self, reason: str) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self.primary, self.copy = self.copy, self.primary
        return (do.Swap(self.copy, self.primary, reason),)

    def _differed(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        """Whoever gave the answer that counted goes on; the other one is deployed anew."""
        if self.phase != "guarded" or self.standby.mode != "active" or host not in (self.primary, self.copy):
            return ()
        reason = "it gave another answer: an operator is not deterministic"
        swapped = self._swap(reason) if host == self.primary else ()
        self.not_before_ms = now_ms + PAUSE_MS
        return (*swapped, *self._copy_gone(reason, now_ms))

    def _read_back(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        if self.phase == "switched":
            self.failures = 0
        self._enter("returning", now_ms)  # another attempt has its own time
        return (self._send(self.copy, self.primary, back=True),)

    def _return(self, now_ms: int, *, read: bool) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self.failures, self.number = 0, self.number + 1  # what is still on its way is late
        self._enter("guarded", now_ms)
        return (do.Return(self.primary, self.copy, read),)

    def _promote(self, host: HostId, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        """This host is the primary from now on."""
        old, self.primary, self.copy, self.target = self.primary, host, None, None
        self.silent = {host: since for host, since in self.silent.items() if host == self.primary}
        self._enter("unguarded", now_ms)
        return (do.Promote(old, host, reason),)

    def _copy_gone(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        gone, self.copy = self.copy, None
        self.silent.pop(gone, None)
        if self.phase == "deploying":
            self.not_before_ms = now_ms + PAUSE_MS * 2 ** min(self.failures, 5)
            self.failures += 1
        self._enter("unguarded", now_ms)
        return (do.DropCopy(gone, reason),)

    def _recover(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        self._enter("lost", now_ms)
        return (do.Recover(reason),)

    def _send(self, host: HostId, to: HostId, *, back: bool = False) -> do.SendState:
        self.number += 1
        return do.SendState(host, to, self.number, back)

    def _enter(self, phase: Phase, now_ms: int) -> None:
        self.phase, self.since_ms = phase, now_ms

    def _overdue(self, host: HostId | None, now_ms: int) -> bool:
        return host in self.silent and now_ms - self.silent[host] >= self.standby.give_up.ms

    def check(self) -> None:
        """Assert the invariants."""
        if self.phase == "lost":
            return
        two = self.phase not in ("unguarded",)
        assert (self.copy is not None) == two and self.copy != self.primary
        assert self.target is None or self.phase == "launching"
        assert self.silent.keys() <= {self.primary, self.copy}
        assert self.phase not in ("switched", "returning") or self.standby.mode == "hybrid"
        assert self.phase != "launching" or self.standby.mode == "passive"
