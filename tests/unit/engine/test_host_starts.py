"""Hosts on their way: when the next is asked for, when the application gives up, and which of Spark's choices are taken."""

from __future__ import annotations

from perseid.checkpoint.schemes import parallel
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.controller import Controller
from perseid.engine.host_starts import DECLINE_PAUSES_S, LISTENED_MS, PAUSE_LIMIT_MS, PAUSE_MS, HostStarts, Spread
from perseid.engine.notices import Outcome
from perseid.engine.settings import EngineSettings, RootHistory
from perseid.simulation.graphs import chain
from perseid.vocabulary import HostId

TIMEOUT_MS = 10_000


class Starting:
    """A controller that waits for its hosts, and its time."""

    def __init__(self, slots: int | None = 4) -> None:
        settings = EngineSettings(parallel(1), hosts=2, spares=0, start_timeout_ms=TIMEOUT_MS, slots=slots)
        self.controller = Controller(chain(1), settings, RootHistory(), 0)
        self.now_ms = 0

    def tell(self, event: on.Event, after_ms: int = 0) -> tuple[Outcome, ...]:
        self.now_ms += after_ms
        for host in sorted(self.controller.hosts):
            self.controller.handle(on.HeartbeatArrived(host), self.now_ms)
        commands = self.controller.handle(event, self.now_ms)
        self.controller.check()
        return commands

    def wait(self, ms: int) -> list[Outcome]:
        return [outcome for _ in range(0, ms, 100) for outcome in self.tell(on.Ticked(), after_ms=100)]

    def restored(self, *hosts: int) -> None:
        for host in hosts:
            self.tell(on.ShardsRestored(HostId(host), self.controller.routing.version))


def test_too_few_hosts_at_the_start_end_the_application_with_what_to_do() -> None:
    starting = Starting()
    assert starting.tell(on.Ticked()) == (do.StartHost(), do.StartHost())
    starting.tell(on.HostRegistered(HostId(1)))
    assert not starting.wait(TIMEOUT_MS)
    (stop,) = starting.wait(100)
    assert stop == do.StopApplication(
        "only 1 of 2 hosts started within 10 s: every host holds a task slot for good (the cluster has 4);"
        " use a larger master, fewer hosts, or a longer start_timeout",
        None,
    )
    assert starting.controller.phase == "failed"


def test_the_error_tells_why_the_last_host_did_not_start() -> None:
    starting = Starting()
    starting.tell(on.Ticked())
    starting.tell(on.HostStartFailed("no route to executor 3"))
    assert starting.controller.trouble == "a host could not be started: no route to executor 3"
    starting.wait(TIMEOUT_MS + 100)
    assert starting.controller.error == (
        "only 0 of 2 hosts started within 10 s: the last that did not, says: no route to executor 3"
    )


def test_a_host_that_comes_ends_the_trouble() -> None:
    starting = Starting()
    starting.tell(on.Ticked())
    starting.tell(on.HostStartFailed("no route to executor 3"))
    starting.tell(on.HostRegistered(HostId(1)))
    assert not starting.controller.trouble


def test_a_running_application_waits_for_one_host_only_and_for_none_not_for_ever() -> None:
    starting = Starting()
    starting.tell(on.Ticked())
    for host in (1, 2):
        starting.tell(on.HostRegistered(HostId(host)))
    starting.restored(1, 2)
    assert starting.controller.phase == "running"
    starting.tell(on.HostDisconnected(HostId(2), "killed"))
    starting.wait(2 * TIMEOUT_MS)
    assert starting.controller.error is None
    starting.tell(on.HostDisconnected(HostId(1), "killed"))
    starting.wait(TIMEOUT_MS + 100)
    assert str(starting.controller.error).startswith("only 0 of 2 hosts started within 10 s: ")


def test_the_cluster_may_not_tell_its_slots() -> None:
    starting = Starting(slots=None)
    starting.wait(TIMEOUT_MS + 200)
    assert "the cluster has an unknown number" in str(starting.controller.error)


def test_a_python_that_can_run_no_host_ends_the_application_at_once() -> None:
    starting = Starting()
    starting.tell(on.Ticked())
    (stop,) = starting.tell(on.HostStartFailed("ModuleNotFoundError", "workers have no module 'mine'"))
    assert stop == do.StopApplication("no host can start: workers have no module 'mine'", None)


def test_where_hosts_have_run_nothing_is_hopeless() -> None:
    starting = Starting()
    starting.tell(on.Ticked())
    starting.tell(on.HostRegistered(HostId(1)))
    assert not starting.tell(on.HostStartFailed("ModuleNotFoundError", "workers have no module 'mine'"))
    assert starting.controller.error is None


def test_every_failure_in_a_row_doubles_the_pause_up_to_a_limit() -> None:
    starts = HostStarts(2, None, None, 0)
    now_ms, pauses = 0, []
    for _ in range(9):
        assert starts.failed("no", None, now_ms) is None
        pauses.append(starts.pause_ends_ms - now_ms)
        assert not starts.may_ask(starts.pause_ends_ms - 1) and starts.may_ask(starts.pause_ends_ms)
        now_ms = starts.pause_ends_ms
    assert pauses[:3] == [PAUSE_MS, 2 * PAUSE_MS, 4 * PAUSE_MS] and pauses[-1] == PAUSE_LIMIT_MS
    starts.registered()
    assert starts.may_ask(now_ms)
    starts.failed("no", None, now_ms)
    assert starts.pause_ends_ms - now_ms == PAUSE_MS


def test_hosts_that_fail_together_are_one_failure() -> None:
    starts = HostStarts(20, None, None, 0)
    for _ in range(20):
        starts.failed("no", None, 0)
    assert starts.pause_ends_ms == PAUSE_MS


def test_a_driver_that_was_paused_does_not_blame_its_hosts() -> None:
    starts = HostStarts(2, TIMEOUT_MS, None, 0)
    assert starts.looked(0, 10 * TIMEOUT_MS, starting=True) is None
    assert starts.waited_ms == LISTENED_MS


def test_without_a_limit_hosts_are_waited_for_as_long_as_it_takes() -> None:
    starts = HostStarts(2, None, None, 0)
    assert all(starts.looked(0, now_ms, starting=True) is None for now_ms in range(0, 1_000_000, 1_000))


def test_hosts_are_spread_over_executors_as_far_as_spark_lets_them() -> None:
    spread = Spread()
    assert not spread.declines(1, "a", {}, 2)
    assert spread.pause_s(2) == 0.0
    assert spread.declines(2, "a", {"a": 1, "b": 0}, 2)
    assert spread.pause_s(2) == DECLINE_PAUSES_S[0]
    assert not spread.declines(2, "b", {"a": 1}, 2)


def test_a_host_is_declined_a_limited_number_of_times() -> None:
    spread = Spread()
    hosts = {"a": 1}
    declined = [spread.declines(2, "a", hosts, 2) for _ in range(len(DECLINE_PAUSES_S) + 1)]
    assert declined == [True] * len(DECLINE_PAUSES_S) + [False]


def test_executors_that_are_gone_are_expected_until_they_do_not_come() -> None:
    spread = Spread()
    spread.declines(1, "a", {}, 2)
    for _ in DECLINE_PAUSES_S:
        assert spread.declines(2, "a", {"a": 1}, 1)
    assert not spread.declines(2, "a", {"a": 1}, 1)
    assert not spread.declines(3, "a", {"a": 2}, 1), "there is one executor from now on"
