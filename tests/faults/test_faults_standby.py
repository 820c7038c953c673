"""Hosts with a second copy are stopped, killed, and lose their copies; nothing is restored, and every row is counted exactly once."""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import time
from typing import Any, Literal

import apps
import pyarrow as pa
import pytest
from apps import Begin, Folder

import perseid
from perseid import App, Operator, every
from perseid.driver.running import Running
from perseid.engine.progress import StandbyStatus
from perseid.standby.modes import Standby
from perseid.testing import kill, pause
from perseid.testing.counter import count_fault

pytestmark = pytest.mark.spark
slow = pytest.mark.slow

RATE = 1_500
HYBRID, ACTIVE, PASSIVE = perseid.standby.hybrid(), perseid.standby.active(), perseid.standby.passive()
LONG_S = 600.0  # until it is healed


class Shuffled(apps.Count):
    """Counts, and tells it in another order on every host."""

    def process(self, rows: pa.Table) -> pa.Table:
        told = super().process(rows)
        return told.take(random.Random(os.getpid() + self.context.epoch).sample(range(len(told)), len(told)))


def counts(
    folder: Folder,
    rows: int,
    standby: Standby,
    shards: int = 2,
    operator: Operator | None = None,
    *,
    twice: bool = False,
) -> App:
    """``twice``: two read its output, so that Spark keeps it."""
    app = App("counts")
    stream = app.source("numbers", apps.numbers(rows, RATE))
    counted = stream.stateful(
        "count", operator or apps.Count(), key="key", shards=shards, output=apps.COUNTED, standby=standby
    )  # fmt: skip
    counted.sink("out", perseid.sinks.parquet(folder.out))
    if twice:
        counted.transform("only-even", lambda df: df.where("key % 2 = 0")).sink("even", perseid.sinks.noop())
    return app


class Stream:
    """A run of so many seconds' rows, which come when the test lets them."""

    def __init__(
        self,
        begin: Begin,
        folder: Folder,
        seconds: float,
        standby: Standby,
        operator: Operator | None = None,
        *,
        twice: bool = False,
        **more: Any,
    ) -> None:
        self.folder, self.rows, self.left_s = folder, round(RATE * seconds), seconds
        self.tap = apps.Tap()
        settings = {"clock": self.tap, "spares": 1, "hosts": 2, **more}
        self.running: Running = begin(counts(folder, self.rows, standby, operator=operator, twice=twice), **settings)
        self.let(0.5)
        self.guarded()

    def let(self, seconds: float) -> None:
        """Rows come, and are committed."""
        before, seconds = self.running.progress().rows_in, min(seconds, self.left_s)
        self.left_s -= seconds
        self.tap.let(seconds)
        apps.wait_until(lambda: self.running.wait(0) or self.running.progress().rows_in > before, "more rows")

    def pair(self) -> StandbyStatus:
        """The one of the first shard."""
        return next(one for one in self.running.progress().standby if "count/0" in one.shards)

    def send(self, host: int | None, stray: signal.Signals) -> None:
        """To the process of a host, whether it has shards or copies; if it is still there."""
        pids = [one.pid for one in self.running.progress().hosts if one.host == host]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, stray)
                count_fault("kill" if stray is signal.SIGKILL else "pause")

    def wake(self, host: int | None) -> None:
        for one in self.running.progress().hosts:
            if one.host == host:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGCONT)

    def is_replaced(self, host: int) -> bool:
        return all(one.primary != host for one in self.running.progress().standby)

    def guarded(self) -> None:
        self.until("guarded")

    def until(self, phase: str) -> None:
        def reached() -> bool:
            pairs = self.running.progress().standby
            return bool(pairs) and all(one.phase == phase for one in pairs if phase == "guarded" or one == self.pair())

        apps.wait_until(reached, f"a pair that is {phase}: {self.folder.kinds()[-8:]}")

    def end(self) -> None:
        """All rows come, and each was counted once."""
        self.tap.let(self.left_s + 1)
        apps.end(self.running)
        apps.check_counts(self.folder.out, self.rows)

    def recoveries(self) -> list[str]:
        """Beside the start: what was restored from a checkpoint."""
        return [e["reason"] for e in self.folder.journal() if e["kind"] == "recovery_started"][1:]


