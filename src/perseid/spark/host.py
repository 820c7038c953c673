"""A host: a long-lived Python process, itself a Spark task, that holds shards and their state (design §3).

It dials the controller, proves the secret, and then listens for epochs on the interface it reached the controller
through. It beats its heart, restores and snapshots shards when told, and ends when the controller goes away: a host
nobody controls must not answer.

Snapshot: ``fork()``; the child writes the state as of the boundary while the parent goes on (M4). Only the forking thread lives on
in the child, so it uses nothing but pickle and OS calls, and leaves with ``os._exit``.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import json
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid.engine.shard import Refusal, ShardLog
from perseid.errors import ChannelError, CorruptData, PerseidError, StorageFailed
from perseid.operators.context import Context
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.spark.answers import Answer, Spill
from perseid.spark.channel import NO_DESCRIPTOR, Address, Connection, accept, connect, machine_id
from perseid.spark.rows import split_inputs
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch, state_bytes
from perseid.storage import layout
from perseid.storage.process import Process
from perseid.storage.snapshots import (
    SnapshotFile,
    publish_snapshot,
    read_snapshot,
    write_local_snapshot,
    write_snapshot,
)
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId, Version


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """What a host must know of one stateful operator."""

    name: OperatorName
    prototype: Operator
    key: tuple[str, ...] | dict[str, tuple[str, ...]]
    inputs: tuple[str, ...]
    event_time: EventTime | None
    output: bytes  # Arrow schema
    retained: bool  # its answers are kept until a checkpoint covers them


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Everything a host is started with."""

    launch: int
    controller: Address
    secret: bytes
    store: Store
    operators: tuple[OperatorSpec, ...]
    heartbeat_ms: int


@dataclass(slots=True)
class HeldShard:
    """A shard, its operator, and what it says of its last epoch."""

    log: ShardLog[Answer]
    operator: Operator
    spec: OperatorSpec
    schema: pa.Schema
    dead_letters: int = 0
    last: dict[str, Any] = field(default_factory=dict)


