"""One unit's thread: runs its epochs and replays as Spark jobs, one at a time, and tells the controller how they ended."""

from __future__ import annotations

import errno
import functools
import os
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from perseid.channel.connection import Address
from perseid.driver.reports import Report, Reports
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.stream_store import StreamStore
from perseid.engine.unit_job import (
    LEFT_OUT_MS,
    Cancelled,
    Replay,
    TaskFailed,
    left_out,
    released,
    replay_again,
    replay_groups,
    unit_failed,
)
from perseid.errors import Fenced, MalformedLine, PerseidError
from perseid.graph.graph import Graph, Unit
from perseid.graph.nodes import SinkNode, SourceNode
from perseid.graph.topology import UnitShape
from perseid.sinks.console import ConsoleSink
from perseid.sinks.epoch_folders import EpochFolders
from perseid.sinks.memory import MemorySink
from perseid.sinks.noop import NoopSink
from perseid.sinks.sink import MappedSink
from perseid.sources.malformed import Aside, malformed_line
from perseid.sources.source import MalformedSource
from perseid.spark.exchange import failure_in
from perseid.spark.frames import EpochFrames, Frames
from perseid.spark.jobs import cancel, tagged
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted
from perseid.vocabulary import Attempt, Epoch, HostId, OperatorName, ShardId, SourceName, StreamName, UnitName

NO_SPACE = os.strerror(errno.ENOSPC)
BAD_CHECKSUM = "CRC checksum verification failed"  # as Parquet says it
DATA_EXCEPTION = "22"  # SQL states of what rows do to an expression: division by zero, a text that is no number
OWN_SINKS = (EpochFolders, MemorySink, ConsoleSink, NoopSink)  # others run code of the user


