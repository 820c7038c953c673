"""Backups between hosts: only those who prove the secret get a file, only what lies in a host's own folders, and a lost one is no error."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perseid.channel.connection import Address
from perseid.channel.handshake import accept
from perseid.channel.protocol import FETCH
from perseid.errors import ChannelError
from perseid.host.backups import KeptBackups

SECRET, PATH = b"s" * 32, "checkpoints/1/count-0.snapshot"


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Address]:
    """The address of a host that wrote a snapshot."""
    copies = tmp_path / "copies"
    (copies / PATH).parent.mkdir(parents=True)
    (copies / PATH).write_bytes(b"state" * 1_000)
    backups = KeptBackups(tmp_path / "writer", copies, SECRET)
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = server.accept()
                with contextlib.suppress(ChannelError):
                    connection = accept(sock, SECRET, "", ("backups",))
                    backups.serve(connection, connection.hear(FETCH).path)
                    connection.close()

    threading.Thread(target=run, daemon=True).start()
    yield Address(*server.getsockname())
    server.close()


def test_a_snapshot_is_kept_and_forgotten(tmp_path: Path, writer: Address) -> None:
    keeper = KeptBackups(tmp_path / "keeper", tmp_path / "other-copies", SECRET)
    assert keeper.keep(writer, PATH) == 5_000
    assert (tmp_path / "keeper" / PATH).read_bytes() == b"state" * 1_000
    keeper.forget(["checkpoints/1"])
    assert not (tmp_path / "keeper" / "checkpoints" / "1").exists()


def test_what_is_not_to_be_had_is_no_error(tmp_path: Path, writer: Address) -> None:
    keeper = KeptBackups(tmp_path / "keeper", tmp_path / "other-copies", SECRET)
    assert keeper.keep(writer, "checkpoints/2/count-0.snapshot") is None
    assert keeper.keep(writer, "../../../../etc/hostname") is None
    assert KeptBackups(tmp_path / "keeper", tmp_path / "other-copies", b"x" * 32).keep(writer, PATH) is None
    assert keeper.keep(replace(writer, port=1), PATH) is None
    assert KeptBackups(tmp_path / "keeper", None, SECRET).keep(writer, PATH) is None  # the root is on this very disk
