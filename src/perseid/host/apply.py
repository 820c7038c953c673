"""One epoch applied to one shard, without the rows that are in the dead letters; or, where that is wanted, those are found first.

A request says which: ``aside`` is None (nothing was put aside), ``read`` (leave out what the dead letters of this epoch hold) or ``find``
(and if the operator raises all the same, put aside the rows that make it raise).

Invariant: dead letters are durable before their epoch is applied without them, so before any sink holds what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from perseid.engine.messages import ApplyEpoch
from perseid.errors import CorruptData, StorageFailed
from perseid.operators.context import Context
from perseid.operators.culprits import Found, Search
from perseid.operators.event_time import EventTime
from perseid.operators.operator import Operator
from perseid.operators.output import fit
from perseid.state.operator_state import run_epoch
from perseid.storage.dead_letters import Aside, LeftOut, identities, left_out, put_aside
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId

_ROUNDS = 3  # of looking for rows to put aside: each but the first because somebody else was quicker

Inputs = dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """What a host must know of one stateful operator."""

    name: OperatorName
    prototype: Operator
    key: dict[str, tuple[str, ...]]  # columns by input
    key_types: tuple[str, ...]  # Arrow's names
    inputs: tuple[str, ...]
    event_time: EventTime | None
    output: bytes  # Arrow schema
    retained: bool  # its answers are kept until a checkpoint covers them


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of an epoch."""

    output: pa.Table
    context: Context
    rows_aside: int = 0  # in the dead letters, of this shard's rows
    timers_aside: int = 0
    error: str = ""  # why, of the first of them


def apply_epoch(
    store: Store,
    operator: Operator,
    spec: OperatorSpec,
    schema: pa.Schema,
    request: ApplyEpoch,
    inputs: Inputs,
) -> Applied:
    """Apply an epoch. Raises ``StorageFailed`` with the operator unchanged; with any other error its state is undefined."""
    shard, epoch = request.shard, request.epoch
    absent = _read(store, shard, epoch) if request.aside else LeftOut()

    def context() -> Context:
        return Context(
            epoch=epoch,
            time_ms=request.time_ms,
            watermark_ms=request.watermark_ms,
            last_epoch=request.last,
            shard=shard,
            key=spec.key,
            event_time=spec.event_time,
            output=schema,
            skipped=set(absent.timers),
        )

    if request.aside != "find":
        kept, mine = absent.kept(inputs), context()
        table = run_epoch(operator, kept, mine)
        output = schema.empty_table() if table is None else fit(table, schema, shard.operator)
        return _applied(output, mine, inputs, kept, absent)
    for _ in range(_ROUNDS):
        kept = absent.kept(inputs)
        search = Search(operator, kept, context, schema)
        found = search.run()
        if not (any(found.rows.values()) or found.timers):
            return _applied(found.output, found.context, inputs, kept, absent)
        try:
            written = put_aside(store, shard, epoch, request.time_ms, _aside(found, inputs, absent), absent)
            absent = _read(store, shard, epoch)
        except StorageFailed:
            search.undo()
            raise
        if written:
            return _applied(found.output, found.context, inputs, absent.kept(inputs), absent)
        search.undo()
    raise StorageFailed(f"shard {shard}: its dead letters of epoch {epoch} could not be written, others were quicker")


def _read(store: Store, shard: ShardId, epoch: Epoch) -> LeftOut:
    try:
        return left_out(store, shard.operator, epoch)
    except CorruptData as error:  # without them nobody knows what to leave out
        raise StorageFailed(f"{error}; put the file back as it was") from error


def _aside(found: Found, inputs: Inputs, absent: LeftOut) -> Aside:
    """The rows that were found, which were looked for among those that are not in the dead letters yet."""
    rows = {}
    for name, table in inputs.items():
        known = identities(name, table)
        places = [place for place, identity in enumerate(known) if identity not in absent.rows]
        errors = {places[place]: error for place, error in found.rows[name].items()}
        rows[name] = table.take(pa.array(list(errors), pa.int64())), [known[p] for p in errors], list(errors.values())
    return Aside(rows, {repr(timer): error for timer, error in found.timers.items()})


def _applied(output: pa.Table, context: Context, inputs: Inputs, kept: Inputs, absent: LeftOut) -> Applied:
    gone = sum(inputs[name].num_rows - kept[name].num_rows for name in inputs)
    mine = [letters for letters in absent.letters if letters.shard == context.shard.index]
    timers = sum(len(letters.timers) for letters in mine)
    return Applied(output, context, gone, timers, mine[0].error if mine else "")
