"""The shards a host holds: restored from snapshots, fed epoch by epoch, each with the answers and the input it keeps (design §3).

All of this runs under the host's lock: one epoch, restore or fork at a time.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine.shard import Refusal, ShardLog
from perseid.errors import CorruptData
from perseid.operators.context import Context
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.spark.answers import Answer, Spill
from perseid.spark.input_log import InputLog
from perseid.spark.rows import split_inputs
from perseid.spark.size_messages import answer_message, notice_message, read_ask
from perseid.state.codec import decode
from perseid.state.operator_state import fresh, restore, run_epoch
from perseid.state.size_estimate import SizeEstimate
from perseid.storage import layout
from perseid.storage.snapshots import SnapshotFile, read_snapshot
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


@dataclass(slots=True)
class HeldShard:
    """A shard, its operator, and what it says of its last epoch."""

    log: ShardLog[Answer]
    operator: Operator
    spec: OperatorSpec
    schema: pa.Schema
    input: InputLog
    size: SizeEstimate
    watch: SizeWatch
    dead_letters: int = 0
    worked_s: float = 0.0  # on epochs since it was restored
    last: dict[str, Any] = field(default_factory=dict)
    notices: list[dict[str, Any]] = field(default_factory=list)  # of its size, to be told to the controller


@dataclass(slots=True)
class Restored:
    """How a restore went: how long its parts took, which copies were read, how far each shard came by its kept input."""

    phases_ms: dict[str, int] = field(default_factory=lambda: {"read": 0, "deserialise": 0, "catch_up": 0})
    copies: dict[str, int] = field(default_factory=dict)
    shards: list[HeldShard] = field(default_factory=list)


class HeldShards:
    """All shards of one host."""

    def __init__(self, store: Store, copies: Path | None, folder: Path, specs: Iterable[OperatorSpec]) -> None:
        self._store, self._copies, self._folder = store, copies, folder
        self._specs = {spec.name: spec for spec in specs}
        self._shards: dict[ShardId, HeldShard] = {}
        self._spill = Spill(folder / "spill")
        self._said: dict[OperatorName, set[str]] = {}  # fields whose size is not known, by operator

    def __getitem__(self, shard: ShardId) -> HeldShard:
        return self._shards[shard]

    def clear(self) -> None:
        self._shards.clear()

    # -- restore --------------------------------------------------------------------------------------------------

    def restore(self, command: dict[str, Any]) -> Restored:
        """Take shards over as a command says: state from a snapshot, then the input that was kept on this machine."""
        done = Restored()
        for entry in command["shards"]:
            held = self._load(entry, Version(command["version"]), Epoch(command["retain_from"]), done)
            self._shards[held.log.shard] = held
            done.shards.append(held)
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        return done

    def _load(self, entry: dict[str, Any], version: Version, retain: Epoch, done: Restored) -> HeldShard:
        shard = ShardId(entry["operator"], entry["index"])
        spec = self._specs[shard.operator]
        operator = fresh(spec.prototype)
        if entry["snapshot"] is not None:
            file = SnapshotFile(**entry["snapshot"])
            begun = time.monotonic()
            header, buffers, copy = read_snapshot(self._store, file, local=self._copies)
            if ShardId(header["operator"], header["index"]) != shard or header["epoch"] != entry["epoch"]:
                raise CorruptData(
                    f"snapshot {file.path} is of {header}, not of shard {shard} at epoch {entry['epoch']}"
                )
            done.phases_ms["read"] += since(begun)
            begun = time.monotonic()
            restore(operator, decode(buffers))
            done.phases_ms["deserialise"] += since(begun)
            done.copies[copy] = done.copies.get(copy, 0) + 1
        schema = pa.ipc.read_schema(pa.py_buffer(spec.output))
        retain = Epoch(entry["epoch"] + 1) if spec.retained else retain
        log: ShardLog[Answer] = ShardLog(shard, version, Epoch(entry["epoch"]), retain_from=retain)
        size = SizeEstimate(shard.operator, operator, told=self._said.setdefault(shard.operator, set()))
        held = HeldShard(log, operator, spec, schema, InputLog(self._folder / "input", shard), size, SizeWatch(shard))
        begun = time.monotonic()
        self._catch_up(held, [Path(home) / "input" for home in entry["homes"]], Epoch(entry["upto"]))
        done.phases_ms["catch_up"] += since(begun)
        return held

    def _catch_up(self, held: HeldShard, homes: list[Path], upto: Epoch) -> None:
        held.input.take_over(homes, held.log.shard, upto)
        for request, rows in held.input.after(held.log.applied):
            if held.log.applied >= upto or isinstance(self._apply(held, request, rows, keep=False), Refusal):
                break

    # -- epochs ---------------------------------------------------------------------------------------------------

    def answer(self, request: dict[str, Any], rows: pa.Table) -> tuple[HeldShard, Answer | None] | Refusal:
        """Apply an epoch, or find the answer to one that was applied before (None: nobody looks at it)."""
        shard, epoch = ShardId(request["operator"], request["shard"]), Epoch(request["epoch"])
        held = self._shards.get(shard)
        if held is None:
            return Refusal("stale", f"shard {shard} is not on this host")
        recall, wanted = request["recall"], request["wanted"]
        decision = held.log.ask(epoch, Version(request["version"]), None if recall else rows.num_rows, wanted=wanted)
        if isinstance(decision, Refusal):
            return decision
        if decision == "apply":
            if recall:
                return Refusal("gap", f"shard {shard} has not applied epoch {epoch} yet: there is no answer to recall")
            applied = self._apply(held, request, rows, keep=True)
            return applied if isinstance(applied, Refusal) else (held, applied)
        return held, held.log.answers.get(epoch)

    def table(self, held: HeldShard, answer: Answer | None) -> pa.Table:
        return held.schema.empty_table() if answer is None else self._spill.table(answer)

    def _apply(self, held: HeldShard, request: dict[str, Any], rows: pa.Table, *, keep: bool) -> Answer | Refusal:
        """Apply one epoch: all of it, or the shard is poisoned and must be restored."""
        log, epoch = held.log, Epoch(request["epoch"])
        for answer in log.release(Epoch(request["release"])):
            self._spill.forget(answer)
        begun = time.monotonic()
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
        answer = self._spill.keep(output, log.shard, epoch)
        log.applied_epoch(epoch, answer, rows.num_rows)
        if keep:
            held.input.keep(epoch, request, rows)
        if held.spec.retained:
            self._spill.shrink(log.answers, keep=2)
        self._weigh(held, request["time_ms"], time.monotonic() - begun)
        held.last = {
            "shard": [log.shard.operator, log.shard.index],
            "epoch": epoch,
            "rows_in": sum(t.num_rows for t in inputs.values()),
            "rows_out": output.num_rows,
            "late_rows": context.late_rows,
            "event_times_ms": context.max_event_time_ms,
            "next_timer_ms": context.timers.next_ms("processing"),
            "next_event_timer_ms": context.timers.next_ms("event"),
            "state_bytes": held.size.bytes,
            "dead_letters": held.dead_letters,
            "ms": since(begun),
        }
        held.worked_s += time.monotonic() - begun
        held.last |= {"worked_ms": held.worked_s * 1000, "sizing_ms": held.size.spent_s * 1000}
        return answer

    def _weigh(self, held: HeldShard, at_ms: int, worked_s: float) -> None:
        """Find out the size, if it is worth the time, and what the controller must know of it (M5)."""
        size = held.size.after_epoch(worked_s)
        if size is not None:
            held.notices += [notice_message(notice) for notice in held.watch.sized(at_ms, size)]
            held.notices += [{"kind": "warning", "message": message} for message in held.size.warnings()]

    def sizes(self, command: dict[str, Any]) -> dict[str, Any] | None:
        """Answer the controller's question about sizes; None if none of the shards asked about is here."""
        ask = read_ask(command)
        mine = [h for s, h in self._shards.items() if ask.shards is None or s in ask.shards]
        return answer_message(ask.query, [held.watch.answer(ask) for held in mine]) if mine else None

    def quieten(self) -> None:
        for held in self._shards.values():
            held.watch.quieten()

    def _set_aside(self, shard: ShardId, epoch: Epoch, inputs: dict[str, pa.Table]) -> int:
        """Put the rows of an epoch that the operator cannot take into the dead letters."""
        for name, table in inputs.items():
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
            path = f"{layout.dead_letters(shard.operator)}/epoch={epoch}/{shard.index}-{name}.arrow"
            self._store.write(path, [sink.getvalue()])
        return sum(table.num_rows for table in inputs.values())

    def covered(self, cuts: dict[str, int]) -> None:
        """A checkpoint was committed: kept input up to it is needed no more (epoch by operator)."""
        for shard, held in self._shards.items():
            held.input.covered(Epoch(cuts.get(shard.operator, 0)))


def since(begun: float) -> int:
    """Milliseconds."""
    return round((time.monotonic() - begun) * 1000)
