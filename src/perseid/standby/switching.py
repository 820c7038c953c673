"""One primary host's shards and their second copy (H3, H5): who of the two answers, from one step to the next.

unguarded   the primary works without a copy; a place for one is looked for
deploying   a copy is made on another host, from the primary's full state
guarded     the copy is suspended and refreshed (hybrid), or its state is stored (passive)
switched    the primary missed a heartbeat: the copy answers (hybrid)
returning   the primary is back and reads the copy's state, while the copy goes on answering (hybrid)
launching   the primary is given up, and a new host is made of the stored state (passive)
lost        no copy can go on: the usual recovery of lost shards is at work

Either host can take over from where it stands, as input is kept from where the hindmost of the two stands (``needs_after``). Reading the
state back only saves the primary the way. So a copy that falls silent or dies while it answers hands back to a primary that is alive,
at once.

The machine does not judge whether the only host left is dead: the detector says so (``recovery.detection``), and the shards are recovered.
As long as there are two, a silent one is not dead before the standby's ``give_up``.

A copy applies a refresh only under the version it was told last, and only if it is newer than what the copy has.

Invariants: no two hosts may answer under one version; whoever takes over is told of every epoch that was answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, assert_never

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby
from perseid.vocabulary import Epoch, HostId, Version

Phase = Literal["unguarded", "deploying", "guarded", "switched", "returning", "launching", "lost"]

PAUSE_MS = 500  # after a copy could not be deployed, twice as long after the next time
READS = 3  # attempts at reading state back, then the primary is given up
STUCK_MS = 600_000  # a host that is alive but does not finish what it was told


@dataclass(slots=True)
class Pair:
    """The shards of one primary host, and their copy."""

    standby: Standby
    primary: HostId
    version: Version  # of whose answers count; the first
    answered: Epoch = Epoch(0)  # the newest epoch whose answer was accepted
    phase: Phase = "unguarded"
    copy: HostId | None = None
    answering: HostId | None = None  # whose answers count under this version
    stands: dict[HostId, Epoch] = field(default_factory=dict)  # the state of each is at least as new as this
    silent: dict[HostId, int] = field(default_factory=dict)  # since when
    number: int = 0  # of the last attempt at a deployment or a read-back
    failures: int = 0  # in a row
    since_ms: int = 0  # when the phase began
    not_before_ms: int = 0  # the next deployment
    ended: set[HostId] = field(
        default_factory=set
    )  # died while the shards have no host: one may be about to be called theirs
    wanted: Standby | None = None  # another standby, as soon as no switch is under way

    def __post_init__(self) -> None:
        self.answering, self.stands = self.primary, {self.primary: self.answered}

    # -- what others may know -------------------------------------------------------------------------------------

    def accepts(self, host: HostId, version: Version) -> bool:
        """Does an answer of this host, given under this version, count?"""
        return host == self.answering and version == self.version

    def wants_copy(self, now_ms: int) -> bool:
        """Is a place for a copy looked for?"""
        ready = self.phase == "unguarded" and self.primary not in self.silent and self.wanted is None
        return ready and self.standby.refreshes and now_ms >= self.not_before_ms

    @property
    def degraded(self) -> bool:
        """Would the loss of the primary now need the usual recovery, though there should be a copy?"""
        return self.standby.refreshes and self.phase in ("unguarded", "deploying", "lost")

    @property
    def needs_after(self) -> Epoch:
        """Input after this epoch must be kept: one of the hosts may have to apply it."""
        return min((self.answered, *self.stands.values()))

    def waits_for(self, host: HostId) -> bool:
        """Is a silent host not to be taken for dead, as another can stand in for it?"""
        return self.phase in ("guarded", "switched", "returning") and host in self.stands

    # -- what happens ---------------------------------------------------------------------------------------------

    def handle(self, event: on.Event, now_ms: int) -> tuple[do.Command, ...]:
        """Take in an event, and say what is to be done."""
        match event:
            case on.BeatMissed():
                if event.host in self.stands and event.count >= (self.standby.misses or 1):
                    self.silent.setdefault(event.host, now_ms)
            case on.BeatArrived():
                self.silent.pop(event.host, None)
            case on.HostDied():
                return self._died(event.host, now_ms)
            case on.PlaceFound():
                return self._deploy(event.host, now_ms)
            case on.CopyDeployed():
                if self._is_current(event, "deploying"):
                    self.stands[event.host], self.failures = event.epoch, 0
                    self._enter("guarded", now_ms)
            case on.DeployFailed():
                if self._is_current(event, "deploying"):
                    return self._copy_gone(event.reason, now_ms)
            case on.CopyRefreshed():
                if self.phase == "guarded" and event.host == self.copy and event.version == self.version:
                    self.stands[event.host] = max(self.stands[event.host], event.epoch)
            case on.EpochAnswered():
                return self._answered(event)
            case on.StateRead():
                if self._is_current(event, "returning"):
                    self.stands[event.host] = max(self.stands[event.host], event.epoch)
                    return self._return(now_ms)
            case on.ReadFailed():
                if self._is_current(event, "returning"):
                    self.failures += 1
                    if self.failures >= READS:
                        return self._promote(event.reason, now_ms)
                    return self._read_back(now_ms)
            case on.HostLaunched():
                if self.phase == "launching" and event.version == self.version:
                    if event.host in self.ended:
                        return self._recover(f"host {event.host} died", now_ms)
                    return self._launched(event.host, now_ms)
            case on.LaunchFailed():
                if self.phase == "launching" and event.version == self.version:
                    return self._recover(event.reason, now_ms)
            case on.CatchUpFailed():
                if self.accepts(event.host, event.version) or (
                    self.phase == "launching" and event.version == self.version
                ):
                    return self._recover(event.reason, now_ms)
            case on.ShardsRecovered():
                if self.phase == "lost":
                    if event.host in self.ended:
                        return self._recover(f"host {event.host} died", now_ms)
                    self.primary = self.answering = event.host
                    self.answered, self.stands = event.epoch, {event.host: event.epoch}
                    self.ended.clear()
                    self._enter("unguarded", now_ms)
            case on.StandbyChanged():
                self.wanted = event.standby
            case _:
                assert_never(event)
        return self._advance(now_ms)

    def tick(self, now_ms: int) -> tuple[do.Command, ...]:
        """Time has passed: is somebody to be given up?"""
        stuck = now_ms - self.since_ms >= STUCK_MS
        match self.phase:
            case "deploying" if stuck or self._overdue(self.copy, now_ms):
                return self._copy_gone("it could not be deployed in time", now_ms)
            case "guarded" if self._overdue(self.copy, now_ms) and self.primary not in self.silent:
                return self._copy_gone(f"silent for {self.standby.give_up}", now_ms)
            case "guarded" | "switched" if self._overdue(self.primary, now_ms) and self._overdue(self.copy, now_ms):
                return self._recover(f"both hosts were silent for {self.standby.give_up}", now_ms)
            case "switched" if self._overdue(self.primary, now_ms) and self.copy not in self.silent:
                return self._promote(f"silent for {self.standby.give_up}", now_ms)
            case "returning" if stuck:
                return self._promote("it did not read the state back in time", now_ms)
            case "launching" if stuck:
                return self._recover("no new host was launched in time", now_ms)
        return self._advance(now_ms)

    # -- what follows ---------------------------------------------------------------------------------------------

    def _advance(self, now_ms: int) -> tuple[do.Command, ...]:
        """Whatever is true now, whichever event made it so."""
        away, copy_away = self.primary in self.silent, self.copy in self.silent
        if self.wanted is not None and self.phase in ("unguarded", "deploying", "guarded", "lost"):
            return self._change(self.wanted, now_ms)
        match self.phase:
            case "guarded" if away and self.standby.mode == "passive":
                return self._launch(now_ms)
            case "guarded" if away and not copy_away:
                return self._switch(now_ms)
            case "switched" | "returning" if copy_away and not away:
                return self._return(now_ms)
            case "switched" if not away:
                return self._read_back(now_ms)
            case "returning" if away:
                self._enter("switched", now_ms)
        return ()

    def _died(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        if host not in self.stands:
            if self.answering is None:
                self.ended.add(host)
            return ()
        self.silent.pop(host, None)
        reason = f"host {host} died"
        if self.phase in ("unguarded", "launching") or (self.phase == "deploying" and host == self.primary):
            return self._recover(reason, now_ms) if host in (self.answering, self.copy) else ()
        if host == self.copy:
            taken_back = self._return(now_ms) if self.phase in ("switched", "returning") else ()
            return (*taken_back, *self._copy_gone(reason, now_ms))
        return self._launch(now_ms) if self.standby.mode == "passive" else self._promote(reason, now_ms)

    def _answered(self, event: on.EpochAnswered) -> tuple[do.Command, ...]:
        if not self.accepts(event.host, event.version):
            return (do.Refuse(event.host, event.version, event.epoch),)
        self.answered = max(self.answered, event.epoch)
        self.stands[event.host] = max(self.stands[event.host], event.epoch)
        return ()

    def _deploy(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        if not self.wants_copy(now_ms) or host == self.primary:
            return ()
        self.copy, self.stands[host] = host, self.answered
        self.number += 1
        self._enter("deploying", now_ms)
        return (do.DeployCopy(self.primary, host, self.number),)

    def _switch(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self._answers(self.copy)
        self._enter("switched", now_ms)
        return (do.Switch(self.version, self.primary, self.copy, self.stands[self.copy], self.answered),)

    def _read_back(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        if self.phase == "switched":
            self.failures = 0
            self._enter("returning", now_ms)
        self.number += 1
        return (do.ReadBack(self.primary, self.copy, self.number),)

    def _return(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self._answers(self.primary)
        self.failures = 0
        self._enter("guarded", now_ms)
        return (do.Return(self.version, self.copy, self.primary, self.stands[self.primary], self.answered),)

    def _promote(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        """The copy is the primary from now on."""
        assert self.copy is not None
        old, self.primary, self.copy = self.primary, self.copy, None
        if self.answering != self.primary:
            self._answers(self.primary)
        since = self._forget(old)
        self._enter("unguarded", now_ms)
        return (do.GiveUp(self.version, old, self.primary, since, self.answered, reason),)

    def _launch(self, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        self._answers(None)
        self._enter("launching", now_ms)
        return (do.Launch(self.version, self.primary, self.copy, self.stands[self.copy], self.answered),)

    def _launched(self, host: HostId, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        old, since = self.primary, self.stands[self.copy]
        self.primary = self.answering = host
        self.copy, self.stands, self.silent = None, {host: since}, {}
        self.ended.clear()
        self._enter("unguarded", now_ms)
        return (do.GiveUp(self.version, old, host, since, self.answered, "a new host was launched"),)

    def _copy_gone(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        assert self.copy is not None
        gone, self.copy = self.copy, None
        self._forget(gone)
        if self.phase == "deploying":
            self.not_before_ms = now_ms + PAUSE_MS * 2 ** min(self.failures, 5)
            self.failures += 1
        self._enter("unguarded", now_ms)
        return (do.DropCopy(gone, reason),)

    def _change(self, standby: Standby, now_ms: int) -> tuple[do.Command, ...]:
        """Another standby; another mode needs a copy of another kind."""
        other_kind = standby.mode != self.standby.mode
        self.standby, self.wanted = standby, None
        if other_kind and self.copy is not None:
            return self._copy_gone(f"standby is now {standby}", now_ms)
        return self._advance(now_ms)

    def _recover(self, reason: str, now_ms: int) -> tuple[do.Command, ...]:
        hosts = tuple(sorted(self.stands))
        self._answers(None)
        self.copy, self.stands, self.silent, self.failures = None, {}, {}, 0
        self._enter("lost", now_ms)
        return (do.Recover(self.version, hosts, reason),)

    def _answers(self, host: HostId | None) -> None:
        self.version, self.answering = Version(self.version + 1), host
        self.ended.clear()

    def _enter(self, phase: Phase, now_ms: int) -> None:
        self.phase, self.since_ms = phase, now_ms

    def _forget(self, host: HostId) -> Epoch:
        """A host is out of it. Returns where the primary stands."""
        del self.stands[host]
        self.silent.pop(host, None)
        return self.stands[self.primary]

    def _overdue(self, host: HostId | None, now_ms: int) -> bool:
        return host in self.silent and now_ms - self.silent[host] >= self.standby.give_up.ms

    def _is_current(
        self, event: on.CopyDeployed | on.DeployFailed | on.StateRead | on.ReadFailed, phase: Phase
    ) -> bool:
        return self.phase == phase and event.number == self.number

    def check(self) -> None:
        """Assert the invariants."""
        two = self.phase in ("deploying", "guarded", "switched", "returning", "launching")
        assert (self.copy is not None) == two and self.copy != self.primary
        answers = {"switched": self.copy, "returning": self.copy, "launching": None, "lost": None}
        assert self.answering == answers.get(self.phase, self.primary)
        hosts = () if self.phase == "lost" else (self.primary, self.copy) if two else (self.primary,)
        assert self.stands.keys() == set(hosts)
        assert self.silent.keys() <= self.stands.keys()
        assert self.needs_after <= self.answered
        assert self.answering is None or not self.ended
