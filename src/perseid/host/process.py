"""A host: a long-lived Python process, itself a Spark task, that holds shards and their state (design §3).

It dials the controller, proves the secret, and then listens for epochs on the interface it reached the controller
through. It beats its heart, restores and snapshots shards when told, and ends when the controller goes away: a host
nobody controls must not answer.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa

from perseid.channel import blocked
from perseid.channel.connection import Address, Connection, machine_id
from perseid.channel.handshake import connect
from perseid.channel.listener import BACKLOG, Listener
from perseid.channel.protocol import COPIES, FETCH, FROM_TASK, TO_HOST, HeartOf, Registration
from perseid.engine.host import HostMachine
from perseid.engine.messages import (
    AnswerDiffered,
    ApplyEpoch,
    CopyShards,
    FetchRows,
    FromHost,
    Heartbeat,
    LoadMeasured,
    Request,
    RowsFollow,
    Taken,
)
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError
from perseid.host.allocators import sparing
from perseid.host.answers import Answer
from perseid.host.apply import OperatorSpec
from perseid.host.backups import KeptBackups
from perseid.host.broken_pipes import quietly
from perseid.host.copies_folder import CopiesFolder
from perseid.host.effects import HostEffects, LiveShard
from perseid.host.heart import Heart, start_heart
from perseid.host.host_folder import make_folder
from perseid.host.lifeline import executor, outliving_daemon
from perseid.host.memory import resident_bytes
from perseid.storage.process import Process
from perseid.storage.store import Store

LOAD_S = 5.0  # between two reports of what a host had to do (S5: r)


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Everything a host is started with."""

    launch: int
    controller: Address
    secret: bytes = field(repr=False)
    store: Store
    operators: tuple[OperatorSpec, ...]
    heartbeat_ms: int
    cuts: str | None = None  # where tests cut connections
    keep_input: bool = True