class UnitWorker:
    """Carries out RunEpoch and ReplayShards of one unit."""

    def __init__(
        self,
        spark: SparkSession,
        graph: Graph,
        unit: Unit,
        shape: UnitShape,
        retaining: frozenset[OperatorName],
        frames: Frames,
        streams: StreamStore[DataFrame],
        ledger: Ledger,
        lease: Lease,
        reports: Reports,
        addresses: Callable[[], dict[HostId, Address]],
        post: Callable[[on.Event], None],
        finished: Callable[[UnitName, Admitted, Mapping[ShardId, Report]], None],
        put_aside: Callable[[str, Epoch, Aside], None],
    ) -> None:
        self._spark, self._graph, self._unit, self._shape = spark, graph, unit, shape
        self._retaining = retaining
        self._frames, self._streams, self._ledger, self._lease = frames, streams, ledger, lease
        self._reports, self._addresses, self._post, self._finished = reports, addresses, post, finished
        self._put_aside = put_aside
        self._name = UnitName(unit.name)
        self._commands: queue.SimpleQueue[do.RunEpoch | do.ReplayShards | None] = queue.SimpleQueue()
        self._cancelled: set[Attempt] = set()
        self._given: set[Attempt] = set()  # jobs that have not ended
        self._tag = f"perseid-unit-{id(self)}"
        self._thread = threading.Thread(target=self._work, name=f"perseid-unit-{unit.name}", daemon=True)
        self._thread.start()

    def submit(self, command: do.RunEpoch | do.ReplayShards) -> None:
        self._given.add(command.attempt)
        self._commands.put(command)

    def is_at(self, attempt: Attempt) -> bool:
        """Has this job not ended yet?"""
        return attempt in self._given

    def cancel(self, attempt: Attempt) -> None:
        """Take a job back, whether it has begun or not; may be called again until the job has ended."""
        if self.is_at(attempt):
            self._cancelled.add(attempt)
            cancel(self._spark, self._job(attempt))

    def stop(self) -> None:
        self._commands.put(None)

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _job(self, attempt: Attempt) -> str:
        return f"{self._tag}-{attempt}"

    def _work(self) -> None:
        while (command := self._commands.get()) is not None:
            try:
                self._check(command.attempt)
                with tagged(self._spark, self._job(command.attempt)):
                    event = self._replay(command) if isinstance(command, do.ReplayShards) else self._run(command)
            except BaseException as error:
                event = on.FatalError(str(error)) if isinstance(error, MalformedLine) else self._failure(command, error)
            self._given.discard(command.attempt)
            self._cancelled.discard(command.attempt)
            self._post(event)

    def _check(self, attempt: Attempt) -> None:
        if attempt in self._cancelled:
            raise Cancelled

    # -- epochs ---------------------------------------------------------------------------------------------------

    def _run(self, command: do.RunEpoch) -> on.Event:
        admitted = self._admitted(command.epoch)
        if command.again:
            for stream in self._unit.inputs:
                self._streams.refresh(StreamName(stream), command.epoch, command.routing)
        self._without_malformed([admitted], lambda: self._compute(command, admitted))
        shards = command.routing.shards_of(self._shape.operators)
        reports = self._reports.of_epoch(
            shards, command.epoch, check=functools.partial(self._check_hosts, command, shards)
        )
        self._finished(self._name, admitted, reports)
        return on.UnitFinished(self._name, command.epoch, command.attempt)

    def _compute(self, command: do.RunEpoch, admitted: Admitted) -> None:
        frames = self._frames.epoch(
            admitted,
            command.routing,
            self._addresses(),
            release=self._released(command.release, command.release_covered),
            set_aside=command.set_aside,
            find=command.find,
        )
        frames.check = functools.partial(self._check, command.attempt)
        try:
            for stream in self._unit.outputs:
                self._check(command.attempt)
                rows = frames.node_to_run(stream)
                self._streams.put(StreamName(stream), command.epoch, admitted.digest, rows)
            for node in self._unit.nodes:
                if isinstance(node, SinkNode):
                    self._check(command.attempt)
                    self._write(node, admitted, frames)
            shards = command.routing.shards_of(self._shape.operators)
            for operator in left_out(self._missing(shards, command.epoch, frames.check)):
                self._check(command.attempt)
                _run_for_effect(frames.node(operator))
        finally:
            frames.forget()

    def _without_malformed(self, epochs: Sequence[Admitted], run: Callable[[], None]) -> None:
        """Run it. If it meets lines that do not fit their schema, put those of that source aside, and run it again: once for a source."""
        sources = {layout.encoded(n.name): n for n in self._graph.sources if n.unit == self._unit.name}
        for node in sources.values():
            self._set_aside(node, epochs, expected=True)
        while True:
            try:
                return run()
            except Exception as error:
                found = malformed_line(str(error))
                if found is None or found["source"] not in sources:
                    raise
                node = sources.pop(found["source"])
                if self._set_aside(node, epochs):
                    continue
                if isinstance(node.source, MalformedSource) and node.source.malformed == "fail":
                    raise MalformedLine(
                        f"source {node.name!r}: a line of {found['file']} does not fit the schema: {found['line']!r}; to go on"
                        ' after it, start again with malformed="aside" (it goes to the dead letters) or "null" on this source'
                    ) from error
                raise

    def _set_aside(self, node: SourceNode, epochs: Sequence[Admitted], *, expected: bool = False) -> bool:
        source, found = node.source, False
        if not isinstance(source, MalformedSource):
            return False
        for admitted in epochs:
            start, end = admitted.slice_of(SourceName(node.name))
            if expected and not source.expects_malformed(start, end):
                continue
            aside = source.set_aside(start, end)
            if aside is not None:
                found = True
                self._put_aside(node.name, admitted.epoch, aside)
        return found

    def _write(self, node: SinkNode, admitted: Admitted, frames: EpochFrames) -> None:
        self._lease.check()
        stream, sink = node.inputs[0], node.sink
        if sink.holds(admitted.epoch, admitted.digest):
            if self._shape.operators:
                _run_for_effect(frames.node_to_run(stream))  # state must see it, the sink has it
            return
        mapped = frames.mapped(stream) if isinstance(sink, MappedSink) else None
        if mapped is not None and isinstance(sink, MappedSink):
            schema = self._frames.compiled.schemas[stream]
            frames.check()
            if sink.write_mapped(admitted.epoch, admitted.digest, schema, mapped):
                return
        ours = isinstance(sink, OWN_SINKS)
        df = frames.node_to_run(stream) if ours else frames.node_for_user(stream)
        frames.check()
        sink.write(admitted.epoch, admitted.digest, df)

    def _check_hosts(self, command: do.RunEpoch, shards: Collection[ShardId]) -> None:
        """A host that is gone does not report any more. If another one stands in for it, that one has to be asked for the epoch."""
        self._check(command.attempt)
        hosts = self._addresses()
        for shard in self._reports.missing(shards, command.epoch, 0):
            if command.routing.host_of(shard) not in hosts:
                raise TaskFailed(
                    "suspended", f"the host of shard {shard} ended before it reported", host=None, shard=shard
                )

    def _missing(self, shards: Collection[ShardId], epoch: Epoch, check: Callable[[], None]) -> list[ShardId]:
        """Shards that were not asked, as it seems."""
        return self._reports.missing(shards, epoch, LEFT_OUT_MS / 1000, check)

    def _released(self, consumed: Epoch, covered: Epoch) -> dict[OperatorName, Epoch]:
        return released(self._shape.operators, self._retaining, consumed, covered)

    def _admitted(self, epoch: Epoch) -> Admitted:
        admitted = self._ledger.admitted(epoch)
        assert admitted is not None, f"epoch {epoch} is not in the ledger"
        return admitted

    # -- replays --------------------------------------------------------------------------------------------------

    def _replay(self, command: do.ReplayShards) -> on.Event:
        epochs = (self._admitted(Epoch(number)) for number in range(command.first, command.last + 1))
        for group in replay_groups(epochs, self._rows):
            self._feed_without_malformed(command, group)
        self._reports.of_epoch(command.shards, command.last, check=functools.partial(self._check, command.attempt))
        return on.ReplayFinished(self._name, command.attempt)

    def _rows(self, admitted: Admitted) -> int:
        mine = [node for node in self._graph.sources if node.unit == self._unit.name]
        known = [node.source.rows(*admitted.slice_of(SourceName(node.name))) for node in mine]
        return sum(count or 0 for count in known)

    def _feed_without_malformed(self, command: do.ReplayShards, group: list[Admitted]) -> None:
        self._without_malformed(group, lambda: self._feed(command, group))

    def _feed(self, command: do.ReplayShards, group: list[Admitted]) -> None:
        self._check(command.attempt)
        if command.again:
            for stream in self._unit.inputs:
                for admitted in group:
                    self._streams.refresh(StreamName(stream), admitted.epoch, command.routing)
        self._feed_to(frozenset(command.shards), command, group)

    def _feed_to(self, shards: frozenset[ShardId], command: do.ReplayShards, group: list[Admitted]) -> None:
        frames = self._frames.replay(
            group,
            Replay(self._shape, shards),
            command.routing,
            self._addresses(),
            release=self._released(command.release, Epoch(0)),
            set_aside=command.set_aside,
        )
        check = functools.partial(self._check, command.attempt)
        for epoch, together in frames:
            for df in together:
                check()
                _run_for_effect(df)
            some = replay_again(self._missing(shards, epoch, check), shards)
            if some:
                self._feed_to(some, command, [admitted for admitted in group if admitted.epoch == epoch])

    # -- failures -------------------------------------------------------------------------------------------------

    def _failure(self, command: do.RunEpoch | do.ReplayShards, error: BaseException) -> on.UnitFailed:
        epoch = command.epoch if isinstance(command, do.RunEpoch) else command.last
        text = str(error)
        found = failure_in(text)
        if found is not None:
            error = TaskFailed(found.kind, found.message, host=found.host, shard=found.shard)
        return unit_failed(
            command,
            error,
            cancelled=command.attempt in self._cancelled,
            taken_over=self._taken_over,
            kind=_kind_in(error, text),
            message=f"unit {self._name!r}, epoch {epoch}: {type(error).__name__}: {_without_stack(text)}",
        )

    def _taken_over(self) -> bool:
        try:
            self._lease.check()
        except Fenced:
            return True
        except PerseidError:
            pass
        return False


def _kind_in(error: BaseException, text: str) -> on.FailureKind | None:
    """What Spark's words tell of a failure that its exception's type does not; None: no more."""
    if NO_SPACE in text:
        return "storage"
    if BAD_CHECKSUM in text:
        return "corrupt"
    if isinstance(error, PySparkException) and (error.getSqlState() or "").startswith(DATA_EXCEPTION):
        return "mistake"
    return None


def _run_for_effect(df: DataFrame) -> None:
    """Run it; nobody looks at the rows."""
    df.write.format("noop").mode("overwrite").save()


def _without_stack(text: str) -> str:
    """What Spark says of an error, without the places in its own code."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "... "))]
    return "\n".join(lines[:20])[:2000]
