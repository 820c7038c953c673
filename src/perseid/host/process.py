"""A host: a long-lived Python process, itself a Spark task, that holds shards and their state (design §3).

It dials the controller, proves the secret, and then listens for epochs on the interface it reached the controller
through. It beats its heart, restores and snapshots shards when told, and ends when the controller goes away: a host
nobody controls must not answer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from perseid.channel import blocked
from perseid.channel.connection import Address, Connection, machine_id
from perseid.channel.handshake import connect
from perseid.channel.listener import BACKLOG, Listener
from perseid.engine.shard import Refusal
from perseid.errors import ChannelError, CorruptData, PerseidError, StorageFailed
from perseid.host.allocators import sparing
from perseid.host.backups import KeptBackups
from perseid.host.copies_folder import CopiesFolder
from perseid.host.farewell import quietly
from perseid.host.gently import gently
from perseid.host.host_folder import make_folder
from perseid.host.lifeline import executor, outliving_daemon
from perseid.host.memory import resident_bytes
from perseid.host.shards import OperatorSpec, Shards
from perseid.host.snapshot_writer import Snapshots
from perseid.storage.process import Process
from perseid.storage.store import Store
from perseid.vocabulary import ShardId

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
        self.shards = Shards(
            config.store, self.copies, self.folder, config.operators, self.backups.fetch, keep_input=config.keep_input
        )
        self.snapshots = Snapshots(config.store, self.copies, self._tell)
        self.ended = threading.Event()
        self.conversations: set[Connection] = set()  # with tasks, which keep their connections
        self.name = secrets.token_hex(8)
        self.control = connect(config.controller, config.secret, "control")

    # -- life -----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Live until the controller says stop, or is gone."""
        listeners: list[Listener] = []
        try:
            tcp, unix = self._sockets()
            name = tcp.getsockname()
            wanted = ("epochs", "backups")
            listeners += [Listener(s, self.config.secret, self.name, wanted, self._converse) for s in (tcp, unix)]
            self._tell(
                "register",
                launch=self.config.launch,
                process=Process.this().to_json(),
                host=name[0],
                port=name[1],
                unix=str(unix.getsockname()),
                machine=machine_id(),
                name=self.name,
                executor=f"{machine_id()}-{executor() or os.getppid()}",
            )
            threading.Thread(target=self._beat, daemon=True).start()
            self._obey()
        finally:
            self.ended.set()
            for listener in listeners:
                listener.close()
            for connection in tuple(self.conversations):
                connection.abort()
            self.control.close()
            self.shards.clear()
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
                self._tell("heartbeat")
                now_s = time.monotonic()
                if now_s - told_s >= LOAD_S and self.lock.acquire(blocking=False):  # a heart waits for nothing
                    try:
                        shards = self.shards.loads()
                    finally:
                        self.lock.release()
                    cpu = (time.process_time() - worked_s) / (now_s - told_s)
                    self._tell(
                        "load",
                        cpu=round(cpu, 4),
                        ms=round((now_s - told_s) * 1000),
                        memory=resident_bytes(),
                        shards=shards,
                    )
                    told_s, worked_s = now_s, time.process_time()

    def _tell(self, kind: str, **fields: Any) -> None:
        with self.sending:
            self.control.send({"kind": kind, **fields})

    def _obey(self) -> None:
        while True:
            try:
                command = self.control.receive()
            except ChannelError:
                return  # the controller is gone, or has given this host up
            match command["kind"]:
                case "restore":
                    self._restore(command)
                case "catch_up":
                    self._catch_up(command)
                case "drop":
                    with self.lock:
                        self.shards.drop(ShardId(operator, index) for operator, index in command["shards"])
                case "snapshot":
                    self._snapshot(command)
                case "forget":
                    self.backups.forget(command["paths"])
                    for path in command["paths"] if self.copies is not None else ():
                        shutil.rmtree(self.copies / path, ignore_errors=True)
                case "back_up":
                    threading.Thread(target=self._back_up, args=(command,), daemon=True).start()
                case "release_backup":
                    self.backups.forget([command["path"]])
                case "covered":
                    with self.lock:
                        self.shards.covered(command["cuts"])
                case "sizes":
                    with self.lock:
                        answer = self.shards.sizes(command)
                    if answer is not None:
                        self._tell(**answer)
                case "quieten":
                    with self.lock:
                        self.shards.quieten(command["anew"])
                case "stop":
                    self.stopped_for_good = command["for_good"]
                    return

    def _restore(self, command: dict[str, Any]) -> None:
        version = command["version"]
        try:
            with self.lock:  # from here on nobody reaches them, until they are what they should be
                self.shards.vacate(ShardId(e["operator"], e["index"]) for e in command["shards"])
            work = functools.partial(self.shards.restored, command)
            helds, phases = gently(work) if command["beside"] and self.shards.empty else work()
            with self.lock:
                self.shards.adopt(helds)
        except PerseidError as error:
            corrupt, storage = isinstance(error, CorruptData), isinstance(error, StorageFailed)
            self._tell("restore_failed", version=version, message=str(error), corrupt=corrupt, storage=storage)
        except Exception:
            self._tell(
                "restore_failed", version=version, message=traceback.format_exc(limit=8), corrupt=False, storage=False
            )
        else:
            reached = [[*held.log.shard, held.log.applied] for held in helds]
            for held in helds:
                if held.last:
                    self._tell("applied", **held.last)
            sizes = [[*held.log.shard, held.size.bytes] for held in helds]
            self._tell(
                "restored", version=version, phases=phases.ms, copies=phases.copies, reached=reached, sizes=sizes
            )

    def _catch_up(self, command: dict[str, Any]) -> None:
        """What kept input cannot do, a replay will: nothing that goes wrong here is worth more than a word."""
        try:
            helds = self.shards.caught_up(command)
        except Exception:
            self._tell("warning", message=f"kept input cannot be used: {traceback.format_exc(limit=4)}")
            helds = []
        for held in helds:
            if held.last:
                self._tell("applied", **held.last)
        reached = [[*held.log.shard, held.log.applied] for held in helds]
        self._tell("caught_up", version=command["version"], reached=reached)

    def _back_up(self, command: dict[str, Any]) -> None:
        """Keep a copy of another host's snapshot. Nothing depends on it: what goes wrong is not even told."""
        size = self.backups.keep(command["from"], command["path"])
        with contextlib.suppress(ChannelError):
            if size is not None:
                self._tell("backed_up", path=command["path"], bytes=size)

    def _snapshot(self, command: dict[str, Any]) -> None:
        with self.lock:
            helds = [self.shards[ShardId(e["operator"], e["index"])] for e in command["shards"]]
            rest = self.snapshots.take(command, helds)
        if rest is not None:
            rest()

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _converse(self, connection: Connection) -> None:
        """One task's connection: epochs in, answers out, until it goes away; or another host's, for backups."""
        self.conversations.add(connection)
        try:
            while not self.ended.is_set():
                request = connection.receive()
                if connection.purpose == "backups":
                    self.backups.serve(connection, request["fetch"])
                    continue
                schema, batches = connection.receive_rows()
                table = pa.Table.from_batches(list(batches), schema=schema)
                self._answer(connection, request, table)
        except ChannelError:
            pass
        finally:
            self.conversations.discard(connection)
            connection.close()

    def _answer(self, connection: Connection, request: dict[str, Any], rows: pa.Table) -> None:
        with self.lock:
            self.snapshots.give_way()
            found = self.shards.answer(request, rows)
            notices: list[dict[str, Any]] = []
            if not isinstance(found, Refusal):
                notices, found[0].notices = found[0].notices, []
        if isinstance(found, Refusal):
            connection.send({"status": found.kind, "message": found.message})
            return
        del rows
        held, answer = found
        table = self.shards.table(held, answer if request["wanted"] else None)
        if request["report"]:
            self._tell("applied", **held.last)
        for notice in notices:
            self._tell(**notice)
        connection.send({"status": "ok"})
        connection.send_rows(held.schema, table.to_batches(max_chunksize=1 << 16))