def test_a_stopped_host_is_answered_for_and_takes_over_again(begin: Begin, folder: Folder) -> None:
    stream = Stream(begin, folder, 4, HYBRID)
    asleep = pause(stream.running, host="count/0", seconds=LONG_S)
    stream.until("switched")
    stream.let(1)  # the copy answers
    asleep.heal()
    stream.guarded()
    stream.end()
    assert stream.recoveries() == []
    assert {"switched", "rolled_back"} <= set(folder.kinds()) and "host_lost" not in folder.kinds()


@pytest.mark.parametrize("standby", [HYBRID, pytest.param(ACTIVE, marks=slow), PASSIVE], ids=lambda one: one.mode)
def test_a_killed_host_is_replaced_and_nothing_is_restored(begin: Begin, folder: Folder, standby: Standby) -> None:
    stream = Stream(begin, folder, 4, standby)
    kill(stream.running, host="count/0")
    stream.let(1)
    apps.wait_until(lambda: "given_up" in folder.kinds(), "another primary")
    stream.let(1)
    stream.end()
    assert stream.recoveries() == []


@pytest.mark.parametrize("standby", [ACTIVE], ids=lambda one: one.mode)
def test_a_stopped_host_of_two_that_answer_is_not_waited_for(begin: Begin, folder: Folder, standby: Standby) -> None:
    stream = Stream(begin, folder, 4, standby)
    asleep = pause(stream.running, host="count/0", seconds=LONG_S)
    for _ in range(4):
        stream.let(0.5)
    asleep.heal()
    stream.end()
    assert stream.recoveries() == []


@slow
@pytest.mark.parametrize("standby", [HYBRID, ACTIVE, PASSIVE], ids=lambda one: one.mode)
def test_both_hosts_killed_at_once_come_back_by_a_recovery(begin: Begin, folder: Folder, standby: Standby) -> None:
    stream = Stream(begin, folder, 6, standby)
    apps.wait_for_checkpoint(stream.running)
    kill(stream.running, host="all")
    stream.let(1)
    stream.guarded()
    stream.let(1)
    stream.end()
    assert stream.recoveries()


@slow
@pytest.mark.parametrize("second", ["copy killed", "primary killed", "copy stopped", "both killed"])
def test_a_second_fault_while_the_copy_answers(begin: Begin, folder: Folder, second: str) -> None:
    stream = Stream(begin, folder, 6, HYBRID)
    asleep = pause(stream.running, host="count/0", seconds=LONG_S)
    stream.until("switched")
    stream.let(0.5)
    pair = stream.pair()
    if second in ("copy killed", "both killed"):
        stream.send(pair.copy, signal.SIGKILL)
    if second in ("primary killed", "both killed"):
        stream.send(pair.primary, signal.SIGKILL)
    if second == "copy stopped":
        stream.send(pair.copy, signal.SIGSTOP)
    stream.tap.let(0.5)
    time.sleep(1)
    asleep.heal()
    if second == "copy stopped":
        stream.wake(pair.copy)
    stream.let(1)
    stream.guarded()
    stream.end()


@slow
def test_a_host_that_stays_silent_is_given_up_and_does_no_harm_when_it_wakes(begin: Begin, folder: Folder) -> None:
    stream = Stream(begin, folder, 6, perseid.standby.hybrid(give_up=every(seconds=2)))
    asleep = pause(stream.running, host="count/0", seconds=LONG_S)
    stream.until("switched")
    stream.let(1)
    apps.wait_until(lambda: "given_up" in folder.kinds(), "a new primary")
    stream.let(1)
    asleep.heal()
    stream.guarded()
    stream.let(1)
    stream.end()
    assert stream.recoveries() == []


