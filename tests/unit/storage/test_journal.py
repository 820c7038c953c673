from __future__ import annotations

import json
import os
import threading
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from perseid.errors import StorageFailed
from perseid.storage import layout
from perseid.storage.journal import APPENDS, Journal, JournalReader, read_journal
from perseid.storage.journal_segments import MERGED, Limits, outdated, segments, tidy
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
    (path,) = [segment.path for segment in segments(any_store)]
    any_store.append(path, b'{"at_ms":1,"ki\n\xff\xfe\n[1]\n\n')
    journal.record("two")
    journal.flush()
    any_store.append(path, b'{"at_ms":1,"kind":"thr')
    assert [entry["kind"] for entry in read_journal(any_store)] == ["one", "two"]


def test_torn_lines_are_counted_and_one_that_is_still_written_is_not(any_store: Store, clock) -> None:
    journal, reader = Journal(any_store, Generation(1), now_ms=clock), JournalReader(any_store)
    journal.record("one")
    journal.flush()
    (path,) = [segment.path for segment in segments(any_store)]
    any_store.append(path, b'{"at_ms":1,"ki\n\xff\xfe\n[1]\n{"at_ms":1,"kind":"thr')
    assert [entry["kind"] for entry in reader.new()] == ["one"] and reader.torn == 3
    assert list(reader.new()) == [] and reader.torn == 3
    newer = Journal(any_store, Generation(2), now_ms=clock)
    newer.record("two")
    newer.close()
    assert [entry["kind"] for entry in reader.new()] == ["two"] and reader.torn == 4  # nobody will end that line
    assert list(reader.new()) == [] and reader.torn == 4


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


SMALL = Limits(keep_bytes=64_000, keep_ms=60_000, segment_bytes=4_000)


def test_the_journal_stays_within_its_size_and_the_newest_is_kept(any_store: Store, clock) -> None:
    journal = Journal(any_store, Generation(1), now_ms=clock, limits=SMALL)
    for number in range(4_000):
        journal.record("n", number=number)
        if number % 10 == 0:
            journal.flush()
    journal.close()
    Journal(any_store, Generation(2), now_ms=clock, limits=SMALL).close()
    told = [entry["number"] for entry in read_journal(any_store)]
    assert sum(any_store.size(s.path) for s in segments(any_store)) < 64_000 + 3 * 4_000  # a tidy may be on its way
    assert told == list(range(told[0], 4_000)) and told[0] > 0


def test_every_segment_but_the_first_begins_with_what_still_holds(any_store: Store, clock) -> None:
    journal, told = Journal(any_store, Generation(1), now_ms=clock, limits=SMALL), 0
    journal.continued = lambda: ("journal_continues", {"numbers": told})
    for number in range(600):
        journal.record("n", number=number)
        if number % 10 == 9:
            journal.flush()
            told = number
    journal.close()
    first, *others = segments(any_store)
    kinds = {s: [json.loads(line)["kind"] for line in any_store.read(s.path).splitlines()] for s in (first, *others)}
    assert kinds[first][0] == "n" and others and all(kinds[segment][0] == "journal_continues" for segment in others)
    records = list(read_journal(any_store))
    assert [entry["number"] for entry in records if entry["kind"] == "n"] == list(range(600))
    for before, entry, after in zip(records, records[1:], records[2:], strict=False):
        if entry["kind"] == "journal_continues":
            assert entry["numbers"] == before["number"] == after["number"] - 1


def test_a_segment_that_could_not_be_begun_begins_with_what_holds_then(store: Store, clock) -> None:
    journal = Journal(store, Generation(1), now_ms=clock, limits=Limits(segment_bytes=1))
    journal.continued = lambda: ("journal_continues", {"at": clock.ms})
    journal.record("n", number=0)
    journal.flush()
    (store.local / "journal").rename(store.local / "away")
    store.write("journal", [b"a file where the folder should be"])
    journal.record("n", number=1)
    with pytest.raises(StorageFailed):
        journal.flush()
    store.delete("journal")
    (store.local / "away").rename(store.local / "journal")
    clock.ms += 5
    journal.close()
    assert [(e["kind"], e.get("at")) for e in read_journal(store)] == [
        ("n", None),
        ("journal_continues", clock.ms),
        ("n", None),
    ]


