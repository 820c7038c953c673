"""Strangers on the ports of hosts and driver: no secret, half-open and dripping connections, absurd lengths, noise, floods."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator

import apps
import pytest
from apps import Folder
from pyspark.sql import SparkSession

from perseid import PerseidError
from perseid.channel.connection import Address
from perseid.channel.handshake import connect
from perseid.driver.running import Running
from perseid.errors import ChannelError, NotAuthentic

pytestmark = pytest.mark.spark

ROWS = 5_000


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
    """Of the hosts, and of the driver."""
    found = [host.address.rpartition(":") for host in running.progress().hosts if host.shards]
    driver = running._shell.hosts._address
    return [*((ip, int(port)) for ip, _, port in found), (driver.host, driver.port)]


@contextlib.contextmanager
def dripping(peers: list[socket.socket]) -> Iterator[None]:
    """Some of these send a byte now and then."""
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.3):
            for peer in peers[::2]:
                with contextlib.suppress(OSError):
                    peer.send(b"\0")

    thread = threading.Thread(target=drip)
    thread.start()
    yield
    ended.set()
    thread.join()
    for peer in peers:
        peer.close()


def said(message: dict[str, object]) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack(">I", len(data)) + data


def test_strangers_on_the_ports_of_hosts_and_driver_change_nothing(running: Running, folder: Folder) -> None:
    assert {ip for ip, _ in addresses(running)} == {"127.0.0.1"}, "they listen on the cluster's interface only"
    hosts = running._shell.hosts
    assert not any(hosts._secret.hex()[at : at + 8] in hosts._tag for at in range(57)), (
        "job tags are for everybody to see"
    )
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
            said({"nonce": "00" * 16, "purpose": "epochs", "server": "", "sealed": True}),
            said({"proof": "\u00ff" * 32}),
        ):
            peer = socket.create_connection((ip, port), timeout=5)
            open_sockets.append(peer)
            with contextlib.suppress(OSError):
                peer.sendall(data)
        with pytest.raises((NotAuthentic, ChannelError)):
            connect(Address(ip, port), b"a guess at the secret", "epochs")
    assert {
        host.pid for host in running.progress().hosts if host.shards
    } == pids or running.progress().faults  # a busy machine may lose one by itself
    with dripping(open_sockets):
        assert running.wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


@pytest.mark.slow
def test_a_flood_of_half_open_and_dripping_connections_keeps_nobody_out_who_belongs_there(
    running: Running, folder: Folder
) -> None:
    flood = []
    with contextlib.suppress(OSError):
        for ip, port in addresses(running):
            flood += [socket.create_connection((ip, port), timeout=5) for _ in range(300)]
    with dripping(flood):
        assert running.wait(apps.WAIT_S)
    assert len(flood) > 200
    apps.check_counts(folder.out, ROWS)
