"""Whatever happens to a file, nobody takes it for what it is not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perseid.duration import every
from perseid.errors import CorruptData
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Committed, Ledger
from perseid.storage.records import Index, Record, Trimmed
from perseid.storage.snapshots import SnapshotFile, read_snapshot, write_snapshot
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Generation, Offset, OperatorName, SourceName, UnitName

LEDGER = layout.ledger(Generation(1))


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        yield Store.at(folder)


@pytest.fixture(scope="module")
def snapshot(store: Store) -> tuple[SnapshotFile, bytes]:
    file = write_snapshot(store, "snapshot", {"epoch": 3}, [b"", b"abc", bytes(range(200))], local=None)
    return file, store.read("snapshot")


def put(store: Store, path: str, data: bytes) -> None:
    assert store.local is not None
    (store.local / path).write_bytes(data)


def assert_corrupt(store: Store, file: SnapshotFile, data: bytes) -> None:
    put(store, file.path, data)
    with pytest.raises(CorruptData):
        read_snapshot(store, file, local=None)


def test_every_truncation_of_a_snapshot_is_found(store: Store, snapshot: tuple[SnapshotFile, bytes]) -> None:
    file, data = snapshot
    for end in range(len(data)):
        assert_corrupt(store, file, data[:end])


def test_a_flipped_bit_in_any_byte_of_a_snapshot_is_found(store: Store, snapshot: tuple[SnapshotFile, bytes]) -> None:
    file, data = snapshot
    for at in range(len(data)):
        assert_corrupt(store, file, data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])


@given(edit=st.data())
def test_any_edit_of_a_snapshot_is_found(
    store: Store, snapshot: tuple[SnapshotFile, bytes], edit: st.DataObject
) -> None:
    file, data = snapshot
    start = edit.draw(st.integers(0, len(data)))
    end = edit.draw(st.integers(start, len(data)))
    damaged = data[:start] + edit.draw(st.binary(max_size=80)) + data[end:]
    if damaged != data:
        assert_corrupt(store, file, damaged)


@given(buffers=st.lists(st.binary(max_size=300), max_size=8), header=st.dictionaries(st.text(), st.integers()))
def test_any_snapshot_comes_back(store: Store, buffers: list[bytes], header: dict[str, int]) -> None:
    file = write_snapshot(store, "any", header, buffers, local=None)
    back, views, _ = read_snapshot(store, file, local=None)
    assert back == header and [bytes(view) for view in views] == buffers


YES_OR_NO: st.SearchStrategy[Any] = st.booleans()


@st.composite
def histories(draw: st.DrawFn) -> list[list[Record]]:
    """What a driver appends, call by call: epochs admitted and committed in any order the rules allow."""
    calls: list[list[Record]] = []
    last, offset, done = 0, 0, {"main": 0, "second": 0}
    for _ in range(draw(st.integers(0, 6))):
        records: list[Record] = []
        for _ in range(draw(st.integers(1, 3))):
            behind = [unit for unit, epoch in done.items() if epoch < last]
            if behind and draw(YES_OR_NO):
                unit = draw(st.sampled_from(behind))
                done[unit] += 1
                records.append(
                    Committed(
                        Epoch(done[unit]), UnitName(unit), {OperatorName(f"{unit}-join"): draw(st.integers(0, 99))}
                    )
                )
            else:
                end = offset + draw(st.integers(0, 5))
                last += 1
                records.append(
                    Admitted(Epoch(last), draw(st.integers(0, 9)), {SourceName("lines"): (Offset(offset), Offset(end))})
                )
                offset = end
        calls.append(records)
    return calls


def asked(ledger: Ledger | Index) -> tuple[object, ...]:
    """Everything there is to know."""
    index = ledger._index if isinstance(ledger, Ledger) else ledger
    times = [index.event_times_ms(Epoch(epoch)) for epoch in range(index.base.epoch, index.last_admitted + 1)]
    return (
        dict(index.admitted),
        index.last_admitted,
        index.last_time_ms,
        dict(index.offsets),
        dict(index.committed),
        times,
    )


def fresh(store: Store) -> Lease:
    for folder in ("lease", "ledger"):
        store.delete(folder)
    return Lease.acquire(store, owner="test", now_ms=lambda: 0, timeout=every(seconds=60))


@given(calls=histories())
@settings(max_examples=8, deadline=None)
def test_every_truncation_of_a_ledger_opens_with_a_prefix_of_what_was_appended(
    store: Store, calls: list[list[Record]]
) -> None:
    ledger = Ledger.open(store, fresh(store))
    prefixes = [asked(Index(Trimmed()))]
    for number, records in enumerate(calls, 1):
        ledger.append(*records)
        prefixes.append(asked(Index(Trimmed(), [record for call in calls[:number] for record in call])))
    data = store.read(LEDGER)
    lengths = [0]
    for end in range(len(data) + 1):
        put(store, LEDGER, data[:end])
        found = asked(Ledger.view(store))
        assert found in prefixes
        lengths.append(prefixes.index(found))
    assert lengths == sorted(lengths)
    assert asked(ledger) == prefixes[-1] == found


@given(calls=histories(), change=st.data())
def test_a_damaged_ledger_opens_with_a_prefix_or_is_refused(
    store: Store, calls: list[list[Record]], change: st.DataObject
) -> None:
    ledger = Ledger.open(store, fresh(store))
    prefixes = [asked(ledger)]
    for records in calls:
        ledger.append(*records)
        prefixes.append(asked(Index(Trimmed(), list(ledger._index.records))))
    data = store.read(LEDGER)
    at = change.draw(st.integers(0, len(data) - 1))
    bit = change.draw(st.integers(0, 7))
    put(store, LEDGER, data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
    with suppress(CorruptData):
        assert asked(Ledger.view(store)) in prefixes


@given(calls=histories(), cuts=st.lists(st.integers(0, 12), max_size=4))
def test_trimming_loses_nothing_that_follows_from_the_records(
    store: Store, calls: list[list[Record]], cuts: list[int]
) -> None:
    ledger = Ledger.open(store, fresh(store))
    whole = Index(Trimmed())
    for call, records in enumerate(calls):
        ledger.append(*records)
        for record in records:
            whole.add(record)
        if call < len(cuts) and cuts[call] <= ledger.last_admitted:
            ledger.trim(Epoch(cuts[call]))
        for seen in (ledger, Ledger.view(store)):
            assert (seen.last_admitted, seen.last_time_ms) == (whole.last_admitted, whole.last_time_ms)
            assert seen.offset(SourceName("lines")) == whole.offsets.get(SourceName("lines"), 0)
            for epoch in range(seen.trimmed_to + 1, whole.last_admitted + 1):
                assert seen.admitted(Epoch(epoch)) == whole.admitted[Epoch(epoch)]
            for unit in ("main", "second"):
                assert seen.committed(UnitName(unit)) == whole.committed.get(UnitName(unit), 0)
            assert seen.event_times_ms(seen.last_admitted) == whole.event_times_ms(whole.last_admitted)
