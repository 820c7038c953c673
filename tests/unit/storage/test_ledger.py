from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Committed, Ledger
from perseid.storage.records import Partitioned
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Generation, Offset, OperatorName, SourceName, UnitName

Starter = Callable[[Store], Lease]


def admitted(epoch: int, rows: int = 10) -> Admitted:
    return Admitted(
        Epoch(epoch),
        1000 * epoch,
        {
            SourceName("lines"): (Offset((epoch - 1) * rows), Offset(epoch * rows)),
            SourceName("idle"): (Offset(0), Offset(0)),
        },
    )


def committed(epoch: int, unit: str = "main", **event_times_ms: int) -> Committed:
    return Committed(Epoch(epoch), UnitName(unit), {OperatorName(name): at for name, at in event_times_ms.items()})


def ledger_file(store: Store, generation: int) -> Path:
    assert store.local is not None
    return store.local / layout.ledger(Generation(generation))


def contents(ledger: Ledger) -> tuple[object, ...]:
    """Everything that can be asked."""
    last, first = ledger.last_admitted, ledger.trimmed_to
    return (
        last,
        ledger.last_time_ms,
        [ledger.admitted(Epoch(epoch)) for epoch in range(1, last + 2)],
        [ledger.committed(UnitName(unit)) for unit in ("main", "second")],
        [ledger.offset(SourceName(source)) for source in ("lines", "idle", "unknown")],
        [ledger.event_times_ms(Epoch(epoch)) for epoch in range(first, last + 1)],
        first,
    )


def test_a_fresh_ledger_is_empty(any_store: Store, start: Starter) -> None:
    ledger = Ledger.open(any_store, start(any_store))
    assert ledger.last_admitted == 0 and ledger.admitted(Epoch(1)) is None
    assert ledger.committed(UnitName("main")) == 0 and ledger.offset(SourceName("lines")) == 0
    assert ledger.event_times_ms(Epoch(0)) == {}


def test_the_next_driver_finds_what_was_appended(any_store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(any_store, start(any_store))
    ledger.append(admitted(1))
    ledger.append(committed(1, join=500), committed(1, "second"), admitted(2))
    ledger.append(committed(2, join=400))
    for _ in range(3):
        again = Ledger.open(any_store, take_over(any_store))
        assert contents(again) == contents(ledger)
    assert again.admitted(Epoch(2)) == admitted(2)
    assert again.committed(UnitName("main")) == 2 and again.committed(UnitName("second")) == 1
    assert again.offset(SourceName("lines")) == 20


def test_event_times_are_the_maxima_up_to_an_epoch(store: Store, start: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    for epoch, join in ((1, 500), (2, 300), (3, 900)):
        ledger.append(admitted(epoch), committed(epoch, join=join), committed(epoch, "second", late=epoch))
    assert ledger.event_times_ms(Epoch(0)) == {}
    assert ledger.event_times_ms(Epoch(1)) == {"join": 500, "late": 1}
    assert ledger.event_times_ms(Epoch(2)) == {"join": 500, "late": 2}
    assert ledger.event_times_ms(Epoch(99)) == {"join": 900, "late": 3}


def test_the_digest_depends_on_epoch_time_and_slices_alone() -> None:
    first = Admitted(Epoch(1), 5, {SourceName("a"): (Offset(0), Offset(3)), SourceName("b"): (Offset(1), Offset(2))})
    assert (
        first.digest
        == Admitted(
            Epoch(1), 5, {SourceName("b"): (Offset(1), Offset(2)), SourceName("a"): (Offset(0), Offset(3))}
        ).digest
    )
    assert first.digest == "5643d26d163e953b"  # for good: sinks keep it
    others = [
        Admitted(Epoch(2), 5, first.slices),
        Admitted(Epoch(1), 6, first.slices),
        Admitted(Epoch(1), 5, {SourceName("a"): (Offset(0), Offset(3))}),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 4


def test_an_epoch_committed_again_is_no_news(store: Store, start: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1), committed(1))
    size = ledger_file(store, 1).stat().st_size
    ledger.append(committed(1))
    ledger.append()
    assert ledger_file(store, 1).stat().st_size == size


@pytest.mark.parametrize(
    "record",
    [
        admitted(1),
        admitted(3),
        Admitted(Epoch(2), 0, {SourceName("lines"): (Offset(11), Offset(20))}),
        Admitted(Epoch(2), 0, {SourceName("lines"): (Offset(10), Offset(9))}),
        committed(2),
        committed(3),
    ],
    ids=str,
)
def test_what_cannot_follow_is_refused(store: Store, start: Starter, record: Admitted | Committed) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1))
    before = contents(ledger)
    with pytest.raises(AssertionError):
        ledger.append(record)
    assert contents(ledger) == before == contents(Ledger.view(store))