class HostTask:
    """What Spark runs: a ``mapInArrow`` function that does not return before it is told to."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        Host(self.config).serve()
        yield pa.RecordBatch.from_pydict({"launch": pa.array([self.config.launch], pa.int64())})


class Host:
    """The process."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config
        self.specs = {spec.name: spec for spec in config.operators}
        self.store = config.store
        self.copies = local_copies(config.store)
        self.shards: dict[ShardId, HeldShard] = {}
        self.lock = threading.RLock()  # state: one epoch, restore or fork at a time
        self.sending = threading.Lock()
        self.folder = Path(tempfile.mkdtemp(prefix="perseid-host-"))
        self.spill = Spill(self.folder / "spill")
        self.ended = threading.Event()
        self.control = connect(config.controller, config.secret)

    # -- life -----------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Live until the controller says stop, or is gone."""
        gc.freeze()
        gc.set_threshold(50_000, 50, 100)
        listeners = self._listen()
        try:
            tcp, unix = listeners
            name = tcp.getsockname()
            self._tell(
                "register",
                launch=self.config.launch,
                process=Process.this().to_json(),
                host=name[0],
                port=name[1],
                unix=str(unix.getsockname()),
                machine=machine_id(),
            )
            for listener in listeners:
                threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
            threading.Thread(target=self._beat, daemon=True).start()
            self._obey()
        finally:
            self.ended.set()
            for listener in listeners:
                listener.close()
            self.control.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _listen(self) -> tuple[socket.socket, socket.socket]:
        tcp = socket.create_server((self.control.local_ip, 0), backlog=64)
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(str(self.folder / "epochs"))
        unix.listen(64)
        return tcp, unix

    def _beat(self) -> None:
        while not self.ended.wait(self.config.heartbeat_ms / 1000):
            with contextlib.suppress(ChannelError):
                self._tell("heartbeat")

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
                case "snapshot":
                    self._snapshot(command)
                case "forget":
                    for path in command["paths"] if self.copies is not None else ():
                        shutil.rmtree(self.copies / path, ignore_errors=True)
                case "stop":
                    return

    # -- restore --------------------------------------------------------------------------------------------------

    def _restore(self, command: dict[str, Any]) -> None:
        version = command["version"]
        phases = {"read": 0, "deserialise": 0}
        copies: dict[str, int] = {}
        try:
            with self.lock:
                for entry in command["shards"]:
                    held = self._load(entry, Version(version), Epoch(command["retain_from"]), phases, copies)
                    self.shards[held.log.shard] = held
                gc.collect()
                gc.freeze()
        except PerseidError as error:
            corrupt, storage = isinstance(error, CorruptData), isinstance(error, StorageFailed)
            self._tell("restore_failed", version=version, message=str(error), corrupt=corrupt, storage=storage)
        except Exception:
            self._tell(
                "restore_failed", version=version, message=traceback.format_exc(limit=8), corrupt=False, storage=False
            )
        else:
            self._tell("restored", version=version, phases=phases, copies=copies)

    def _load(
        self, entry: dict[str, Any], version: Version, retain: Epoch, phases: dict[str, int], copies: dict[str, int]
    ) -> HeldShard:
        shard = ShardId(entry["operator"], entry["index"])
        spec = self.specs[shard.operator]
        operator = fresh(spec.prototype)
        if entry["snapshot"] is not None:
            file = SnapshotFile(**entry["snapshot"])
            begin = time.monotonic()
            header, buffers, copy = read_snapshot(self.store, file, local=self.copies)
            if ShardId(header["operator"], header["index"]) != shard or header["epoch"] != entry["epoch"]:
                raise CorruptData(
                    f"snapshot {file.path} is of {header}, not of shard {shard} at epoch {entry['epoch']}"
                )
            middle = time.monotonic()
            restore(operator, decode(buffers))
            phases["read"] += round((middle - begin) * 1000)
            phases["deserialise"] += round((time.monotonic() - middle) * 1000)
            copies[copy] = copies.get(copy, 0) + 1
        schema = pa.ipc.read_schema(pa.py_buffer(spec.output))
        retain = Epoch(entry["epoch"] + 1) if spec.retained else retain
        log: ShardLog[Answer] = ShardLog(shard, version, Epoch(entry["epoch"]), retain_from=retain)
        return HeldShard(log, operator, spec, schema)

    # -- snapshots ------------------------------------------------------------------------------------------------

    def _snapshot(self, command: dict[str, Any]) -> None:
        checkpoint, unit = command["checkpoint"], command["unit"]
        began = time.monotonic()
        with self.lock:
            helds = [self.shards[ShardId(e["operator"], e["index"])] for e in command["shards"]]
            wrong = [h for h in helds if h.log.applied != command["epoch"] or h.log.poisoned]
            if wrong:
                self._tell("snapshot_failed", checkpoint=checkpoint, message=f"shard {wrong[0].log.shard} is not there")
                return
            if command["synchronous"]:
                results = [
                    self._write(checkpoint, e, h, forked=False) for e, h in zip(command["shards"], helds, strict=True)
                ]
                self._tell("forked", checkpoint=checkpoint, unit=unit, ms=_since(began))
                for result in results:
                    self._tell(**result)
                return
            gc.freeze()
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                self._child(writer, checkpoint, command["shards"], helds)
            os.close(writer)
        self._tell("forked", checkpoint=checkpoint, unit=unit, ms=_since(began))
        threading.Thread(target=self._reap, args=(child, reader, checkpoint, len(helds)), daemon=True).start()

    def _child(self, writer: int, checkpoint: int, entries: list[dict[str, Any]], helds: list[HeldShard]) -> None:
        """In the forked child: only this thread is alive."""
        try:
            gc.disable()
            _close_sockets()
            with contextlib.suppress(OSError, AttributeError):
                os.nice(10)  # epochs go first
            for entry, held in zip(entries, helds, strict=True):
                line = json.dumps(self._write(checkpoint, entry, held, forked=True)) + "\n"
                os.write(writer, line.encode())
        except BaseException:
            os.write(
                writer,
                (json.dumps({"kind": "snapshot_failed", "message": traceback.format_exc(limit=4)}) + "\n").encode(),
            )
        finally:
            os._exit(0)

    def _write(self, checkpoint: int, entry: dict[str, Any], held: HeldShard, *, forked: bool) -> dict[str, Any]:
        """Make one shard's state durable; what to tell the controller."""
        began = time.monotonic()
        shard = held.log.shard
        header = {"operator": shard.operator, "index": shard.index, "epoch": held.log.applied, "slots": entry["slots"]}
        try:
            buffers = encode(capture(held.operator))
            if forked and self.store.local is None and self.copies is not None:
                # A forked child must not use the library behind a remote store: the parent uploads.
                file = write_local_snapshot(self.copies, entry["path"], header, buffers)
            else:
                file = write_snapshot(self.store, entry["path"], header, buffers, local=self.copies)
        except (StorageFailed, OSError) as error:
            return {"kind": "snapshot_failed", "checkpoint": checkpoint, "message": f"shard {shard}: {error}"}
        return {
            "kind": "written",
            "checkpoint": checkpoint,
            "shard": [shard.operator, shard.index],
            "slots": entry["slots"],
            "epoch": held.log.applied,
            "file": {"path": file.path, "bytes": file.bytes, "digest": file.digest},
            "state_bytes": sum(memoryview(b).nbytes for b in buffers),
            "ms": _since(began),
        }

    def _reap(self, child: int, reader: int, checkpoint: int, expected: int) -> None:
        told = 0
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                message = {"checkpoint": checkpoint, **json.loads(line)}
                if message["kind"] == "written" and self.store.local is None:
                    message = self._publish(message)
                with contextlib.suppress(ChannelError):
                    self._tell(**message)
                told += 1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
        if told < expected:
            with contextlib.suppress(ChannelError):
                self._tell("snapshot_failed", checkpoint=checkpoint, message="the process that wrote the snapshot died")

    def _publish(self, message: dict[str, Any]) -> dict[str, Any]:
        """Bring a snapshot that the child wrote to the local disk into the store."""
        try:
            assert self.copies is not None, "only a local root has none"
            publish_snapshot(self.store, SnapshotFile(**message["file"]), self.copies)
        except (StorageFailed, OSError) as error:
            return {"kind": "snapshot_failed", "checkpoint": message["checkpoint"], "message": str(error)}
        return message

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while not self.ended.is_set():
            try:
                sock, _ = listener.accept()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    return
                time.sleep(0.1)  # a flood of strangers holds all of them; none may hold one for long
                continue
            threading.Thread(target=self._converse, args=(sock,), daemon=True).start()

    def _converse(self, sock: socket.socket) -> None:
        """One task's connection: epochs in, answers out, until it goes away."""
        try:
            connection = accept(sock, self.config.secret)
        except ChannelError:
            return
        try:
            while not self.ended.is_set():
                request = connection.receive()
                schema, batches = connection.receive_rows()
                table = pa.Table.from_batches(list(batches), schema=schema)
                self._answer(connection, request, table)
        except ChannelError:
            pass
        finally:
            connection.close()

    def _answer(self, connection: Connection, request: dict[str, Any], rows: pa.Table) -> None:
        shard = ShardId(request["operator"], request["shard"])
        epoch = Epoch(request["epoch"])
        with self.lock:
            held = self.shards.get(shard)
            answer: Answer | Refusal
            if held is None:
                answer = Refusal("stale", f"shard {shard} is not on this host")
            else:
                recall = request["recall"]
                decision = held.log.ask(epoch, Version(request["version"]), None if recall else rows.num_rows)
                if isinstance(decision, Refusal):
                    answer = decision
                elif decision == "apply" and recall:
                    answer = Refusal(
                        "gap", f"shard {shard} has not applied epoch {epoch} yet: there is no answer to recall"
                    )
                else:
                    answer = self._apply(held, request, rows) if decision == "apply" else held.log.answers[epoch]
        if held is None or isinstance(answer, Refusal):
            assert isinstance(answer, Refusal)
            connection.send({"status": answer.kind, "message": answer.message})
            return
        del rows
        table = self.spill.table(answer) if request["wanted"] else held.schema.empty_table()
        if request["report"]:
            self._tell("applied", **held.last)
        connection.send({"status": "ok"})
        connection.send_rows(held.schema, table.to_batches(max_chunksize=1 << 16))

    def _apply(self, held: HeldShard, request: dict[str, Any], rows: pa.Table) -> Answer | Refusal:
        """Apply one epoch: all of it, or the shard is poisoned and must be restored."""
        log, epoch = held.log, Epoch(request["epoch"])
        for answer in log.release(Epoch(request["release"])):
            self.spill.forget(answer)
        began = time.monotonic()
        context = Context(
            epoch=epoch,
            time_ms=request["time_ms"],
            watermark_ms=request["watermark_ms"],
            shard=log.shard,
            key=held.spec.key,
            event_time=held.spec.event_time,
        )
        inputs = split_inputs(rows, held.spec.inputs)
        if request["aside"]:
            held.dead_letters += self._set_aside(log.shard, epoch, inputs)
            inputs = {name: table.slice(0, 0) for name, table in inputs.items()}
        try:
            table = run_epoch(held.operator, inputs, context)
            output = held.schema.empty_table() if table is None else fit(table, held.schema, log.shard.operator)
        except Exception as error:
            trace = "".join(traceback.format_exception(error.__cause__ or error)[-6:])
            log.failed(epoch, f"{error}\n{trace}")
            return Refusal("raised", f"{error}\n{trace}")
        answer = self.spill.keep(output, log.shard, epoch)
        log.applied_epoch(epoch, answer, rows.num_rows)
        if held.spec.retained:
            self.spill.shrink(log.answers, keep=2)
        held.last = {
            "shard": [log.shard.operator, log.shard.index],
            "epoch": epoch,
            "rows_in": sum(t.num_rows for t in inputs.values()),
            "rows_out": output.num_rows,
            "late_rows": context.late_rows,
            "event_times_ms": context.max_event_time_ms,
            "next_timer_ms": context.timers.next_ms("processing"),
            "next_event_timer_ms": context.timers.next_ms("event"),
            "state_bytes": state_bytes(held.operator),
            "dead_letters": held.dead_letters,
            "ms": _since(began),
        }
        return answer

    def _set_aside(self, shard: ShardId, epoch: Epoch, inputs: dict[str, pa.Table]) -> int:
        """Put the rows of an epoch that the operator cannot take into the dead letters."""
        for name, table in inputs.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            path = f"{layout.dead_letters(shard.operator)}/epoch={epoch}/{shard.index}-{name}.arrow"
            self.store.write(path, [sink.getvalue()])
        return sum(table.num_rows for table in inputs.values())


def _close_sockets() -> None:
    """In a forked child: if its parent dies, peers must see the connections close, which the child would keep open."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                    os.close(int(name))


def local_copies(store: Store) -> Path | None:
    """The folder on a machine's own disk for second copies of snapshots (M6); None where the root is on that disk itself."""
    temporary = Path(tempfile.gettempdir())
    if store.local is not None and store.local.stat().st_dev == temporary.stat().st_dev:
        return None
    return temporary / f"perseid-{os.getuid()}-{hashlib.sha256(store.root.encode()).hexdigest()[:12]}"


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
