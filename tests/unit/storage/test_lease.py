from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from perseid.duration import every
from perseid.errors import Fenced, LeaseHeld, RootError
from perseid.storage import layout
from perseid.storage.lease import Holder, Lease, newest_generation, read_holder
from perseid.storage.process import Process
from perseid.storage.sealed import seal
from perseid.storage.store import Store
from perseid.vocabulary import Generation

Starter = Callable[[Store], Lease]

HOLD = """
import sys, time
from perseid.duration import every
from perseid.storage.lease import Lease
from perseid.storage.store import Store
lease = Lease.acquire(Store.at(sys.argv[1]), owner="other", now_ms=lambda: int(sys.argv[2]), timeout=every(seconds=60))
print("held", flush=True)
while True:
    time.sleep(0.02)
    lease.renew()
"""


@contextmanager
def renewing(lease: Lease) -> Iterator[None]:
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.002):
            lease.renew()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def driver_in_another_process(root: Path | None, now_ms: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLD, str(root), str(now_ms)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == "held\n"
        try:
            yield driver
        finally:
            driver.kill()


def hold(store: Store, generation: int, process: Process, renewed_ms: int) -> None:
    """A lease of somebody else."""
    holder = Holder(Generation(generation), "somebody", process, renewed_ms)
    store.write(layout.lease(Generation(generation)), [seal(holder.to_json())])


def test_every_start_is_a_new_generation(any_store: Store, start: Starter) -> None:
    for generation in (1, 2, 3):
        lease = start(any_store)
        assert lease.generation == generation
        lease.check()
        lease.release()


def test_a_second_driver_is_refused_and_told_who_holds_the_root(any_store: Store, clock, start: Starter) -> None:
    with (
        renewing(start(any_store)),
        pytest.raises(LeaseHeld, match=rf"in use by 'test' \(process {os.getpid()} on .*, generation 1\)"),
    ):
        Lease.acquire(any_store, owner="second", now_ms=clock, timeout=every(seconds=60))


def test_who_watches_takes_over_as_soon_as_the_driver_gives_the_root_back(store: Store, clock, start: Starter) -> None:
    first = start(store)
    threading.Timer(0.1, first.release).start()
    assert Lease.acquire(store, owner="next", now_ms=clock, timeout=every(seconds=60)).generation == 2


def test_a_silent_driver_is_taken_over_and_fenced(any_store: Store, start: Starter, take_over: Starter) -> None:
    old = start(any_store)
    new = take_over(any_store)
    assert new.generation == 2
    new.check()
    for use in (old.check, old.renew):
        with pytest.raises(Fenced, match="generation 2 of the driver has taken over from generation 1"):
            use()


def test_a_fenced_driver_releases_nothing(store: Store, start: Starter, take_over: Starter) -> None:
    old = start(store)
    take_over(store)
    old.release()
    assert not read_holder(store, newest_generation(store)).released


def test_a_driver_fenced_long_ago_stays_fenced(store: Store, start: Starter) -> None:
    zombie = start(store)
    zombie.release()
    for _ in range(40):
        start(store).release()
    assert len(store.list("lease")) < 40
    with pytest.raises(Fenced):
        zombie.check()


def test_a_released_lease_cannot_be_renewed_by_a_late_thread(store: Store, start: Starter) -> None:
    lease = start(store)
    lease.release()
    lease.renew()
    lease.release()
    start(store)


def test_a_driver_killed_on_this_machine_is_taken_over_at_once(store: Store, clock) -> None:
    with driver_in_another_process(store.local, clock.ms) as driver:
        with pytest.raises(LeaseHeld, match="other"):
            Lease.acquire(store, owner="test", now_ms=clock, timeout=every(seconds=60))
        driver.kill()
        os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)  # dead, and not reaped: its process id is still there
        lease = Lease.acquire(store, owner="test", now_ms=clock, timeout=every(seconds=60))
        assert lease.generation == 2


def test_a_driver_that_wakes_while_it_is_watched_keeps_the_root(store: Store, clock) -> None:
    with driver_in_another_process(store.local, clock.ms) as driver:
        driver.send_signal(signal.SIGSTOP)
        threading.Timer(0.3, driver.send_signal, [signal.SIGCONT]).start()
        with pytest.raises(LeaseHeld):
            Lease.acquire(store, owner="test", now_ms=clock, timeout=every(seconds=60))