def test_a_torn_last_line_is_dropped_and_the_ledger_goes_on(store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1))
    ledger.append(admitted(2))
    file = ledger_file(store, 1)
    file.write_bytes(file.read_bytes()[:-5])
    again = Ledger.open(store, take_over(store))
    assert again.last_admitted == 1
    again.append(admitted(2), committed(1))
    third = Ledger.open(store, take_over(store))
    assert third.last_admitted == 2 and third.committed(UnitName("main")) == 1


def test_the_same_driver_may_open_it_again_after_a_torn_line(store: Store, start: Starter) -> None:
    lease = start(store)
    Ledger.open(store, lease).append(admitted(1))
    again = Ledger.open(store, lease)
    again.append(admitted(2))
    with ledger_file(store, 1).open("ab") as file:
        file.write(b'{"seal":"')
    third = Ledger.open(store, lease)
    assert contents(third) == contents(again)
    third.append(admitted(3))
    assert Ledger.view(store).last_admitted == 3


def test_damage_before_the_end_is_reported(store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1))
    ledger.append(admitted(2))
    file = ledger_file(store, 1)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1].replace(b"1000", b"1001") + lines[2])
    with pytest.raises(CorruptData, match=r"line 2 of 3 fails its hash.*; put the file back"):
        Ledger.open(store, take_over(store))


def test_a_driver_that_dies_between_its_lease_and_its_ledger_changes_nothing(
    any_store: Store, start: Starter, take_over: Starter
) -> None:
    ledger = Ledger.open(any_store, start(any_store))
    ledger.append(admitted(1), committed(1))
    take_over(any_store)  # generation 2, and dies
    third = take_over(any_store)
    assert third.generation == 3
    assert contents(Ledger.open(any_store, third)) == contents(ledger)


def test_a_driver_that_dies_in_its_first_line_changes_nothing(store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1))
    take_over(store)
    ledger_file(store, 2).write_bytes(b'{"seal":"00')
    assert contents(Ledger.open(store, take_over(store))) == contents(ledger)


def test_a_fenced_driver_cannot_append_or_trim(any_store: Store, start: Starter, take_over: Starter) -> None:
    zombie = Ledger.open(any_store, start(any_store))
    zombie.append(admitted(1))
    lease = take_over(any_store)
    for use in (lambda: zombie.append(admitted(2)), lambda: zombie.trim(Epoch(1))):
        with pytest.raises(Fenced):
            use()
    assert Ledger.open(any_store, lease).last_admitted == 1


class Sleepy(Lease):
    """A driver that is stopped right after it has looked at its lease: the worst moment."""

    def __init__(self, lease: Lease | None, meanwhile: Callable[[], object]) -> None:
        assert lease is not None
        super().__init__(lease._store, lease._holder, lease._now_ms)
        self.meanwhile: Callable[[], object] | None = meanwhile

    def check(self) -> None:
        super().check()
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()


