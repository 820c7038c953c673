"""A host's life, without Spark: what it leaves behind in the worker it lived in."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from perseid.channel.connection import Address
from perseid.channel.handshake import accept, connect
from perseid.channel.protocol import REGISTRATION
from perseid.engine.messages import Stop
from perseid.host.process import Host, HostConfig
from perseid.storage.store import Store

SECRET = b"s" * 32


def test_a_host_that_ends_leaves_no_thread_behind_though_tasks_keep_their_connections(tmp_path: Path) -> None:
    """Spark uses the worker again: threads of hosts that are no more would add up."""
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as server:
        config = HostConfig(1, Address(*server.getsockname()), SECRET, Store.at(str(tmp_path)), (), heartbeat_ms=50)
        serving = threading.Thread(target=lambda: Host(config).serve())
        serving.start()
        controller = accept(server.accept()[0], SECRET, "", ("control",))
    at = controller.hear(REGISTRATION).address
    tasks = [connect(Address(at.host, at.port, name=at.name), SECRET, "epochs") for _ in range(3)]
    controller.tell(Stop(for_good=True))
    serving.join()
    until = time.monotonic() + 30
    while (left := set(threading.enumerate()) - before) and time.monotonic() < until:
        time.sleep(0.01)
    assert not left
    assert all(task.ended for task in tasks)
    for connection in (controller, *tasks):
        connection.close()
