"""Hosts as the driver sees them: one Spark job each, one control connection each, their addresses.

A host that dies and comes back is another host, with another id: what an old one still says or does carries the old id and is
not listened to.

Hosts are spread over executors: one that comes up where more are than elsewhere is declined and started again, a few times, since Spark
alone chooses where. Else the death of one executor could be the death of all hosts, and recovery would wait for a new JVM.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from perseid.channel import blocked
from perseid.channel.connection import Address, Connection, machine_id
from perseid.channel.listener import BACKLOG, Listener
from perseid.channel.protocol import FROM_HOST, HEART_OF, REGISTRATION, Registration
from perseid.driver.pulses import Pulses
from perseid.engine import events as on
from perseid.engine.host_messages import Home, Homes
from perseid.engine.host_starts import Spread
from perseid.engine.messages import FromHost, Stop, ToHost
from perseid.errors import ChannelError
from perseid.host.apply import OperatorSpec
from perseid.host.process import HostConfig, HostTask
from perseid.spark.jobs import cancel, tagged, worker_python
from perseid.spark.worker_python import cannot_run
from perseid.storage.process import Process
from perseid.storage.store import Store
from perseid.vocabulary import HostId

LAST_WORDS_S = 0.2  # what a host that has ended had said is read for so long
STOP_S = 10.0  # hosts are given so long to end by themselves


@dataclass(slots=True)
class HostLink:
    """A registered host."""

    id: HostId
    launch: int
    address: Address
    executor: str
    process: Process
    connection: Connection
    sending: threading.Lock
    dropped: bool = False
    heard: threading.Event = field(default_factory=threading.Event)  # all that it will ever say

    @property
    def folder(self) -> Path:
        """Its own, on its machine's disk."""
        return Path(self.address.unix).parent