def test_what_a_zombie_appends_after_the_takeover_is_never_seen(
    any_store: Store, start: Starter, take_over: Starter
) -> None:
    ledgers: list[Ledger] = []

    def takeover() -> None:
        ledgers.append(Ledger.open(any_store, take_over(any_store)))
        ledgers[-1].append(Admitted(Epoch(2), 7, {SourceName("lines"): (Offset(10), Offset(11))}))

    zombie = Ledger.open(any_store, start(any_store))
    zombie.append(admitted(1))
    zombie._lease = Sleepy(zombie._lease, takeover)
    with pytest.raises(Fenced):  # it was appended to a file that nobody reads any more, and the driver knows
        zombie.append(admitted(2))
    assert zombie.last_admitted == 1
    third = Ledger.open(any_store, take_over(any_store))
    assert third.admitted(Epoch(2)) == Admitted(Epoch(2), 7, {SourceName("lines"): (Offset(10), Offset(11))})
    assert contents(third) == contents(ledgers[0])


def test_a_zombie_that_trims_after_the_takeover_harms_nobody(
    any_store: Store, start: Starter, take_over: Starter
) -> None:
    zombie = Ledger.open(any_store, start(any_store))
    zombie.append(admitted(1), committed(1), admitted(2))
    ledgers: list[Ledger] = []
    zombie._lease = Sleepy(zombie._lease, lambda: ledgers.append(Ledger.open(any_store, take_over(any_store))))
    zombie.trim(Epoch(1))
    assert contents(Ledger.open(any_store, take_over(any_store))) == contents(ledgers[0])
    assert ledgers[0].admitted(Epoch(1)) == admitted(1)


def test_a_zombie_that_opens_after_the_takeover_is_fenced(any_store: Store, start: Starter, take_over: Starter) -> None:
    slow = start(any_store)
    Ledger.open(any_store, take_over(any_store)).append(admitted(1))
    with pytest.raises(Fenced):
        Ledger.open(any_store, slow)


def test_trimming_keeps_what_follows_from_the_records(any_store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(any_store, start(any_store))
    for epoch in range(1, 7):
        ledger.append(admitted(epoch), committed(epoch, join=100 * epoch))
    ledger.append(admitted(7), committed(1, "second", late=5))
    ledger.trim(Epoch(4))
    assert ledger.admitted(Epoch(4)) is None and ledger.admitted(Epoch(5)) == admitted(5)
    assert ledger.trimmed_to == 4 and ledger.last_admitted == 7
    assert ledger.committed(UnitName("main")) == 6 and ledger.committed(UnitName("second")) == 1
    assert ledger.offset(SourceName("lines")) == 70
    assert ledger.event_times_ms(Epoch(4)) == {"join": 400, "late": 5}
    assert ledger.event_times_ms(Epoch(5)) == {"join": 500, "late": 5}
    assert contents(Ledger.view(any_store)) == contents(ledger)
    ledger.append(committed(7), committed(2, "second"), admitted(8))
    assert contents(Ledger.open(any_store, take_over(any_store))) == contents(ledger)


def test_trimming_everything_keeps_offsets_and_time(store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1), admitted(2), committed(1), committed(2))
    before = ledger_file(store, 1).stat().st_size
    ledger.trim(Epoch(2))
    assert ledger_file(store, 1).stat().st_size < before
    again = Ledger.open(store, take_over(store))
    assert contents(again) == contents(ledger)
    assert (again.last_admitted, again.last_time_ms, again.offset(SourceName("lines"))) == (2, 2000, 20)
    again.append(admitted(3), committed(3))


def test_trimming_less_than_before_does_nothing(store: Store, start: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1), admitted(2))
    ledger.trim(Epoch(2))
    before = contents(ledger)
    ledger.trim(Epoch(1))
    ledger.trim(Epoch(0))
    assert contents(ledger) == before
    with pytest.raises(AssertionError):
        ledger.trim(Epoch(3))


def test_lines_left_behind_by_a_crash_in_trim_are_known_as_old(
    tmp_path: Path, start: Starter, elsewhere: Store
) -> None:
    ledger = Ledger.open(elsewhere, start(elsewhere))
    ledger.append(admitted(1))
    ledger.append(committed(1))
    parts = layout.ledger(Generation(1)) + ".parts"
    left = {name: elsewhere.read(f"{parts}/{name}") for name in elsewhere.list(parts)}
    assert len(left) == 2
    ledger.trim(Epoch(1))
    for name, data in left.items():  # as if the driver had died before it deleted them
        elsewhere.write(f"{parts}/{name}", [data])
    assert contents(Ledger.view(elsewhere)) == contents(ledger)


