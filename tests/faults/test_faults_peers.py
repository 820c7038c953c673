"""Strangers on a host's port: no secret, half-open connections, absurd lengths, noise."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator

import apps
import pytest
from apps import Folder
from pyspark.sql import SparkSession

from perseid import PerseidError
from perseid.errors import ChannelError, NotAuthentic
from perseid.spark.channel import Address, connect
from perseid.spark.runtime import Running

pytestmark = pytest.mark.spark

ROWS = 8_000


@pytest.fixture
def running(spark: SparkSession, folder: Folder) -> Iterator[Running]:
    app = apps.counts(folder.out, ROWS)
    running = app.start(
        spark, root=folder.root, checkpoint=apps.scheme("parallel", 1), hosts=2, spares=1, max_rows_per_epoch=250
    )
    apps.wait_for_epoch(running, 2)
    yield running
    with contextlib.suppress(PerseidError):
        running.stop()


def addresses(running: Running) -> list[tuple[str, int]]:
    found = [host.address.rpartition(":") for host in running.progress().hosts if host.shards]
    return [(ip, int(port)) for ip, _, port in found]


def test_hosts_listen_on_the_clusters_interface_only(running: Running) -> None:
    assert {ip for ip, _ in addresses(running)} == {"127.0.0.1"}


def test_strangers_on_a_hosts_port_change_nothing(running: Running, folder: Folder) -> None:
    pids = {host.pid for host in running.progress().hosts if host.shards}
    open_sockets = []
    for ip, port in addresses(running):
        for data in (
            b"",  # half open: says nothing and stays
            struct.pack(">I", 2_000_000_000),  # claims 2 GB
            struct.pack(">I", 2_000_000_000) + b"x" * 100_000,
            os.urandom(100_000),
            struct.pack(">I", 5) + b"hello",  # no JSON
            struct.pack(">I", 40) + b'{"nonce":"00112233445566778899aabbccddeeff"}'[:40],
            b"GET / HTTP/1.1\r\n\r\n",
        ):
            peer = socket.create_connection((ip, port), timeout=5)
            open_sockets.append(peer)
            with contextlib.suppress(OSError):
                peer.sendall(data)
        with pytest.raises((NotAuthentic, ChannelError)):
            connect(Address(ip, port), b"a guess at the secret")
    assert {
        host.pid for host in running.progress().hosts if host.shards
    } == pids or running.progress().faults  # a busy machine may lose one by itself
    assert running.wait(240)
    apps.check_counts(folder.out, ROWS)
    for peer in open_sockets:
        peer.close()


@pytest.mark.slow
def test_a_flood_of_half_open_connections_does_not_close_the_host_to_its_own(running: Running, folder: Folder) -> None:
    flood = []
    with contextlib.suppress(OSError):
        for ip, port in addresses(running):
            flood += [socket.create_connection((ip, port), timeout=5) for _ in range(300)]
    assert running.wait(240)
    for peer in flood:
        peer.close()
    assert len(flood) > 200
    apps.check_counts(folder.out, ROWS)