def test_a_driver_that_sleeps_on_is_taken_over(store: Store, clock) -> None:
    with driver_in_another_process(store.local, clock.ms) as driver:
        driver.send_signal(signal.SIGSTOP)
        assert Lease.acquire(store, owner="test", now_ms=clock, timeout=every(milliseconds=200)).generation == 2


def test_another_process_with_the_same_id_is_not_the_driver(store: Store, clock, start: Starter) -> None:
    hold(store, 1, replace(Process.this(), start=1), clock.ms)
    assert start(store).generation == 2


def test_nothing_is_concluded_about_processes_of_other_machines_boots_and_containers() -> None:
    gone = replace(Process.this(), pid=2**22 - 1, start=1)
    assert gone.is_dead()
    assert not Process.this().is_dead()
    others = (replace(gone, host="elsewhere"), replace(gone, boot="another"), replace(gone, namespace="pid:[1]"))
    for other in others:
        assert not other.is_dead()


def test_a_system_that_tells_no_start_times_still_tells_the_dead(store: Store) -> None:
    nothing_known = replace(Process.this(), start=None)
    assert not nothing_known.is_dead()
    assert replace(nothing_known, pid=2**22 - 1).is_dead()


def test_a_process_is_known_after_its_way_through_the_file(store: Store, start: Starter) -> None:
    start(store)
    holder = read_holder(store, newest_generation(store))
    assert holder.process == Process.this()
    assert holder.process.start is not None and holder.process.boot and holder.process.host


def test_a_clock_that_went_backwards_a_year_does_not_lock_the_root(store: Store, clock, start: Starter) -> None:
    start(store)
    clock.ms -= 365 * 24 * 3_600_000
    assert start(store).generation == 2


@pytest.mark.parametrize("jump_ms", [-100_000_000, 100_000_000])
def test_a_clock_that_jumps_takes_the_root_from_no_driver_that_renews(store: Store, clock, jump_ms: int) -> None:
    lease = Lease.acquire(store, owner="alive", now_ms=clock, timeout=every(seconds=2))
    with renewing(lease), pytest.raises(LeaseHeld, match="alive"):
        Lease.acquire(store, owner="x", now_ms=lambda: clock.ms + jump_ms, timeout=every(seconds=2))
    lease.check()


def test_every_start_has_a_higher_fence_also_on_a_new_root(tmp_path: Path, clock, start: Starter) -> None:
    fences = []
    for root in ("first", "second"):
        store = Store.at(str(tmp_path / root))
        for _ in range(3):
            lease = start(store)
            fences.append(lease.fence)
            clock.ms += 1
            lease.release()
    assert fences == sorted(set(fences))


def test_an_unreadable_lease_of_a_dead_driver_is_passed_over(any_store: Store, start: Starter) -> None:
    any_store.write(layout.lease(Generation(4)), [b"torn"])
    assert start(any_store).generation == 5


def test_of_many_drivers_that_start_at_once_one_runs(any_store: Store, clock) -> None:
    leases: list[Lease] = []
    refused: list[LeaseHeld] = []
    barrier = threading.Barrier(5)

    def run() -> None:
        barrier.wait()
        try:
            leases.append(Lease.acquire(any_store, owner="test", now_ms=clock, timeout=every(milliseconds=100)))
        except LeaseHeld as error:
            refused.append(error)

    threads = [threading.Thread(target=run) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(leases) + len(refused) == 5
    assert len({lease.generation for lease in leases}) == len(leases) >= 1
    newest = max(leases, key=lambda lease: lease.generation)
    newest.check()
    for lease in leases:
        if lease is not newest:
            with pytest.raises(Fenced):
                lease.check()


def test_generations_go_on_when_the_lease_folder_was_lost(store: Store, start: Starter) -> None:
    store.write(layout.ledger(Generation(7)), [b""])
    assert start(store).generation == 8


def test_a_driver_notices_that_its_root_was_deleted(store: Store, start: Starter) -> None:
    lease = start(store)
    store.delete("lease")
    with pytest.raises(RootError, match="deleted or replaced"):
        lease.check()
