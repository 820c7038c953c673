"""Faults strike real processes and real files; no Spark needed to see that they do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perseid.engine.progress import HostStatus, Progress
from perseid.errors import FaultError, SettingsError, StorageFailed
from perseid.storage.store import Store
from perseid.testing import (
    Clock,
    Driver,
    attack,
    corrupt,
    counter,
    crash_driver,
    fail_storage,
    kill,
    pause,
    processes,
    slow,
)
from perseid.testing import at as at_moment
from perseid.testing.attack import Attack
from perseid.testing.faults import NotNow
from perseid.testing.injection import heal_everything
from perseid.testing.storage import small_filesystem

SLEEP = "import time  # perseid\nwhile True: time.sleep(0.01)"


class Pretender:
    """Two processes that do nothing, with the looks of an application."""

    pid = os.getpid()

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.processes = [subprocess.Popen([sys.executable, "-c", SLEEP]) for _ in range(2)]
        self.epoch, self.phase = 1, "running"

    def progress(self) -> Progress:
        hosts = tuple(
            HostStatus(n + 1, process.pid, f"127.0.0.1:{n}", process.poll() is None, (f"count/{n}",), 0)
            for n, process in enumerate(self.processes)
        )
        return Progress("app", self.phase, epoch=self.epoch, hosts=hosts)  # type: ignore[arg-type]

    def ended(self) -> bool:
        return False

    def crash(self) -> str:
        return "crashed"


@pytest.fixture(autouse=True)
def not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the session claims to have injected is what hit applications, not these stand-ins."""
    monkeypatch.delenv(counter.ENVIRONMENT, raising=False)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Pretender]:
    root = tmp_path / "root"
    (root / "checkpoints" / "00000003").mkdir(parents=True)
    (root / "checkpoints" / "00000003" / "manifest.json").write_text("{}")
    (root / "checkpoints" / "00000003" / "count-0.snapshot").write_bytes(bytes(100))
    (root / "checkpoints" / "00000003" / "count-1.snapshot").write_bytes(bytes(100))
    app = Pretender(root)
    yield app
    heal_everything()
    for process in app.processes:
        process.kill()
        process.wait()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def eventually(condition) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_a_killed_host_is_dead(app):
    before = counter.injected()["kill"]
    hit = kill(app, host="count/1")
    assert app.processes[1].wait(10) == -signal.SIGKILL and app.processes[0].poll() is None
    assert "host 2 (count/1" in hit.what and hit.healed
    assert counter.injected()["kill"] == before + 1


def test_a_paused_host_stands_still_until_it_is_healed(app):
    hit = pause(app, host=0, seconds=600)
    eventually(lambda: state(app.processes[0].pid) == "T")
    assert not hit.healed
    hit.heal()
    eventually(lambda: state(app.processes[0].pid) in "SR")
    hit.heal()  # nothing more to heal


def test_a_paused_host_wakes_by_itself(app):
    hit = pause(app, host=0, seconds=0.05)
    assert hit.wait(20)
    eventually(lambda: state(app.processes[0].pid) in "SR")


def test_a_slow_host_is_stopped_again_and_again(app):
    hit = slow(app, host=0, seconds=600, percent=50)
    pid = app.processes[0].pid
    for _ in range(2):
        eventually(lambda: state(pid) == "T")
        eventually(lambda: state(pid) in "SR")
    hit.heal()
    eventually(lambda: state(pid) in "SR")


def test_everything_is_healed_when_asked(app):
    pause(app, host=0, seconds=600)
    heal_everything()
    eventually(lambda: state(app.processes[0].pid) in "SR")


def test_a_target_that_is_not_there_is_named(app):
    with pytest.raises(NotNow, match=r"no such host now; hosts with shards are 0 \(count/0\), 1 \(count/1\)"):
        kill(app, host=2)
    for executor in (0, "any", "all", "count/0"):
        with pytest.raises(FaultError, match="no executors of their own"):
            kill(app, executor=executor)
    with pytest.raises(FaultError, match="no such host now"):
        kill(app, host="spare")


def test_executors_that_are_being_started_are_waited_for_though_a_host_outlived_the_last_one(app):
    app.pid = subprocess.Popen(["sleep", "0"]).pid  # a driver below which no host lives: its executor is gone
    with pytest.raises(NotNow, match="there are no executors now"):
        kill(app, executor="any")


def test_a_process_of_somebody_else_is_left_alone():
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        eventually(lambda: Path(f"/proc/{stranger.pid}/cmdline").read_bytes())
        with pytest.raises(FaultError, match=r"none of Spark's or Perseid's"):
            processes.send([stranger.pid], signal.SIGKILL)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_option_that_no_driver_has_is_named(tmp_path):
    with pytest.raises(SettingsError, match="no such option: host; there are file, root"):
        Driver.of("app.py", root=str(tmp_path), log=tmp_path / "log", host=2)