class Hosts:
    """Starts hosts, listens to them, talks to them, ends them."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        secret: bytes,
        operators: tuple[OperatorSpec, ...],
        heartbeat_ms: int,
        keep_input: bool,
        post: Callable[[on.Event], None],
        on_registered: Callable[[HostLink], None],
        on_message: Callable[[HostLink, FromHost], None],
        app: str,
    ) -> None:
        self._spark, self._store, self._secret, self._operators = spark, store, secret, operators
        self._heartbeat_ms, self._keep_input = heartbeat_ms, keep_input
        self._post, self._on_registered, self._on_message, self._app = post, on_registered, on_message, app
        self._links: dict[HostId, HostLink] = {}
        self.homes = Homes()
        self._left: list[Path] = []  # folders of killed hosts on this machine
        self._next = 1
        self._launches: dict[int, threading.Thread] = {}
        self._dropped_launches: set[int] = set()
        self._registered_launches: set[int] = set()
        self._spread = Spread()
        self._lock = threading.Lock()
        self._closing = False
        self._tag = f"perseid-{os.getpid()}-{secrets.token_hex(4)}"  # everybody may see it
        server = socket.create_server((control_ip(spark), 0), backlog=BACKLOG)
        ip, port = server.getsockname()[:2]
        self._address = Address(ip, port, name=secrets.token_hex(8))
        self.pulses = Pulses(post)
        self._listener = Listener(server, secret, self._address.name, ("control", "heart"), self._hear)

    # -- starting -------------------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Ask Spark for one more host."""
        with self._lock:
            number = self._next
            self._next += 1
        thread = threading.Thread(target=self._run, args=(number,), name=f"perseid-host-{number}", daemon=True)
        self._launches[number] = thread
        thread.start()

    def _run(self, launch: int) -> None:
        config = HostConfig(
            launch,
            self._address,
            self._secret,
            self._store,
            self._operators,
            self._heartbeat_ms,
            blocked.folder(),
            self._keep_input,
        )
        reason, hopeless, declined = "its task ended", None, -1
        while declined < self._spread.declined[launch] and not self._closing:
            declined = self._spread.declined[launch]
            time.sleep(self._spread.pause_s(launch))
            try:
                with tagged(self._spark, f"{self._tag}-host-{launch}"):
                    self._spark.range(0, 1, 1, 1).mapInArrow(HostTask(config), "launch long").collect()
            except Exception as error:
                reason, hopeless = _said(error), cannot_run(str(error), worker_python(self._spark))
        self._launches.pop(launch, None)
        if self._closing:
            return
        if launch not in self._registered_launches:
            self._post(on.HostStartFailed(reason, hopeless))
            return
        for link in [link for link in self._links.values() if link.launch == launch and not link.dropped]:
            self._post(on.HostDisconnected(link.id, reason))

    # -- listening ------------------------------------------------------------------------------------------------

    def _hear(self, connection: Connection) -> None:
        if connection.purpose == "heart":
            self._hear_heart(connection)
            return
        try:
            hello = connection.hear(REGISTRATION)
        except ChannelError:
            connection.close()
            return
        link = self._register(connection, hello)
        if link is None:
            connection.close()
            return
        reason = "its connection broke"
        try:
            while True:
                message = connection.hear(FROM_HOST)
                if link.dropped:
                    return
                self._on_message(link, message)
        except ChannelError as error:
            reason = str(error)
        finally:
            link.heard.set()
            connection.close()
            if not link.dropped and not self._closing:
                self._post(on.HostDisconnected(link.id, reason))

    def _hear_heart(self, connection: Connection) -> None:
        """A process beside a host says how the host is. One that ends alone is started again."""
        link = None
        try:
            name = connection.hear(HEART_OF).name
            link = next((link for link in self.links if link.address.name == name), None)
            ended = self.pulses.listen(link.id, connection) if link is not None else False
        except ChannelError:
            ended = False
        finally:
            connection.close()
        if link is None or link.dropped or self._closing:
            return
        if ended:
            link.heard.wait(LAST_WORDS_S)  # reports of epochs that it has answered, which would be waited for
            self._post(on.HostDisconnected(link.id, "its process has ended"))

    def _register(self, connection: Connection, hello: Registration) -> HostLink | None:
        launch = hello.launch
        there_are = executors(self._spark)  # asks the JVM, which may take its time: nobody else has to wait for it
        with self._lock:
            if self._closing or launch in self._dropped_launches:
                return None  # Spark tried a dropped host's task once more
            hosts = Counter(link.executor for link in self.links)
            if self._spread.declines(launch, hello.executor, hosts, there_are):
                return None
            host = HostId(self._next)
            self._next += 1
            link = HostLink(
                host,
                launch,
                hello.address,
                hello.executor,
                hello.process,
                connection,
                threading.Lock(),
            )
            self._links[host] = link
            self.homes.came(Home(host, link.address.machine, str(link.folder)))
            again = launch in self._registered_launches
            self._registered_launches.add(launch)
        if again:  # Spark restarted the task by itself: the host before it is gone
            for other in [o for o in self._links.values() if o.launch == launch and o.id != host and not o.dropped]:
                self._post(on.HostDisconnected(other.id, "Spark restarted its task"))
        self._on_registered(link)
        self._post(on.HostRegistered(host, link.address.machine, link.executor))
        return link

    # -- talking --------------------------------------------------------------------------------------------------

    def link(self, host: HostId) -> HostLink | None:
        return self._links.get(host)

    @property
    def links(self) -> list[HostLink]:
        return list(self._links.values())

    @property
    def waiting(self) -> int:
        """Hosts that Spark was asked for and that are not there yet."""
        return sum(launch not in self._registered_launches for launch in tuple(self._launches))

    @property
    def addresses(self) -> dict[HostId, Address]:
        return {link.id: link.address for link in self.links}

    def send(self, host: HostId, message: ToHost) -> None:
        """Tell a host something. A host that cannot be told is dead, which its connection will say."""
        link = self._links.get(host)
        if link is None or link.dropped:
            return
        try:
            with link.sending:
                link.connection.tell(message)
        except ChannelError as error:
            self._post(on.HostDisconnected(host, str(error)))

    def broadcast(self, message: ToHost) -> None:
        for link in self.links:
            self.send(link.id, message)

    def drop(self, host: HostId) -> None:
        """Never listen to this host again, and see to it that it ends."""
        link = self._links.pop(host, None)
        if link is None:
            return
        self.homes.gone(host)
        self.pulses.gone(host)
        link.dropped = True
        with self._lock:
            self._dropped_launches.add(link.launch)
        link.connection.abort()
        if link.address.machine == machine_id():
            self._left.append(link.folder)
            _kill(link.process)  # a paused host on this machine frees its slot at once
        self._cancel([link.launch])

    def release(self, host: HostId) -> None:
        """Let this host end: it holds nothing any more."""
        self.send(host, Stop(for_good=False))
        link = self._links.pop(host, None)
        if link is not None:
            self.homes.gone(host)
            self.pulses.gone(host)
            link.dropped = True
            with self._lock:
                self._dropped_launches.add(link.launch)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Ask all hosts to return, so that Spark is not left with tasks to restart; end those that do not. Waits for no single host, nor
        for a Spark that does not answer."""
        self._closing = True
        self.pulses.stop()
        for link in self.links:
            threading.Thread(target=self.send, args=(link.id, Stop(for_good=True)), daemon=True).start()
        launches = dict(self._launches)
        self._cancel(launch for launch in launches if launch not in self._registered_launches)
        if not _joined(launches.values(), timeout_s):
            self.kill()
            _joined(launches.values(), timeout_s / 2)
        self._listener.close()
        for link in self.links:
            link.connection.abort()
        for folder in self._left:
            shutil.rmtree(folder, ignore_errors=True)

    def kill(self) -> None:
        """Free the task slots of all hosts that are left: their jobs are cancelled, and those on this machine killed."""
        self._closing = True
        for link in self.links:
            if link.address.machine == machine_id():
                self._left.append(link.folder)
                _kill(link.process)
            link.connection.abort()  # elsewhere a host ends when nobody controls it
        self._cancel(self._launches)

    def _cancel(self, launches: Iterable[int]) -> None:
        for launch in list(launches):
            tag = f"{self._tag}-host-{launch}"
            threading.Thread(target=cancel, args=(self._spark, tag), name="perseid-cancel", daemon=True).start()


def _kill(process: Process) -> None:
    if not process.is_dead():
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)


def _joined(threads: Iterable[threading.Thread], timeout_s: float) -> bool:
    """Have all ended, within this time?"""
    until = time.monotonic() + timeout_s
    for thread in list(threads):
        thread.join(max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


def _said(error: Exception) -> str:
    """What an error of Spark says, in one line: where it is one of Python's, that."""
    lines = str(error).strip().splitlines()
    traceback = next((number for number, line in enumerate(lines) if line.startswith("Traceback ")), len(lines))
    python = (line for line in lines[traceback + 1 :] if line and not line[0].isspace())
    return next(python, lines[0] if lines else type(error).__name__)


def executors(spark: SparkSession) -> int:
    """How many there are; one where Spark does not tell."""
    try:
        known = len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos())  # the driver is one of them
    except Exception:  # Spark Connect has no such thing; a context that is being stopped has none any more
        return 1
    return max(1, known - 1)


def control_ip(spark: SparkSession) -> str:
    """Where the controller listens: loopback for an embedded cluster, else the driver's own address in the cluster."""
    master = spark.conf.get("spark.master", "local") or "local"
    if master.startswith("local"):
        return "127.0.0.1"
    name = spark.conf.get("spark.driver.host", None) or socket.gethostname()
    return socket.gethostbyname(name)