@slow
@pytest.mark.parametrize("mode", ["hybrid", "active", "passive"])
def test_standby_comes_and_goes_while_rows_flow(
    begin: Begin, folder: Folder, mode: Literal["hybrid", "active", "passive"]
) -> None:
    stream = Stream(begin, folder, 6, PASSIVE if mode == "hybrid" else HYBRID)
    stream.running.standby("count", mode)
    stream.let(0.5)
    assert {one.mode for one in stream.running.progress().standby} == {mode}
    kill(stream.running, host="count/0")
    stream.let(0.5)
    stream.guarded()
    stream.running.standby("count", "none")
    stream.let(0.5)
    assert stream.running.progress().standby == ()
    stream.end()
    assert stream.recoveries() == []


@slow
def test_no_epoch_waits_for_the_report_of_a_host_that_was_killed_after_its_answer(begin: Begin, folder: Folder) -> None:
    chance, kills = random.Random(7), 10
    stream = Stream(begin, folder, 1 + kills, HYBRID, twice=True, spares=2)
    for _ in range(kills):
        stream.guarded()
        stream.let(0.5)
        stream.tap.let(0.3)
        time.sleep(chance.random() / 4)
        victim = stream.pair().primary
        stream.send(victim, signal.SIGKILL)
        apps.wait_until(functools.partial(stream.is_replaced, victim), "another primary")
    stream.end()
    failed = [e["error"] for e in folder.journal() if e["kind"] == "epoch_failed"]
    assert not [error for error in failed if "no report" in error] and stream.recoveries() == []


@slow
def test_an_operator_that_is_not_deterministic_goes_on_as_the_host_whose_answer_counted(
    begin: Begin, folder: Folder
) -> None:
    stream = Stream(begin, folder, 6, ACTIVE, Shuffled())
    for _ in range(3):
        stream.let(1)
    apps.wait_until(lambda: any("not deterministic" in e["reason"] for e in lost(folder)), "an answer that differs")
    stream.end()
    assert stream.recoveries() == []


def lost(folder: Folder) -> list[dict[str, Any]]:
    return [e for e in folder.journal() if e["kind"] == "copy_lost"]


@slow
def test_a_scale_moves_shards_that_have_copies(begin: Begin, folder: Folder) -> None:
    stream = Stream(begin, folder, 6, HYBRID, spares=2)
    stream.running.scale("count", 3)
    stream.let(1)
    stream.guarded()
    kill(stream.running, host=0)
    stream.let(1)
    stream.guarded()
    stream.end()
    assert stream.recoveries() == []


def strike(stream: Stream, chance: random.Random) -> int | None:
    """A second fault, now and then, on either host, a little later. The host that is to be woken."""
    if chance.random() > 0.2:
        return None
    time.sleep(chance.random() / 2)
    pair = stream.pair()
    victim = pair.copy if chance.random() < 0.7 and pair.copy is not None else pair.primary
    stream.send(victim, kind := chance.choice([signal.SIGKILL, signal.SIGSTOP]))
    return victim if kind is signal.SIGSTOP else None


@slow
@pytest.mark.parametrize("half", [0, 1])
def test_fifty_switches_under_load_with_second_faults(begin: Begin, folder: Folder, half: int) -> None:
    chance, rounds = random.Random(half), 50
    stream = Stream(begin, folder, 1 + 0.6 * rounds, HYBRID, hosts=2, spares=2)
    for _ in range(rounds):
        asleep = pause(stream.running, host="count/0", seconds=LONG_S)
        stream.tap.let(0.2)
        apps.wait_until(lambda: stream.pair().phase != "guarded", "an answer to the stop")
        stream.tap.let(0.2)
        other = strike(stream, chance)
        time.sleep(chance.random() / 2)
        asleep.heal()
        stream.wake(other)
        stream.tap.let(0.2)
        stream.guarded()
    stream.left_s = 1
    stream.end()
    journal = folder.journal()
    assert sum(e["kind"] == "switched" for e in journal) >= 0.8 * rounds, "some hosts were killed instead"
