from __future__ import annotations

from pathlib import Path

import pytest

from perseid.errors import StorageFailed
from perseid.storage import layout
from perseid.storage.journal import Journal, read_journal
from perseid.storage.store import Store
from perseid.vocabulary import Generation


def test_what_was_recorded_is_read_in_order_over_all_generations(any_store: Store, clock) -> None:
    for generation in (1, 2):
        journal = Journal(any_store, Generation(generation), now_ms=clock)
        journal.record("started", root=Path("/x"))
        journal.flush()
        clock.ms += 1
        journal.record("epoch_committed", epoch=generation)
        journal.close()
        journal.close()
    entries = list(read_journal(any_store))
    assert entries[0] == {"at_ms": 1_000_000, "kind": "started", "generation": 1, "root": "/x"}
    assert [(e["generation"], e["kind"], e["at_ms"]) for e in entries] == [
        (1, "started", 1_000_000),
        (1, "epoch_committed", 1_000_001),
        (2, "started", 1_000_001),
        (2, "epoch_committed", 1_000_002),
    ]


def test_nothing_is_written_before_the_flush(store: Store, clock) -> None:
    journal = Journal(store, Generation(1), now_ms=clock)
    journal.flush()
    journal.record("x")
    assert store.list("") == [] and list(read_journal(store)) == []


def test_torn_lines_are_skipped(any_store: Store, clock) -> None:
    journal = Journal(any_store, Generation(1), now_ms=clock)
    journal.record("one")
    journal.flush()
    any_store.append(layout.journal(Generation(1)), b'{"at_ms":1,"ki\n\xff\xfe\n[1]\n\n')
    journal.record("two")
    journal.flush()
    any_store.append(layout.journal(Generation(1)), b'{"at_ms":1,"kind":"thr')
    assert [entry["kind"] for entry in read_journal(any_store)] == ["one", "two"]


def test_a_full_journal_drops_the_oldest_and_says_how_many(store: Store, clock) -> None:
    journal = Journal(store, Generation(1), now_ms=clock, capacity=3)
    for number in range(5):
        journal.record("n", number=number)
    journal.flush()
    first, *rest = read_journal(store)
    assert (first["kind"], first["records"]) == ("journal_dropped", 2)
    assert [entry["number"] for entry in rest] == [2, 3, 4]


def test_records_wait_while_storage_fails(store: Store, clock) -> None:
    journal = Journal(store, Generation(1), now_ms=clock, capacity=3)
    store.write("journal", [b"a file where the folder should be"])
    for number in range(4):
        journal.record("n", number=number)
    with pytest.raises(StorageFailed):
        journal.flush()
    journal.record("n", number=4)
    with pytest.raises(StorageFailed):
        journal.flush()
    store.delete("journal")
    journal.flush()
    first, *rest = read_journal(store)
    assert (first["kind"], first["records"]) == ("journal_dropped", 2)
    assert [entry["number"] for entry in rest] == [2, 3, 4]
