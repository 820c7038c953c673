"""Primary and copy under any sequence of faults: one host answers, what is kept suffices for it, and the pair ends guarded, or is lost.

Hosts are modelled by where their state stands. State is on its way for a while and may come to nothing, hosts sleep, wake up and die at any
step, and are noticed late; the rows of an epoch are forgotten as soon as the pair says that both hosts have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby, active, hybrid, passive
from perseid.standby.switching import Pair
from perseid.vocabulary import Epoch, HostId

WHICH = st.sampled_from(["primary", "primary", "copy", "copy", "target", "other"])


@dataclass
class ModelHost:
    """A process, and where its state stands; None: it has none of the pair's shards."""

    stands: Epoch | None = None
    alive: bool = True
    awake: bool = True
    known_dead: bool = False


@dataclass
class OnItsWay:
    """State that one host sent to another."""

    command: do.SendState
    stands: Epoch = field(default_factory=lambda: Epoch(0))


class Pairs(RuleBasedStateMachine):
    """The world of one pair."""

    standby: Standby = hybrid()

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.pair = Pair(self.standby, HostId(1))
        self.hosts = {HostId(1): ModelHost(Epoch(0))}
        self.sent: list[OnItsWay] = []
        self.answered = Epoch(0)
        self.silent_ms: dict[HostId, int] = {}  # since when the pair knows
        self.given_up: set[HostId] = set()

    # -- the shell ------------------------------------------------------------------------------------------------

    def put(self, event: on.Event | None) -> None:
        """Give an event (None: the time) to the pair, and carry its commands out."""
        primary = self.pair.primary
        commands = self.pair.tick(self.now_ms) if event is None else self.pair.handle(event, self.now_ms)
        self.pair.check()
        for command in commands:
            self.carry_out(command, primary)
        dead = [host for host in self.given_up if not self.hosts[host].known_dead]
        for host in dead:
            self.notice(host)

    def carry_out(self, command: do.Command, primary: HostId) -> None:
        match command:
            case do.SendState(host, to):
                assert self.known_alive(host) and self.known_alive(to) and host != to
                stands = self.hosts[host].stands
                assert stands is not None, "a host is to send what it has not"
                if self.hosts[host].alive and self.hosts[host].awake:
                    self.sent.append(OnItsWay(command, stands))
                else:
                    self.sent.append(OnItsWay(command, Epoch(-1)))
            case do.Guard(host, copy):
                assert self.hosts[copy].stands is not None and host != copy
            case do.Switch(_, copy) | do.Swap(_, copy, _):
                self.take_over(copy)
            case do.Return(host, _, _):
                self.take_over(host)
            case do.Promote(old, promoted, _):
                assert not self.known_alive(old), "who may still answer is replaced"
                self.take_over(promoted)
            case do.GiveUp(host, _):
                self.may_be_given_up(host)
                self.hosts[host].alive = False
                self.given_up.add(host)
            case do.Launch(old):
                assert not self.known_alive(old)
            case do.DropCopy(host, _):
                self.hosts[host].stands = None
            case do.Recover():
                assert primary == self.pair.primary and self.pair.phase == "lost"

    def may_be_given_up(self, host: HostId) -> None:
        assert host in self.silent_ms, "a host that is heard is given up"
        if self.standby.mode != "passive":
            assert self.now_ms - self.silent_ms[host] >= self.standby.give_up.ms
            assert self.pair.copy is not None and self.known_alive(self.pair.copy)

    def take_over(self, host: HostId) -> None:
        """It makes up from kept rows what has been answered meanwhile."""
        assert self.known_alive(host), "a dead host is to answer"
        stands = self.hosts[host].stands
        assert stands is not None, "it has no copy"
        assert stands >= self.forgotten, "the rows that it lacks are forgotten"
        self.hosts[host].stands = max(stands, self.answered)

    @property
    def forgotten(self) -> Epoch:
        """Rows up to here are kept no more."""
        return self.pair.stands

    def known_alive(self, host: HostId) -> bool:
        return not self.hosts[host].known_dead

    def new_host(self) -> HostId:
        number = HostId(len(self.hosts) + 1)
        self.hosts[number] = ModelHost()
        return number

    def notice(self, host: HostId) -> None:
        self.hosts[host].known_dead = True
        self.silent_ms.pop(host, None)
        self.put(on.HostDied(host))

    def find(self, which: str) -> HostId | None:
        """A host that lives; another one is the newest that is out of it."""
        of = {"primary": self.pair.primary, "copy": self.pair.copy, "target": self.pair.target}
        others = [n for n in self.hosts if n not in of.values()]
        number = of[which] if which in of else others[-1] if others else None
        return number if number is not None and self.hosts[number].alive else None

    def hear(self, host: HostId, misses: int) -> None:
        """Its heart says that it missed so many beats, or (0) that it is well."""
        if not self.known_alive(host):
            return
        if misses:
            self.silent_ms.setdefault(host, self.now_ms)
            self.put(on.HostSilent(host, misses, "stopped"))
        else:
            self.silent_ms.pop(host, None)
            self.put(on.HostHeard(host))

    def arrives(self, state: OnItsWay, *, well: bool) -> None:
        number, to = state.command.number, self.hosts[state.command.to]
        wanted = number == self.pair.number and self.pair.phase in ("deploying", "returning", "launching")
        if not well or state.stands < 0 or not to.alive or not to.awake:
            self.put(on.CopyNotTaken(number, "it did not arrive"))
            return
        if wanted:  # else a copy that is no more refuses it, or a primary that has gone on
            to.stands = state.stands if to.stands is None else max(to.stands, state.stands)
        self.put(on.CopyTaken(number, state.stands))

    # -- what may happen ------------------------------------------------------------------------------------------

    @initialize()
    def the_pair_is_guarded(self) -> None:
        self.a_place_is_found()
        self.state_arrives(True, True)
        assert self.pair.phase == "guarded"

    @rule()
    def an_epoch_is_answered(self) -> None:
        host = self.pair.answering
        if host is None or not self.hosts[host].alive or not self.hosts[host].awake:
            return
        assert self.hosts[host].stands == self.answered, "who answers lacks an epoch, or is ahead of what was answered"
        self.answered = Epoch(self.answered + 1)
        self.hosts[host].stands = self.answered
        copy = self.hosts[self.pair.copy] if self.pair.copy is not None else None
        if self.standby.mode == "active" and self.pair.guarded and copy is not None and copy.alive and copy.awake:
            assert copy.stands is not None
            copy.stands = self.answered

    @precondition(lambda self: self.pair.guarded)
    @rule()
    def the_copy_is_refreshed(self) -> None:
        assert self.pair.copy is not None
        primary, copy = self.hosts[self.pair.primary], self.hosts[self.pair.copy]
        assert primary.stands is not None and copy.stands is not None
        if primary.alive and primary.awake and copy.alive and copy.awake:
            if self.standby.refreshes:
                copy.stands = primary.stands
            self.pair.refreshed(min(primary.stands, copy.stands))

    @rule(well=st.booleans(), last=st.booleans())
    def state_arrives(self, well: bool, last: bool) -> None:
        if self.sent:
            self.arrives(self.sent.pop(-1 if last else 0), well=well)

    @rule(which=WHICH)
    def a_host_sleeps(self, which: str) -> None:
        number = self.find(which)
        if number is not None:
            self.hosts[number].awake = False

    @rule(which=WHICH, misses=st.integers(1, 4))
    def a_host_is_missed(self, which: str, misses: int) -> None:
        """Whether it sleeps or not: its heart is starved with it now and then."""
        number = self.find(which)
        if number is not None:
            self.hear(number, misses)

    @rule(which=WHICH)
    def a_host_is_awake(self, which: str) -> None:
        number = self.find(which)
        if number is not None:
            self.hosts[number].awake = True
            self.hear(number, 0)

    @rule(which=WHICH, seldom=st.integers(0, 3))
    def a_host_dies(self, which: str, seldom: int) -> None:
        number = self.find(which)
        if number is not None and not seldom:
            self.hosts[number].alive = False

    @rule()
    def a_death_is_noticed(self) -> None:
        dead = [n for n, host in self.hosts.items() if not host.alive and not host.known_dead]
        if dead:
            self.notice(dead[0])

    @precondition(lambda self: self.pair.wants_copy(self.now_ms))
    @rule()
    def a_place_is_found(self) -> None:
        self.put(on.PlaceFound(self.new_host()))

    @precondition(lambda self: self.pair.phase == "launching" and self.pair.target is None)
    @rule()
    def a_host_is_launched(self) -> None:
        self.put(on.HostLaunched(self.new_host()))

    @rule(ms=st.sampled_from([0, 100, 1_000, 25_000, 70_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.put(None)

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def who_answers_is_one_of_the_two_and_not_known_to_be_dead(self) -> None:
        answering = self.pair.answering
        if answering is None:
            assert self.pair.phase in ("launching", "lost")
        else:
            assert answering in (self.pair.primary, self.pair.copy) and self.known_alive(answering)

    @invariant()
    def a_primary_that_is_well_answers_under_every_standby_but_hybrid(self) -> None:
        if self.standby.mode != "hybrid" and self.pair.phase not in ("launching", "lost"):
            assert self.pair.answering == self.pair.primary

    def settle(self, *, places: bool) -> None:
        """No more faults: all that live wake up, and everything that is on its way arrives."""
        for _ in range(15):
            for number in list(self.hosts):
                host = self.hosts[number]
                if host.alive:
                    host.awake = True
                    self.hear(number, 0)
                elif not host.known_dead:
                    self.notice(number)
            while self.sent:
                self.arrives(self.sent.pop(0), well=True)
            if self.pair.phase == "launching" and self.pair.target is None:
                self.a_host_is_launched()
            if places and self.pair.wants_copy(self.now_ms):
                self.a_place_is_found()
            self.now_ms += 20_000
            self.put(None)

    def teardown(self) -> None:
        self.settle(places=False)
        assert self.pair.phase in ("guarded", "unguarded", "lost"), "it is stuck"
        if self.pair.phase == "lost":
            return
        self.settle(places=True)
        assert self.pair.phase == "guarded" and not self.pair.silent
        before = self.answered
        self.an_epoch_is_answered()
        assert self.answered == before + 1, "nobody answers the next epoch"


class ActivePairs(Pairs):
    """The same with two hosts at work."""

    standby = active()


class PassivePairs(Pairs):
    """The same with state that is only stored."""

    standby = passive()


TestHybrid = Pairs.TestCase
TestActive = ActivePairs.TestCase
TestPassive = PassivePairs.TestCase
TestHybrid.settings = TestActive.settings = TestPassive.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None
)