# -- storage -------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_flipped_or_cut(app):
    folder = Path(app.root, "checkpoints", "00000003")
    corrupt(app, "flip", shard="count/1")
    assert (folder / "count-1.snapshot").read_bytes() == bytes(50) + b"\xff" + bytes(49)
    corrupt(app, "cut", checkpoint=3)
    assert len((folder / "count-0.snapshot").read_bytes()) == 50
    with pytest.raises(FaultError, match="complete are 3"):
        corrupt(app, checkpoint=4)
    with pytest.raises(FaultError, match="no such snapshot"):
        corrupt(app, shard="sum/0")
    (folder / "manifest.json").unlink()
    with pytest.raises(FaultError, match="no complete checkpoint yet"):
        corrupt(app)


def test_an_unreachable_root_is_gone_for_everybody_and_comes_back_as_it_was(app):
    store = Store.at(app.root)
    hit = fail_storage(app, "unreachable", seconds=600)
    with pytest.raises(StorageFailed):
        store.write("ledger/x", [b"x"])
    with pytest.raises(StorageFailed):
        store.list("checkpoints")
    hit.heal()
    assert store.list("checkpoints") == ["00000003"]
    store.write("ledger/x", [b"x"])
    assert not [path for path in Path(app.root).parent.iterdir() if "away" in path.name]


def test_a_full_root_has_no_byte_left(app, tmp_path):
    with small_filesystem(tmp_path / "small", 2) as mounted:
        if not mounted:
            pytest.skip("cannot mount a small filesystem to fill up")
        app.root = str(tmp_path / "small")
        store = Store.at(app.root)
        hit = fail_storage(app, "full", seconds=600)
        with pytest.raises(StorageFailed, match="ENOSPC"):
            store.write("x", [bytes(10_000)])
        hit.heal()
        store.write("x", [bytes(10_000)])


def test_your_own_disk_is_not_filled(app):
    with pytest.raises(FaultError, match="not on a small filesystem of its own"):
        fail_storage(app, "full")


def test_a_slow_root_has_busy_neighbours(app):
    hit = fail_storage(app, "slow", seconds=600)
    eventually(lambda: [path for path in Path(app.root).parent.iterdir() if "busy" in path.name])
    hit.heal()
    assert not [path for path in Path(app.root).parent.iterdir() if "busy" in path.name]


# -- plans ---------------------------------------------------------------------------------------------------------


def test_a_plan_strikes_when_its_moments_come(app):
    plan = at_moment(epoch=3).kill(host=0) + at_moment(recovery=1).kill(host="any")
    strikes = Attack(plan, app)
    assert strikes.look() == ()
    app.epoch = 3
    (first,) = strikes.look()
    assert app.processes[0].wait(10) and "killed host 1" in first.what and first.epoch == 3
    app.phase = "recovering"
    (second,) = strikes.look()
    assert app.processes[1].wait(10) and "killed host 2" in second.what
    report = strikes.finish()
    assert len(report.faults) == 2 and report.recoveries == 1 and "2 faults" in str(report)


def test_a_plan_beyond_the_run_is_named(app):
    strikes = Attack(at_moment(epoch=700).kill(host=1) + at_moment(recovery=2).pause(), app)
    strikes.look()
    with pytest.raises(
        FaultError, match=r"ended at epoch 1 .*\n  - at epoch 700: kill host 1\n  - in recovery 2: pause"
    ):
        strikes.finish()


def test_an_unknown_host_of_a_plan_is_named_before_anything_strikes(app):
    with pytest.raises(FaultError, match=r"at epoch 9: kill host 2: there is no host 2; hosts with shards are 0 .* 1"):
        Attack(at_moment(epoch=9).kill(host=2), app).look()
    with pytest.raises(FaultError, match="no host holds the shard sum/0"):
        Attack(at_moment(epoch=9).pause(host="sum/0"), app).look()


def test_a_target_that_is_away_is_struck_when_it_is_back(app):
    strikes = Attack(at_moment(epoch=1).kill(host="spare"), app)
    assert strikes.look() == () and strikes.pending
    with contextlib.suppress(FaultError):
        strikes.finish()


def test_a_driver_in_this_process_cannot_be_crashed(app):
    from perseid.testing.subject import InProcess

    with pytest.raises(FaultError, match="the driver is this very process"):
        Attack(at_moment(epoch=1).crash_driver(), InProcess(app))
    assert crash_driver(app).what == "crashed"
    assert attack.targets(at_moment(epoch=1).crash_driver().steps[0]) == [] and Clock()() == 0
