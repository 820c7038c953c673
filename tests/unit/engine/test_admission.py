"""Admission as a machine: one append for commits and the next epoch, patience with storage, an end for everything."""

from __future__ import annotations

from typing import Any

import pytest

from perseid.engine import events as on
from perseid.engine.admission import STORAGE_PATIENCE_MS, STORAGE_RETRY_MS, Admission, AdmissionRules
from perseid.errors import Fenced, PerseidError, StorageFailed
from perseid.storage.records import Admitted, Committed, Index, Record, Trimmed
from perseid.vocabulary import Epoch, Offset, OperatorName, SourceName, UnitName

IN, MAIN, TIMED = SourceName("in"), UnitName("main"), OperatorName("count.in")


class Rows:
    """A source of so many rows; ten of them make an epoch."""

    def __init__(self, rows: int, *, pending: bool = False, grows: bool = False) -> None:
        self.rows, self.pending, self.grows = rows, pending, grows

    def end(self, start: Offset) -> Offset:
        return Offset(min(start + 10, self.rows))

    def finished(self, start: Offset) -> bool:
        return start >= self.rows


class Book:
    """A ledger in memory that can be out of reach."""

    def __init__(self) -> None:
        self.index, self.appends = Index(Trimmed()), list[tuple[Record, ...]]()
        self.error: PerseidError | None = None

    def append(self, *records: Record) -> None:
        if self.error is not None:
            raise self.error
        self.appends.append(records)
        for record in self.index.news(records):
            self.index.add(record)

    def committed(self, unit: UnitName) -> Epoch:
        return self.index.committed.get(unit, Epoch(0))

    def offset(self, source: SourceName) -> Offset:
        return self.index.offsets.get(source, Offset(0))

    def __getattr__(self, name: str) -> Any:  # last_admitted, last_time_ms, ended
        return getattr(self.index, name)


class Idle:
    """An application with event time."""

    def idle(self, now_ms: int, *, quiet: bool) -> tuple[OperatorName, ...]:
        return (TIMED,) if quiet else ()


def admission(source: Rows, book: Book, rules: AdmissionRules | None = None, **more: Any) -> Admission:
    return Admission({IN: source}, [MAIN], book, rules or AdmissionRules(), lambda newest: newest + 1, **more)


def commit(epoch: int) -> Committed:
    return Committed(Epoch(epoch), MAIN)


def test_commits_and_the_next_epoch_are_one_append() -> None:
    book = Book()
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    assert machine.step(0) == (on.EpochAdmitted(Epoch(1)),)
    machine.commit(commit(1))
    machine.want(Epoch(2), 1)
    assert machine.step(1) == (on.EpochAdmitted(Epoch(2)),)
    assert [[type(r) for r in records] for records in book.appends] == [[Admitted], [Committed, Admitted]]
    assert machine.next_ms(2) is None, "nothing is to be done until somebody wants something"


def test_nothing_new_is_looked_for_again_soon_and_later_less_often() -> None:
    machine = admission(Rows(0, pending=True), Book(), AdmissionRules(available_now=True))
    machine.want(Epoch(1), 0)
    assert machine.step(0) == () and machine.next_ms(0) == 5
    assert machine.step(2_000) == () and machine.next_ms(2_000) == 2_050


def test_an_input_that_is_read_ends_only_when_all_of_it_is_committed() -> None:
    book = Book()
    machine = admission(Rows(10), book)
    machine.want(Epoch(1), 0)
    machine.step(0)
    machine.want(Epoch(2), 1)
    assert machine.step(1) == (), "epoch 1 is on its way"
    machine.commit(commit(1))
    assert machine.step(2) == ()
    assert machine.step(3) == (on.NothingToAdmit(finished=True),)


@pytest.mark.parametrize(("close", "grows", "last"), [(None, False, True), (None, True, False), (True, True, True)])
def test_windows_close_in_a_last_epoch_where_the_input_is_finished_for_good(
    close: Any, grows: bool, last: bool
) -> None:
    book = Book()
    machine = admission(Rows(10, grows=grows), book, AdmissionRules(None, False, close), event_time=Idle())
    machine.want(Epoch(1), 0)
    machine.step(0)
    machine.commit(commit(1))
    machine.step(1)
    machine.want(Epoch(2), 2)
    (event,) = machine.step(2)
    assert (event == on.EpochAdmitted(Epoch(2))) == last == book.index.ended
    if last:
        machine.commit(commit(2))
        machine.step(3)
        machine.want(Epoch(3), 3)
        assert machine.step(3) == (on.NothingToAdmit(finished=True),), "time ends once"


def test_a_trigger_leaves_time_between_two_epochs() -> None:
    machine = admission(Rows(100), Book(), AdmissionRules(trigger_ms=100))
    admitted: list[int] = []
    for now in range(1_000, 1_400, 10):
        if machine.wanted is None:
            machine.want(Epoch(len(admitted) + 1), now)
        admitted += [now for _ in machine.step(now)]
    assert admitted == [1_000, 1_010, 1_100, 1_200, 1_300]


def test_storage_that_is_away_is_waited_for_and_nothing_is_lost() -> None:
    book = Book()
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    book.error = StorageFailed("the disk is full")
    assert machine.step(1) == () and machine.next_ms(1) == 1 + STORAGE_RETRY_MS
    assert "the disk is full" in machine.trouble
    book.error = None
    assert machine.step(2) == (), "not before the pause is over"
    assert machine.step(1 + STORAGE_RETRY_MS) == (on.EpochAdmitted(Epoch(1)),)
    assert machine.trouble == ""


def test_storage_that_stays_away_ends_the_application() -> None:
    book, now = Book(), 1
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    book.error = StorageFailed("the disk is full")
    while not (events := machine.step(now)):
        now += STORAGE_RETRY_MS
    assert events == (on.FatalError("the disk is full"),)
    assert STORAGE_PATIENCE_MS < now < 2 * STORAGE_PATIENCE_MS
    assert machine.ended and machine.next_ms(now) is None and machine.step(now + 1) == ()


def test_a_driver_that_was_replaced_ends_at_once() -> None:
    book = Book()
    book.error = Fenced("generation 2 has taken over")
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    assert machine.step(0) == (on.FatalError("generation 2 has taken over"),)


def test_an_epoch_that_is_given_up_is_not_admitted_and_its_commits_are_written() -> None:
    book = Book()
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    machine.step(0)
    machine.want(Epoch(2), 1)
    machine.commit(commit(1))
    assert machine.abandon() == (on.NothingToAdmit(finished=False),)
    assert machine.abandon() == (), "it is told once"
    machine.finish()
    assert book.committed(MAIN) == 1 and book.index.last_admitted == 1


def test_a_commit_is_not_lost_when_the_append_fails_half_way() -> None:
    book = Book()
    machine = admission(Rows(30), book)
    machine.want(Epoch(1), 0)
    machine.step(0)
    machine.commit(commit(1))
    book.error = StorageFailed("away")
    with pytest.raises(StorageFailed):
        machine.write_commits()
    book.error = None
    machine.write_commits()
    assert book.committed(MAIN) == 1


def test_a_timer_that_is_due_makes_an_epoch_without_rows() -> None:
    book = Book()
    machine = admission(Rows(0), book, timer_due=lambda at_ms, idle: TIMED in idle, event_time=Idle())
    machine.want(Epoch(1), 0)
    assert machine.step(0) == (on.EpochAdmitted(Epoch(1)),)
    assert book.index.admitted[Epoch(1)].slices == {IN: (0, 0)}
