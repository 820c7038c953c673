"""Primary and copy under any sequence of faults: one answer counts, none is lost, and the pair ends guarded or says that it is degraded.

Hosts are modelled by where their state stands. Commands and answers are delivered late, to hosts that sleep, wake up and die at any
step; input is trimmed as soon as the pair does not need it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perseid.standby import commands as do
from perseid.standby import events as on
from perseid.standby.modes import Standby, hybrid, passive
from perseid.standby.switching import Pair
from perseid.vocabulary import Epoch, HostId, Version

Order = do.Command | on.CopyRefreshed
WHICH = st.sampled_from(["primary", "primary", "copy", "copy", "other"])


@dataclass
class ModelHost:
    """A process: where its state stands, under which version it answers, and what it has not heard or said yet."""

    stands: Epoch
    told: Version | None = None  # it answers under this one
    heard: Version = Version(0)  # the newest it knows of
    alive: bool = True
    awake: bool = True
    known_dead: bool = False
    orders: deque[Order] = field(default_factory=deque)
    words: deque[on.Event] = field(default_factory=deque)


class Pairs(RuleBasedStateMachine):
    """The world of one pair."""

    standby: Standby = hybrid()

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.pair = Pair(self.standby, HostId(1), Version(1))
        self.hosts = {HostId(1): ModelHost(Epoch(0), Version(1), Version(1))}
        self.trimmed = Epoch(0)
        self.valid: dict[Version, set[HostId]] = {}
        self.recovering = False

    # -- the shell ------------------------------------------------------------------------------------------------

    def put(self, event: on.Event | None) -> None:
        """Give an event (None: the time) to the pair, and its commands to the hosts."""
        before = self.pair.answered
        commands = self.pair.tick(self.now_ms) if event is None else self.pair.handle(event, self.now_ms)
        if isinstance(event, on.EpochAnswered):
            refused = any(isinstance(command, do.Refuse) for command in commands)
            assert refused or event.epoch <= before + 1, "an epoch was left out"
        self.pair.check()
        if self.pair.answering is not None:
            self.valid.setdefault(self.pair.version, set()).add(self.pair.answering)
        for command in commands:
            self.carry_out(command)
        assert self.pair.needs_after >= self.trimmed, "input that is needed was trimmed"
        self.trimmed = self.pair.needs_after

    def carry_out(self, command: do.Command) -> None:
        match command:
            case do.DeployCopy() | do.Switch() | do.Return():
                self.hosts[command.to].orders.append(command)
            case do.ReadBack() | do.DropCopy():
                self.hosts[command.host].orders.append(command)
            case do.Launch():
                self.hosts[command.at].orders.append(command)
            case do.GiveUp():
                self.hosts[command.host].alive = False
                self.hosts[command.host].known_dead = True
                self.hosts[command.promoted].orders.append(command)
            case do.Recover():
                self.recovering = True
            case do.Refuse():
                pass

    def new_host(self, stands: Epoch) -> HostId:
        number = HostId(len(self.hosts) + 1)
        self.hosts[number] = ModelHost(stands)
        return number

    def obey(self, number: HostId, host: ModelHost, order: Order) -> None:
        """An awake host does what it was told."""
        match order:
            case do.DeployCopy():
                source = self.hosts[order.primary]
                if source.alive and source.awake:
                    host.stands, host.heard = source.stands, source.heard
                    host.words.append(on.CopyDeployed(number, order.number, host.stands))
                else:
                    host.words.append(on.DeployFailed(number, order.number, "the primary does not send"))
            case on.CopyRefreshed():
                if order.version >= host.heard and order.epoch >= host.stands:
                    host.stands = order.epoch
                    host.words.append(order)
            case do.Switch() | do.Return() | do.GiveUp():
                self.take_over(host, order)
            case do.ReadBack():
                source = self.hosts[order.source]
                if source.alive and source.awake:
                    host.stands = max(host.stands, source.stands)
                    host.words.append(on.StateRead(number, order.number, host.stands))
                else:
                    host.words.append(on.ReadFailed(number, order.number, "the copy does not send"))
            case do.Launch():
                launched = self.new_host(host.stands)
                host.words.append(on.HostLaunched(launched, order.version))
            case do.DropCopy():
                host.told = None
            case do.Recover() | do.Refuse():
                raise AssertionError(order)

    def take_over(self, host: ModelHost, order: do.Switch | do.Return | do.GiveUp) -> None:
        if order.version < self.pair.version:
            return  # kept input may be gone: nobody waits for it under that version
        assert host.stands >= order.since, "it stands further back than the pair believes"
        assert host.stands >= self.trimmed, "the input it lacks was trimmed"
        host.stands = max(host.stands, order.upto)
        host.told = host.heard = order.version

    def answer(self, number: HostId) -> on.EpochAnswered:
        """A task asks for the next epoch: who has applied it answers from what it kept, which is part of the state."""
        host = self.hosts[number]
        assert host.told is not None
        assert host.stands >= self.pair.answered or host.told < self.pair.version, (
            "it was not told of an answered epoch"
        )
        if host.stands <= self.pair.answered:
            host.stands = Epoch(host.stands + 1)
        return on.EpochAnswered(number, host.told, min(host.stands, Epoch(self.pair.answered + 1)))

    def find(self, which: str, *, awake: bool = False) -> HostId | None:
        """A host that lives; another one is the newest that is out of it, but does not know."""
        of = {"primary": self.pair.primary, "copy": self.pair.copy}
        others = [n for n in self.hosts if n not in of.values()]
        number = of[which] if which in of else others[-1] if others else None
        host = self.hosts[number] if number is not None else None
        return number if host is not None and host.alive and (host.awake or not awake) else None

    def all_arrives(self, number: HostId, host: ModelHost) -> None:
        """What it was told, and what it said."""
        while host.alive and host.awake and host.orders:
            self.obey(number, host, host.orders.popleft())
        while host.words:
            self.put(host.words.popleft())

    # -- what may happen ------------------------------------------------------------------------------------------

    @rule(which=WHICH)
    def a_host_works(self, which: str) -> None:
        number = self.find(which, awake=True)
        if number is not None and self.hosts[number].told is not None:
            self.hosts[number].words.append(self.answer(number))

    @rule(which=WHICH)
    def a_host_obeys(self, which: str) -> None:
        number = self.find(which, awake=True)
        if number is not None and (host := self.hosts[number]).orders:
            self.obey(number, host, host.orders.popleft())

    @rule(last=st.booleans())
    def a_host_is_heard(self, last: bool) -> None:
        talking = [host for host in self.hosts.values() if host.words]  # also of who is dead by now
        if talking:
            self.put(talking[-1 if last else 0].words.popleft())

    @rule()
    def nothing_is_on_its_way(self) -> None:
        for number, host in list(self.hosts.items()):
            self.all_arrives(number, host)

    @rule(which=WHICH)
    def a_host_sleeps(self, which: str) -> None:
        number = self.find(which)
        if number is not None:
            self.hosts[number].awake = False
            self.put(on.BeatMissed(number, 3))

    @rule(which=WHICH)
    def a_false_alarm(self, which: str) -> None:
        number = self.find(which)
        if number is not None:
            self.put(on.BeatMissed(number, 3))

    @rule(which=WHICH)
    def a_host_is_awake(self, which: str) -> None:
        number = self.find(which)
        if number is not None:
            self.hosts[number].awake = True
            self.put(on.BeatArrived(number))

    @rule(which=WHICH, seldom=st.integers(0, 3))
    def a_host_dies(self, which: str, seldom: int) -> None:
        number = self.find(which)
        if number is not None and not seldom:
            self.hosts[number].alive = False

    @rule()
    def a_death_is_noticed(self) -> None:
        dead = [n for n, host in self.hosts.items() if not host.alive and not host.known_dead]
        if dead:
            number = dead[0]
            self.hosts[number].known_dead = True
            self.put(on.HostDied(number))

    @initialize()
    def the_pair_is_guarded(self) -> None:
        self.a_place_is_found()
        self.nothing_is_on_its_way()

    @precondition(lambda self: self.pair.wants_copy(self.now_ms))
    @rule()
    def a_place_is_found(self) -> None:
        self.put(on.PlaceFound(self.new_host(Epoch(0))))

    @precondition(lambda self: self.pair.phase == "guarded")
    @rule()
    def the_copy_is_refreshed(self) -> None:
        primary, copy = self.hosts[self.pair.primary], self.pair.copy
        assert copy is not None
        if primary.alive and primary.awake and primary.told is not None and self.standby.refreshes:
            self.hosts[copy].orders.append(on.CopyRefreshed(copy, primary.told, primary.stands))

    @rule(ms=st.sampled_from([0, 100, 1_000, 25_000]))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.put(None)

    @precondition(lambda self: self.recovering)
    @rule()
    def the_shards_are_recovered(self) -> None:
        self.recovering = False
        number = self.new_host(self.pair.answered)
        self.hosts[number].told = self.hosts[number].heard = self.pair.version
        self.put(on.ShardsRecovered(number, self.pair.answered))

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def no_two_hosts_may_answer_under_one_version(self) -> None:
        assert all(len(hosts) == 1 for hosts in self.valid.values())

    def settle(self, *, places: bool) -> None:
        """No more faults: all that live wake up, and everything that is on its way arrives."""
        for _ in range(15):
            for number in list(self.hosts):
                host = self.hosts[number]
                if not host.alive and not host.known_dead:
                    host.known_dead = True
                    self.put(on.HostDied(number))
                elif host.alive:
                    host.awake = True
                    self.put(on.BeatArrived(number))
                self.all_arrives(number, host)
            if self.recovering:
                self.the_shards_are_recovered()
            self.now_ms += 20_000
            self.put(None)
            if places and self.pair.wants_copy(self.now_ms):
                self.a_place_is_found()

    def teardown(self) -> None:
        self.settle(places=False)
        assert self.pair.phase == "guarded" or (self.pair.phase == "unguarded" and self.pair.degraded)
        self.settle(places=True)
        assert self.pair.phase == "guarded"
        answering, before = self.pair.answering, self.pair.answered
        assert answering is not None
        assert self.hosts[answering].told == self.pair.version
        self.put(self.answer(answering))
        assert self.pair.answered == before + 1, "nobody answers the next epoch"


class PassivePairs(Pairs):
    """The same with state that is only stored."""

    standby = passive()


TestHybrid = Pairs.TestCase
TestPassive = PassivePairs.TestCase
TestHybrid.settings = TestPassive.settings = settings(stateful_step_count=60, deadline=None)
