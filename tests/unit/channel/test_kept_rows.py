"""The rows that tasks keep for second copies, on their machine."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from perseid.channel import kept_rows
from perseid.channel.connection import Connection
from perseid.channel.kept_rows import KeptRows
from perseid.engine.messages import ApplyEpoch
from perseid.errors import ChannelError
from perseid.vocabulary import Epoch, OperatorName, ShardId, Version

ONE, OTHER = ShardId(OperatorName("o"), 0), ShardId(OperatorName("o"), 11)


@pytest.fixture
def secret() -> bytes:
    return secrets.token_bytes(32)


@pytest.fixture
def kept(secret: bytes) -> Iterator[KeptRows]:
    rows = KeptRows(secret)
    yield rows
    rows.clear()


def request(shard: ShardId = ONE, epoch: int = 1, time_ms: int = 5) -> ApplyEpoch:
    return ApplyEpoch(shard, Epoch(epoch), Version(3), Epoch(0), time_ms, aside="find")


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


def epochs(kept: KeptRows, shard: ShardId = ONE) -> list[int]:
    return [epoch for epoch in range(10) if kept.read(shard, Epoch(epoch)) is not None]


def test_what_a_task_keeps_every_process_of_the_application_reads(kept: KeptRows, secret: bytes) -> None:
    assert kept.keep(request(), rows(1, 2))
    assert KeptRows(secret).read(ONE, Epoch(1)) == (request(), rows(1, 2))
    assert kept.read(ONE, Epoch(2)) is None and kept.read(OTHER, Epoch(1)) is None


def test_rows_of_another_application_are_elsewhere(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    assert KeptRows(b"another secret").read(ONE, Epoch(1)) is None


def test_of_two_tasks_of_an_epoch_the_newest_counts(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    kept.keep(request(time_ms=6), rows(2))
    assert kept.read(ONE, Epoch(1)) == (request(time_ms=6), rows(2))


def test_an_epoch_without_rows_is_kept_too(kept: KeptRows) -> None:
    assert kept.keep(request(), rows())
    assert kept.read(ONE, Epoch(1)) == (request(), rows())


@pytest.mark.parametrize("size", [0, 3, 40, -1])
def test_a_torn_file_is_not_there(kept: KeptRows, size: int) -> None:
    kept.keep(request(), rows(1, 2))
    path = kept.path(ONE, Epoch(1))
    path.write_bytes(path.read_bytes()[:size])
    assert kept.read(ONE, Epoch(1)) is None


def test_a_damaged_file_is_not_there(kept: KeptRows) -> None:
    kept.keep(request(), rows(1, 2))
    path = kept.path(ONE, Epoch(1))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert kept.read(ONE, Epoch(1)) is None


def test_rows_are_forgotten_up_to_an_epoch_with_what_is_left_of_tasks_that_were_killed(kept: KeptRows) -> None:
    for shard in (ONE, OTHER):
        for epoch in range(1, 6):
            kept.keep(request(shard, epoch), rows(epoch))
    folder = kept.path(ONE, Epoch(1)).parent
    for half in ("2.17.abcdef", "4.17.abcdef"):
        (folder / half).write_bytes(b"half")
    kept.forget({ONE: Epoch(3)})
    assert epochs(kept) == [4, 5] and epochs(kept, OTHER) == [1, 2, 3, 4, 5]
    assert sorted(path.name for path in folder.iterdir()) == ["4", "4.17.abcdef", "5"]


def test_to_forget_what_was_never_kept_is_no_error(kept: KeptRows) -> None:
    kept.forget({ONE: Epoch(3)})


def test_a_shard_keeps_no_more_than_its_bound(kept: KeptRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "LIMIT_BYTES", 1_000)
    assert kept.keep(request(epoch=1), rows(*range(1_000)))
    assert not kept.keep(request(epoch=2), rows(1))
    assert kept.keep(request(OTHER), rows(1)), "another shard has its own"
    kept.forget({ONE: Epoch(1)})
    assert kept.keep(request(epoch=3), rows(1))


def test_a_file_that_goes_while_others_are_counted_does_not_matter(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    path = kept.path(ONE, Epoch(9))
    path.symlink_to(path.parent / "gone")  # listed, and not to be found, as one that is forgotten just now
    assert kept.keep(request(epoch=2), rows(2))


def test_nothing_is_put_into_a_folder_that_others_can_look_into(kept: KeptRows) -> None:
    kept.folder.mkdir()
    kept.folder.chmod(0o777)
    assert not kept.keep(request(), rows(1))
    assert list(kept.folder.iterdir()) == []


def test_rows_are_nobody_elses_to_read(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    assert kept.folder.stat().st_mode & 0o077 == 0


def test_nothing_is_left_when_the_application_has_ended(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    kept.clear()
    assert not kept.folder.exists()


def test_what_a_killed_application_has_left_behind_goes_after_a_day(kept: KeptRows) -> None:
    kept.keep(request(), rows(1))
    other = KeptRows(secrets.token_bytes(32))
    other.keep(request(), rows(2))
    kept.sweep()
    assert other.folder.exists() and kept.folder.exists()
    for path in (other.folder, *other.folder.iterdir()):
        os.utime(path, (0, 0))
    kept.sweep()
    assert not other.folder.exists() and kept.read(ONE, Epoch(1)) is not None


def test_a_host_elsewhere_gets_the_rows_as_they_were_kept(kept: KeptRows, tmp_path: Path) -> None:
    kept.keep(request(), rows(1, 2))
    elsewhere = KeptRows(secrets.token_bytes(32))
    mine, theirs = (Connection(sock, purpose="copies", keys=None) for sock in socket.socketpair())
    serving = threading.Thread(target=mine.send_file, args=(kept.path(ONE, Epoch(1)),))
    serving.start()
    elsewhere.receive(theirs, elsewhere.path(ONE, Epoch(1)))
    serving.join()
    assert elsewhere.read(ONE, Epoch(1)) == (request(), rows(1, 2))
    mine.send_file(kept.path(ONE, Epoch(2)))
    with pytest.raises(ChannelError, match="does not have the file"):
        elsewhere.receive(theirs, elsewhere.path(ONE, Epoch(2)))
    for connection in (mine, theirs):
        connection.close()
    elsewhere.clear()
