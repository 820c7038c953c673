"""A listener under strangers: slow ones, many of them, and more than there are descriptors; who belongs here gets in all the same."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from perseid.channel.connection import Address, Connection
from perseid.channel.handshake import connect
from perseid.channel.listener import Listener
from perseid.errors import ChannelError

SECRET = b"s" * 32
SERVER = """
import json, os, resource, socket, sys, threading
from perseid.errors import ChannelError
from perseid.channel.listener import Listener
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))

def serve(connection):
    try:
        while True:
            request = connection.receive()
            if "descriptors" in request:
                with open("/proc/self/status") as file:  # the process itself still gets some
                    threads = int(file.read().partition("Threads:")[2].split()[0])
                connection.send({"open": len(os.listdir("/proc/self/fd")), "threads": threads, "most": listener.most})
            else:
                connection.send(request)
    except ChannelError:
        connection.close()

server = socket.create_server(("127.0.0.1", 0), backlog=512)
listener = Listener(server, b"s" * 32, "host", ("epochs",), serve, timeout=float(sys.argv[1]))
print(json.dumps(server.getsockname()), flush=True)
if len(sys.argv) > 2:  # the process itself takes all that are left
    sys.stdin.readline()
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        print("none left", flush=True)
    sys.stdin.readline()
    for fd in taken:
        os.close(fd)
    print("some again", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def server(timeout_s: float, *more: str) -> Iterator[tuple[Address, subprocess.Popen[str]]]:
    """In a process of its own, with 96 descriptors."""
    command = [sys.executable, "-c", SERVER, str(timeout_s), *more]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        host, port = json.loads(process.stdout.readline())
        yield Address(host, port, name="host"), process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def asked(connection: Connection, request: dict[str, int]) -> dict[str, int]:
    connection.send(request)
    return connection.receive()


def test_a_flood_of_silent_and_dripping_peers_keeps_nobody_out_who_belongs_here() -> None:
    """300 peers at a process with 96 descriptors, of which half send a byte now and then, and none ever ends by itself."""
    with server(600.0) as (address, process):
        before = connect(address, SECRET, "epochs")
        flood: list[socket.socket] = []
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.02):
                for peer in flood[::2]:
                    with contextlib.suppress(OSError):
                        peer.send(b"\0")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            for number in range(300):
                flood.append(socket.create_connection((address.host, address.port), timeout=30))
                if number % 50 == 49:
                    with contextlib.closing(connect(address, SECRET, "epochs", timeout=60)) as one:
                        assert asked(one, {"number": number}) == {"number": number}
            found = asked(before, {"descriptors": 1})
        finally:
            ended.set()
            dripping.join()
            for peer in flood:
                peer.close()
        assert found["open"] < 96 // 2 and found["threads"] <= found["most"] + 10, found
        assert process.poll() is None


def test_without_any_descriptor_left_peers_are_turned_away_and_accepting_goes_on() -> None:
    with server(600.0, "all") as (address, process):
        assert process.stdin is not None and process.stdout is not None
        before = connect(address, SECRET, "epochs")
        assert asked(before, {"first": 1}) == {"first": 1}  # it is no stranger to the server any more
        process.stdin.write("take them\n")
        process.stdin.flush()
        assert process.stdout.readline() == "none left\n"
        others: list[Connection] = []
        with pytest.raises(ChannelError):
            # Each that gets in holds one of the few that threads of the server gave back meanwhile.
            others.extend(connect(address, SECRET, "epochs", timeout=0.5) for _ in range(8))
        assert asked(before, {"still": 1}) == {"still": 1}
        process.stdin.write("give them back\n")
        process.stdin.flush()
        assert process.stdout.readline() == "some again\n"
        with contextlib.closing(connect(address, SECRET, "epochs", timeout=60)) as after:
            assert asked(after, {"again": 1}) == {"again": 1}
        for connection in (before, *others):
            connection.close()


def test_the_oldest_stranger_goes_first_and_all_go_when_the_listener_closes() -> None:
    sock = socket.create_server(("127.0.0.1", 0), backlog=512)
    listener = Listener(sock, SECRET, "host", ("epochs",), lambda connection: connection.close(), timeout=600.0)
    peers = [socket.create_connection(sock.getsockname(), timeout=30) for _ in range(listener.most + 1)]
    assert peers[0].recv(1) == b"", "shown out by the last one to come"
    for peer in peers[1:]:
        peer.settimeout(0)
        with pytest.raises(BlockingIOError):
            peer.recv(1)
    listener.close()
    for peer in peers[1:]:
        peer.settimeout(30)
        assert peer.recv(1) == b""
    listener._thread.join(30)
    assert not listener._thread.is_alive()
    for peer in peers:
        peer.close()
