"""The exchange: the Spark task of one shard sends its rows to the shard's host and hands on what comes back.

It runs inside ``mapInArrow`` after the shuffle that brought every row of the shard together (``perseid.spark.shard_rows``). Rows stream to
the host as Spark produces them (``perseid.spark.asking``). A failure is raised as one line that the driver can read (``FAILURE``):
which kind, which host, which shard.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from perseid.channel import blocked
from perseid.channel.codec import Kinds, encode
from perseid.channel.kept_rows import KeptRows
from perseid.channel.packed_layout import Layout
from perseid.channel.rows import EPOCH
from perseid.engine.messages import ApplyEpoch, RecallAnswer, Request
from perseid.errors import ChannelError
from perseid.spark.asking import Refused, Target, Unreachable, answers
from perseid.spark.first_answer import first_answer
from perseid.spark.shard_rows import of_one_shard
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, Version

FAILURE = "perseid-failure:"
_frozen = False


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What the driver must know of a failed exchange."""

    kind: str  # of the refusal; ``host`` where the host could not be reached
    message: str
    host: HostId
    shard: ShardId


_FAILURE = Kinds[TaskFailure](TaskFailure)


class ExchangeFailed(Exception):
    """What a failed exchange raises in the Spark task; its text reaches the driver."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(f"{FAILURE}{json.dumps(encode(failure))}")


@dataclass(frozen=True, slots=True)
class EpochHeader:
    """What a shard must know of an epoch besides its rows."""

    epoch: Epoch
    time_ms: int
    watermark_ms: int | None
    at_ms: int  # when it is sent, by the driver's steady clock: for what measures, not for what rows see
    last: bool = False  # the input has ended


@dataclass(frozen=True)
class Exchange:
    """One operator's exchange in one job. Sent to Spark's workers with the job."""

    operator: OperatorName
    version: Version
    epochs: tuple[EpochHeader, ...]  # one; several in a replay, then rows carry their epoch
    release: Epoch
    targets: tuple[Target, ...]  # of each shard, in the order of slots
    secret: bytes = field(repr=False)
    schema: bytes = field(repr=False)  # Arrow schema of the rows without the epoch
    output: bytes = field(repr=False)
    layout: Layout | None = None  # how the rows come; None: as they are
    only: frozenset[int] | None = None  # only these shards take part (None: all)
    recalled: frozenset[int] = frozenset()  # these give the answers they kept and apply nothing
    aside: frozenset[Epoch] = frozenset()  # epochs of which this operator has dead letters, or may put rows there
    find: bool = False  # may it?
    wanted: bool = True  # does anybody look at the answer?
    cuts: str | None = field(default_factory=blocked.folder)  # where tests cut connections

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        global _frozen
        if not _frozen:
            gc.freeze()
            _frozen = True
        blocked.allow(self.cuts)
        index, batches = of_one_shard(_whole(batches), self.layout)
        target = self.targets[index]
        output = pa.ipc.read_schema(pa.py_buffer(self.output))
        takes_part = self.only is None or target.shard in self.only or target.shard in self.recalled
        if not takes_part:
            for _ in batches:
                pass
            yield pa.RecordBatch.from_pylist([], schema=output)
            return
        if len(self.epochs) == 1:
            yield from self._ask(target, self.epochs[0], batches)
            return
        for header, rows in self._by_epoch(batches):
            yield from self._ask(target, header, iter(rows))

    def _by_epoch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[EpochHeader, list[pa.RecordBatch]]]:
        kept = [batch for batch in batches if batch.num_rows]
        table = pa.Table.from_batches(kept) if kept else None
        for header in self.epochs:
            if table is None:
                yield header, []
            else:
                mine = table.filter(pc.equal(table.column(EPOCH), header.epoch)).drop_columns([EPOCH])
                yield header, mine.to_batches()

    def _ask(self, target: Target, header: EpochHeader, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shard, schema = ShardId(self.operator, target.shard), pa.ipc.read_schema(pa.py_buffer(self.schema))
        request: Request
        rows: Iterator[pa.RecordBatch] | None
        if target.shard in self.recalled:
            for _ in batches:
                pass
            request, rows = RecallAnswer(shard, header.epoch, self.version), None
        else:
            request = self._request(shard, header)
            rows = (self._as_sent(batch, schema) for batch in batches)
        try:
            if len(target.places) == 1:
                yield from answers(target.places[0], self.secret, request, schema, rows)
            else:
                kept = list(rows) if rows is not None else []
                if isinstance(request, ApplyEpoch):
                    KeptRows(self.secret).keep(request, pa.Table.from_batches(kept, schema))
                yield from first_answer(target, self.secret, request, schema, kept)
        except Refused as error:
            raise ExchangeFailed(TaskFailure(error.refusal.kind, error.refusal.message, error.host, shard)) from None
        except Unreachable as error:
            raise ExchangeFailed(TaskFailure("host", str(error), error.host, shard)) from error

    def _request(self, shard: ShardId, header: EpochHeader) -> ApplyEpoch:
        return ApplyEpoch(
            shard,
            header.epoch,
            self.version,
            self.release,
            header.time_ms,
            header.watermark_ms,
            header.at_ms,
            header.last,
            None if header.epoch not in self.aside else "find" if self.find else "read",
            self.wanted,
        )

    def _as_sent(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if self.layout is not None:
            return self.layout.unpacked(batch, schema)
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


@dataclass(frozen=True)
class Then:
    """An exchange, and what is done with its answers in the same task."""

    exchange: Exchange
    function: Any  # what mapInArrow takes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.function(self.exchange(batches))


class CutShort(Exception):
    """Spark ended a task's input before its end: the task was killed, or a block it reads was lost."""


def _whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The task's rows; raises if their end is not the real one.

    When Spark gives a task up, it closes the pipe to the Python worker, and Arrow takes a closed pipe for the end of the rows. Behind
    the real end Spark writes a last word, so there is more to read; behind a closed pipe there is nothing. Where the worker's
    pipe cannot be found, the shard finds out when it is asked again (``ShardLog.ask``).
    """
    yield from batches
    frame: FrameType | None = sys._getframe()
    while frame is not None and not (frame.f_code.co_name == "main" and "infile" in frame.f_locals):
        frame = frame.f_back
    peek = getattr(frame.f_locals["infile"], "peek", None) if frame is not None else None
    if peek is not None and not peek(1):
        raise CutShort("Spark ended the rows of this task before their end")


def failure_in(text: str) -> TaskFailure | None:
    """The failure an exchange raised, found in the text of Spark's exception."""
    start = text.find(FAILURE)
    if start < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, start + len(FAILURE))
        return _FAILURE.decode(found)
    except (ValueError, ChannelError):
        return None