def test_who_wants_the_newest_first_reads_from_the_beginning_of_a_segment_on(any_store: Store, clock) -> None:
    journal = Journal(any_store, Generation(1), now_ms=clock, limits=SMALL)
    for number in range(600):
        journal.record("n", number=number)
        if number % 10 == 9:
            journal.flush()
    newest = JournalReader(any_store, newest_bytes=SMALL.segment_bytes)
    told = [entry["number"] for entry in newest.new()]
    assert newest.leaves_out and told == list(range(told[0], 600)) and 50 < len(told) < 200
    journal.record("n", number=600)
    journal.close()
    assert [entry["number"] for entry in newest.new()] == [600]
    whole = JournalReader(any_store, newest_bytes=10**9)
    assert len(list(whole.new())) == 601 and not whole.leaves_out


def test_what_is_older_than_the_limit_goes_the_newest_never(store: Store, clock) -> None:
    for generation in range(1, 4):
        journal = Journal(store, Generation(generation), now_ms=clock, limits=SMALL)
        journal.record("n", number=generation)
        journal.close()
        clock.ms += 61_000
    assert [entry["number"] for entry in read_journal(store)] == [2, 3]  # all of 1 was older than 60 s when 3 began
    last = segments(store)[-1]
    assert outdated([last], {}, SMALL, clock.ms + 10**9) == []


def test_on_remote_storage_there_are_never_many_objects(elsewhere, clock) -> None:
    folder = Path(elsewhere.filesystem.base_path, "root", layout.JOURNALS)
    most = 0
    for generation in range(1, 4):
        journal = Journal(elsewhere, Generation(generation), now_ms=clock, limits=SMALL)
        for number in range(500):
            journal.record("n", number=number, text="x" * 20)
            journal.flush()
            if number % 50 == 0:
                most = max(most, sum(len(files) for _, _, files in os.walk(folder)))
        journal.close()
    bound = MERGED * SMALL.keep_bytes // SMALL.segment_bytes + MERGED * 3 + 3 * APPENDS
    assert most <= bound, f"{most} objects after 1,500 flushes"
    told = [(e["generation"], e["number"]) for e in read_journal(elsewhere)]
    assert told == sorted(set(told)) and told[-1] == (3, 499)


def test_many_short_runs_do_not_leave_many_files(any_store: Store, clock) -> None:
    for generation in range(1, 101):
        journal = Journal(any_store, Generation(generation), now_ms=clock)
        journal.record("app_started")
        journal.record("app_stopped")
        journal.close()
    assert len(segments(any_store)) <= 3 * MERGED
    told = [(entry["generation"], entry["kind"]) for entry in read_journal(any_store)]
    assert told == [(g, kind) for g in range(1, 101) for kind in ("app_started", "app_stopped")]


def test_a_reader_beside_a_writer_that_rotates_gets_every_record_once_and_in_order(any_store: Store, clock) -> None:
    limits = Limits(keep_bytes=10**9, segment_bytes=2_000)
    journal = Journal(any_store, Generation(1), now_ms=clock, limits=limits)
    done = threading.Event()

    def write() -> None:
        for number in range(3_000):
            journal.record("n", number=number)
            if number % 5 == 0:
                journal.flush()
        journal.close()
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reader, told = JournalReader(any_store), []
    while not done.is_set():
        told += [entry["number"] for entry in reader.new()]
        whole = [entry["number"] for entry in read_journal(any_store)]
        assert all(later == earlier + 1 for earlier, later in pairwise(whole))
    writer.join()
    told += [entry["number"] for entry in reader.new()]
    assert told == list(range(3_000))


def test_a_merge_cut_short_at_any_write_doubles_and_loses_nothing(store: Store, clock) -> None:
    class Crash(Exception):
        pass

    class Dying:
        """The same store, whose process dies at the n-th write or deletion."""

        def __init__(self, left: int) -> None:
            self.left = left

        def __getattr__(self, name: str):
            if name in ("write", "delete"):
                self.left -= 1
                if self.left < 0:
                    raise Crash
            return getattr(store, name)

    for generation in range(1, MERGED + 2):
        journal = Journal(store, Generation(generation), now_ms=clock, limits=Limits(segment_bytes=10**9))
        journal.record("n", number=generation)
        journal._tidy = lambda current: None  # type: ignore[method-assign]
        journal.close()
    everything = list(range(1, MERGED + 2))
    for left in range(MERGED + 1):
        try:
            tidy(cast(Store, Dying(left)), segments(store)[-1], Limits(), clock.ms, ())
        except Crash:
            assert left < MERGED
        assert [entry["number"] for entry in read_journal(store)] == everything
    assert len(segments(store)) < MERGED + 1
