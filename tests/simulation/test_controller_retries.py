"""No retry without a bound, and none that waits for nothing: lost hosts are no failures of an epoch, and whatever does not end is told."""

from __future__ import annotations

from collections.abc import Iterator

from worlds import calm

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.notices import Outcome
from perseid.engine.recovery_steps import REST_LIMIT_MS
from perseid.engine.settings import RootHistory
from perseid.engine.unit_ends import SETBACKS_LIMIT
from perseid.simulation.graphs import chain
from perseid.vocabulary import Epoch, HostId

LIFE_MS = 3_000


class Story:
    """A controller at its first epoch, and what it commands."""

    def __init__(self) -> None:
        scenario = calm(chain(1))
        self.controller = Controller(scenario.topology, scenario.settings, RootHistory(), 0)
        self.now_ms, self.host = 0, 2
        for host in (1, 2):
            self.tell(on.HostRegistered(HostId(host)))
        for host in (1, 2):
            self.tell(on.ShardsRestored(HostId(host), self.controller.routing.version))
        self.run = self.until_run([on.EpochAdmitted(Epoch(1))])

    def tell(self, event: on.Event, after_ms: int = 0) -> tuple[Outcome, ...]:
        self.now_ms += after_ms
        for host in sorted(self.controller.hosts):
            self.controller.handle(on.HeartbeatArrived(host), self.now_ms)
        commands = self.controller.handle(event, self.now_ms)
        self.controller.check()
        return commands

    def until_run(self, events: list[on.Event]) -> do.RunEpoch:
        """Whatever the controller wants of hosts is done at once; the next epoch it commands, within half a second."""
        until_ms = self.now_ms + 500
        waiting: Iterator[on.Event] = iter(events)
        while self.now_ms < until_ms:
            pending = [*self.tell(next(waiting, on.Ticked()), after_ms=10)]
            while pending:
                command = pending.pop(0)
                if isinstance(command, do.RunEpoch):
                    return command
                if isinstance(command, do.RestoreShards):
                    pending += self.tell(on.ShardsRestored(command.host, command.version))
        raise AssertionError(f"no epoch within half a second: {self.controller.trouble}")

    def lose_a_host(self) -> list[on.Event]:
        """The epoch fails because a host has died, which the controller hears a moment later; another one comes."""
        lost = min(filter(None, self.controller.routing.hosts))
        self.host += 1
        self.now_ms += LIFE_MS
        return [
            on.UnitFailed(self.run.unit, self.run.epoch, self.run.attempt, "host", "no answer", hosts=(lost,)),
            on.HostDisconnected(lost, "killed"),
            on.HostRegistered(HostId(self.host)),
        ]


def test_hosts_that_die_one_after_the_other_neither_end_the_application_nor_make_it_wait_longer_every_time() -> None:
    story = Story()
    for _ in range(30):
        story.run = story.until_run(story.lose_a_host())
        assert story.controller.error is None and story.controller.pipeline.units[story.run.unit].failures == 0
    assert "epoch 1, attempt 31" in story.controller.trouble
    story.tell(on.UnitFinished(story.run.unit, story.run.epoch, story.run.attempt))
    assert not story.controller.trouble


def test_an_epoch_that_kills_every_host_ends_the_application_with_what_to_look_for() -> None:
    story = Story()
    for _ in range(SETBACKS_LIMIT):
        story.run = story.until_run(story.lose_a_host())
    for event in story.lose_a_host():
        story.tell(event, after_ms=10)
    assert story.controller.phase == "failed"
    assert "was tried 101 times, and hosts or shards were lost every time" in str(story.controller.error)


def test_a_job_that_spark_does_not_end_is_told_of_and_not_waited_for_for_ever() -> None:
    story = Story()
    story.tell(on.HostDisconnected(min(filter(None, story.controller.routing.hosts)), "killed"))
    story.tell(on.Ticked(), after_ms=5_000)
    assert "Spark has not yet ended the cancelled job of unit 'u0'" in story.controller.trouble
    story.tell(on.Ticked(), after_ms=REST_LIMIT_MS)
    story.tell(on.Ticked(), after_ms=10)
    assert story.controller.phase == "failed" and "Spark has not ended its job" in str(story.controller.error)


def test_shards_that_never_report_are_not_asked_for_ever() -> None:
    story = Story()
    tried = 1
    while story.controller.error is None:
        failed = on.UnitFailed(story.run.unit, story.run.epoch, story.run.attempt, "unreported", "no report from o0/0")
        if [c for c in story.tell(failed) if isinstance(c, do.StopApplication)]:
            break
        story.run, tried = story.until_run([]), tried + 1
    assert tried == 3


def test_losses_in_quick_succession_do_not_put_a_recovery_off_again_and_again() -> None:
    """All hosts are lost, and the first that comes back is lost again and again: the others are waited for only for a moment."""
    story = Story()
    failed = on.UnitFailed(story.run.unit, story.run.epoch, story.run.attempt, "cancelled", "taken back")
    for host in sorted(story.controller.hosts):
        story.tell(on.HostDisconnected(host, "killed"))
    story.tell(failed)
    restored: list[do.Command] = []
    for host in map(HostId, range(10, 14)):
        story.tell(on.HostRegistered(host))
        restored += [c for c in story.tell(on.Ticked(), after_ms=1_000) if isinstance(c, do.RestoreShards)]
        story.tell(on.HostDisconnected(host, "killed"))
    assert restored