def test_old_generations_are_cleared_away(store: Store, start: Starter, take_over: Starter) -> None:
    Ledger.open(store, start(store)).append(admitted(1))
    for _ in range(6):
        ledger = Ledger.open(store, take_over(store))
    assert store.list("ledger") == ["00000006.jsonl", "00000007.jsonl"]
    assert ledger.last_admitted == 1


def test_a_failed_append_can_be_tried_again(store: Store, start: Starter, take_over: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(admitted(1))
    file = ledger_file(store, 1)
    aside = file.with_name("aside")
    file.rename(aside)
    file.symlink_to("/dev/full")
    with pytest.raises(StorageFailed, match="No space left on device"):
        ledger.append(admitted(2))
    assert ledger.last_admitted == 1
    file.unlink()
    file.write_bytes(aside.read_bytes() + b'{"seal":"to')  # whatever the failed write left there
    aside.unlink()
    ledger.append(admitted(2))
    ledger.append(committed(1))
    assert contents(Ledger.open(store, take_over(store))) == contents(ledger)


FULL_DISK = """
import resource, sys
from perseid.duration import every
from perseid.errors import StorageFailed
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Ledger
from perseid.storage.store import Store
store = Store.at(sys.argv[1])
ledger = Ledger.open(store, Lease.acquire(store, owner="a", now_ms=lambda: 0, timeout=every(seconds=1)))
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, -1))
epoch = 1
try:
    while epoch < 1000:
        ledger.append(Admitted(epoch, 0, {"lines": (epoch - 1, epoch)}))
        epoch += 1
except StorageFailed:
    print(ledger.last_admitted)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
ledger.append(Admitted(epoch, 0, {"lines": (epoch - 1, epoch)}))
ledger.append(Admitted(epoch + 1, 0, {"lines": (epoch, epoch + 1)}))
"""


def test_a_disk_that_is_full_for_a_while_costs_no_record(store: Store) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(store.local)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    last = int(done.stdout)
    assert last > 1
    ledger = Ledger.view(store)
    assert ledger.last_admitted == last + 2
    found = [ledger.admitted(Epoch(epoch)) for epoch in range(1, last + 3)]
    assert [one and one.epoch for one in found] == list(range(1, last + 3))


def test_many_threads_may_commit(store: Store, start: Starter) -> None:
    ledger = Ledger.open(store, start(store))
    ledger.append(*(admitted(epoch) for epoch in range(1, 11)))

    def run(unit: str) -> None:
        for epoch in range(1, 11):
            ledger.append(committed(epoch, unit))

    threads = [threading.Thread(target=run, args=(f"unit{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = Ledger.view(store)
    assert [seen.committed(UnitName(f"unit{i}")) for i in range(4)] == [10] * 4


def test_a_view_cannot_be_written_to(store: Store, start: Starter) -> None:
    assert Ledger.view(store).last_admitted == 0
    assert store.list("") == []
    with pytest.raises(AssertionError, match="reading only"):
        Ledger.view(store).append(admitted(1))


def test_the_newest_division_of_an_operator_outlives_drivers_and_trims(
    any_store: Store, start: Starter, take_over: Starter
) -> None:
    ledger = Ledger.open(any_store, start(any_store))
    first = Partitioned(OperatorName("count"), 2, ((0, (0, 128)), (1, (128, 256))))
    newest = Partitioned(OperatorName("count"), 2, ((2, (0, 100)), (3, (100, 256))))
    other = Partitioned(OperatorName("sum"), 1, ((0, (0, 256)),))
    ledger.append(first, other)
    ledger.append(admitted(1), admitted(2), newest)
    ledger.append(newest)  # no news
    ledger.trim(Epoch(2))
    assert ledger.partitioned == {"count": newest, "sum": other}
    again = Ledger.open(any_store, take_over(any_store))
    assert again.partitioned == {"count": newest, "sum": other} and contents(again) == contents(ledger)