class HostTask:
    """What Spark runs: a ``mapInArrow`` function that does not return before it is told to."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        quietly()
        with sparing(), outliving_daemon():
            Host(self.config).serve()
        yield pa.RecordBatch.from_pydict({"launch": pa.array([self.config.launch], pa.int64())})


class Host:
    """The process."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config
        blocked.allow(config.cuts)
        self.copies_folder = CopiesFolder(config.store)
        self.copies = self.copies_folder.folder
        self.stopped_for_good = False
        self.lock = threading.RLock()  # state: one epoch, fork, or change of shards at a time
        self.sending = threading.Lock()
        self.folder = make_folder()
        self.backups = KeptBackups(self.folder / "backups", self.copies, config.secret)
        self.effects = HostEffects(
            config.store,
            self.copies,
            self.folder,
            config.operators,
            self._tell,
            self.backups,
            self._stop,
            config.secret,
            self._start_heart,
        )
        self.machine: HostMachine[LiveShard, pa.Table, Answer] = HostMachine(
            self.effects, self.effects.retaining, keep_input=config.keep_input, alone=self.lock
        )
        self.stopping = False
        self.ended = threading.Event()
        self.conversations: set[Connection] = set()  # with tasks, which keep their connections
        self.name = secrets.token_hex(8)
        self.heart: Heart | None = None
        self.control = connect(config.controller, config.secret, "control")

    # -- life -----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Live until the controller says stop, or is gone."""
        listeners: list[Listener] = []
        try:
            tcp, unix = self._sockets()
            name = tcp.getsockname()
            wanted = ("epochs", "backups", "copies")
            listeners += [Listener(s, self.config.secret, self.name, wanted, self._converse) for s in (tcp, unix)]
            address = Address(name[0], name[1], str(unix.getsockname()), machine_id(), self.name)
            host = f"{machine_id()}-{executor() or os.getppid()}"
            self._tell(Registration(self.config.launch, address, host, Process.this()))
            threading.Thread(target=self._beat, daemon=True).start()
            self._obey()
        finally:
            self.ended.set()
            for listener in listeners:
                listener.close()
            for connection in tuple(self.conversations):
                connection.abort()
            self.control.close()
            if self.heart is not None:
                self.heart.stop()
            self.machine.shards.clear()
            self.machine.copies.shards.clear()
            if self.stopped_for_good:
                self.effects.rows.clear()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.copies_folder.leave(for_good=self.stopped_for_good)

    def _sockets(self) -> tuple[socket.socket, socket.socket]:
        tcp = socket.create_server((self.control.local_ip, 0), backlog=BACKLOG)
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(str(self.folder / "epochs"))
        unix.listen(BACKLOG)
        return tcp, unix

    def _beat(self) -> None:
        told_s, worked_s = time.monotonic(), time.process_time()
        while not self.ended.wait(self.config.heartbeat_ms / 1000):
            with contextlib.suppress(ChannelError):
                self._tell(Heartbeat())
                self._tell_stands()
                now_s = time.monotonic()
                if now_s - told_s >= LOAD_S and self.lock.acquire(blocking=False):  # a heart waits for nothing
                    try:
                        shards = self.effects.loads(held.live for held in self.machine.shards.values())
                    finally:
                        self.lock.release()
                    cpu = (time.process_time() - worked_s) / (now_s - told_s)
                    ms = round((now_s - told_s) * 1000)
                    self._tell(LoadMeasured(round(cpu, 4), ms, resident_bytes(), shards))
                    told_s, worked_s = now_s, time.process_time()

    def _tell_stands(self) -> None:
        """Where shards stand that two hosts answer for; the next beat will do."""
        if self.lock.acquire(blocking=False):
            try:
                stands = self.machine.stands()
            finally:
                self.lock.release()
            if stands is not None:
                self._tell(stands)

    def _start_heart(self, beat_ms: int) -> None:
        """A process beside this one says how it is. Without one the driver still hears this one's own heartbeats."""
        with contextlib.suppress(ChannelError):
            connection = connect(self.config.controller, self.config.secret, "heart")
            connection.tell(HeartOf(self.name))
            if self.heart is not None:
                self.heart.stop()
            self.heart = start_heart(connection, beat_ms)

    def _tell(self, message: FromHost | Registration) -> None:
        with self.sending:
            self.control.tell(message)

    def _obey(self) -> None:
        while not self.stopping:
            try:
                message = self.control.hear(TO_HOST)
            except ChannelError:
                return  # the controller is gone, or has given this host up
            self.machine.handle(message)

    def _stop(self, for_good: bool) -> None:
        self.stopping, self.stopped_for_good = True, for_good

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _converse(self, connection: Connection) -> None:
        """One task's connection: epochs in, answers out, until it goes away; or another host's, for backups."""
        self.conversations.add(connection)
        try:
            while not self.ended.is_set():
                if connection.purpose == "backups":
                    self.backups.serve(connection, connection.hear(FETCH).path)
                    continue
                if connection.purpose == "copies":
                    self._copy(connection)
                    continue
                asked, rows = connection.hear(FROM_TASK), None
                if isinstance(asked, AnswerDiffered):
                    self.effects.send(asked)
                    continue
                if isinstance(asked, ApplyEpoch):
                    schema, batches = connection.receive_rows()
                    rows = pa.Table.from_batches(list(batches), schema=schema)
                self._answer(connection, asked, rows)
        except ChannelError:
            pass
        finally:
            self.conversations.discard(connection)
            connection.close()

    def _copy(self, connection: Connection) -> None:
        """Another host sends state, or wants input that tasks kept here."""
        message = connection.hear(COPIES)
        match message:
            case CopyShards():
                begun = time.monotonic()
                received, size = self.effects.receive_copy(connection, message)
                ms = round((time.monotonic() - begun) * 1000)
                connection.tell(Taken(self.machine.take_copy(message, received, size, ms)))
            case FetchRows(shard, epoch):
                connection.send_file(self.effects.rows.path(shard, epoch))
            case _:
                assert_never(message)

    def _answer(self, connection: Connection, request: Request, rows: pa.Table | None) -> None:
        found = self.machine.ask(request, rows)
        if isinstance(found, Refusal):
            connection.tell(found)
            return
        del rows
        table = self.effects.table(found.live, found.answer)
        connection.tell(RowsFollow())
        connection.send_rows(found.live.schema, table.to_batches(max_chunksize=1 << 16))
