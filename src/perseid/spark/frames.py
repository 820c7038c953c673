"""DataFrames of one epoch of one unit: source slices and streams in, SQL and exchanges between, sinks and streams out.

The same function of (graph, epoch, routing) whenever it is called: a job that is run again sends the same rows to the same shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.channel.connection import Address
from perseid.channel.rows import EPOCH
from perseid.clocks import steady_ms
from perseid.engine.unit_job import Replay
from perseid.graph.graph import Graph, Unit
from perseid.graph.nodes import EpochInfo, SinkNode, SourceNode, StatefulNode, TransformNode, UnionNode
from perseid.scaling.routing import Route, RoutingTable
from perseid.sources.source import UnorderedSource
from perseid.spark.asking import Place, Target
from perseid.spark.compile import Compiled, to_rows, union
from perseid.spark.exchange import EpochHeader, Exchange, Then
from perseid.spark.shape import feeders_of
from perseid.storage.records import Admitted
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId, SourceName, StreamName


class StreamReader(Protocol):
    """Gives an epoch of another unit's stream (``StreamStore.read``)."""

    def __call__(
        self, stream: StreamName, epoch: Epoch, routing: RoutingTable, *, again: bool = False
    ) -> DataFrame: ...


Watermark = Callable[[OperatorName, Epoch], int | None]


@dataclass(frozen=True)
class Frames:
    """Builds the DataFrames of one unit."""

    spark: SparkSession  # the user's, which their functions see
    own: SparkSession  # Perseid's, which epochs run in
    graph: Graph
    unit: Unit
    compiled: Compiled
    secret: bytes = field(repr=False)
    stream: StreamReader
    watermark_ms: Watermark

    def epoch(
        self,
        admitted: Admitted,
        routing: RoutingTable,
        addresses: Mapping[HostId, Address],
        *,
        release: Mapping[OperatorName, Epoch],
        set_aside: frozenset[OperatorName] = frozenset(),
        find: bool = False,
    ) -> EpochFrames:
        """The DataFrames of one epoch, to be run."""
        return EpochFrames(self, admitted, routing, addresses, release, set_aside, find)

    def recall(self, admitted: Admitted, routing: RoutingTable, addresses: Mapping[HostId, Address]) -> EpochFrames:
        """The DataFrames of an epoch that was run before: hosts give the answers they kept, and nothing above them is computed."""
        return EpochFrames(self, admitted, routing, addresses, {}, frozenset(), recall=True)

    def replay(
        self,
        epochs: list[Admitted],
        replay: Replay,
        routing: RoutingTable,
        addresses: Mapping[HostId, Address],
        *,
        release: Mapping[OperatorName, Epoch],
        set_aside: Mapping[Epoch, frozenset[OperatorName]],
    ) -> Iterator[tuple[Epoch, list[DataFrame]]]:
        """DataFrames that, once run, have fed these epochs to these shards and to nobody else, and up to which epoch."""
        if not replay.stood_on:
            together = (
                self._replay_together(o, epochs, replay.lost, routing, addresses, release, set_aside)
                for o in sorted(replay.lost_operators)
            )
            yield epochs[-1].epoch, list(together)
            return
        for admitted in epochs:
            aside = set_aside.get(admitted.epoch, frozenset())
            one = EpochFrames(self, admitted, routing, addresses, release, aside, replay=replay)
            yield admitted.epoch, [one.node(o) for o in sorted(replay.lowest)]

    def _replay_together(
        self,
        operator: str,
        epochs: list[Admitted],
        shards: frozenset[ShardId],
        routing: RoutingTable,
        addresses: Mapping[HostId, Address],
        release: Mapping[OperatorName, Epoch],
        set_aside: Mapping[Epoch, frozenset[OperatorName]],
    ) -> DataFrame:
        """Many epochs in one job: nothing stateful lies above, so each row carries its epoch along."""
        node = self.graph.node(operator)
        assert isinstance(node, StatefulNode)
        wanted = frozenset(s.index for s in shards if s.operator == operator)
        several = len(epochs) > 1
        inputs: list[list[DataFrame]] = [[] for _ in node.inputs]
        for admitted in epochs:
            one = EpochFrames(self, admitted, routing, addresses, release, frozenset())
            for i, name in enumerate(node.inputs):
                df = one.node(name)
                inputs[i].append(df.withColumn(EPOCH, _not_in_code(admitted.epoch)) if several else df)
        together = [union(frames) for frames in inputs]
        extra = (EPOCH,) if several else ()
        aside = frozenset(e for e, operators in set_aside.items() if operator in operators)
        rows, exchange = self._exchange(
            node, together, epochs, routing, addresses, release, only=wanted, aside=aside, extra=extra, wanted=False
        )
        return rows.mapInArrow(exchange, self.compiled.operators[operator].output)

    def _exchange(
        self,
        node: StatefulNode,
        inputs: list[DataFrame] | None,  # None: nothing is sent, answers are recalled
        epochs: list[Admitted],
        routing: RoutingTable,
        addresses: Mapping[HostId, Address],
        release: Mapping[OperatorName, Epoch],
        *,
        only: frozenset[int] | None = None,
        recalled: frozenset[int] = frozenset(),
        aside: frozenset[Epoch] = frozenset(),
        find: bool = False,
        extra: tuple[str, ...] = (),
        wanted: bool = True,
    ) -> tuple[DataFrame, Exchange]:
        """The rows of each shard together, and the function that gives them to its host."""
        name = OperatorName(node.name)
        compiled = self.compiled.operators[node.name]
        routes = routing.of(name)
        division = compiled.division([route.slots[1] for route in routes])
        rows = division.seeds.alone()
        if inputs is not None:
            rows = to_rows(node, inputs, ordered=compiled.ordered, division=division, extra=extra)
        exchange = Exchange(
            operator=name,
            version=routing.version,
            epochs=tuple(
                EpochHeader(a.epoch, a.time_ms, self.watermark_ms(name, a.epoch), steady_ms(), a.last) for a in epochs
            ),
            release=release.get(name, Epoch(0)),
            targets=tuple([_target(route, addresses) for route in routes]),
            secret=self.secret,
            schema=compiled.rows_arrow,
            output=compiled.output_arrow,
            layout=compiled.layout if inputs is not None else None,
            only=only,
            recalled=recalled,
            aside=aside,
            find=find,
            wanted=wanted,
        )
        return rows, exchange


class EpochFrames:
    """The DataFrames of one epoch, each built once; those with several readers are kept while the epoch runs."""

    def __init__(
        self,
        frames: Frames,
        admitted: Admitted,
        routing: RoutingTable,
        addresses: Mapping[HostId, Address],
        release: Mapping[OperatorName, Epoch],
        set_aside: frozenset[OperatorName],
        find: bool = False,
        replay: Replay | None = None,
        recall: bool = False,
    ) -> None:
        self._frames = frames
        self._admitted = admitted
        self._routing = routing
        self._addresses = addresses
        self._release = release
        self._set_aside = set_aside
        self._find = find
        self._replay = replay
        self._recall = recall
        self.check: Callable[[], None] = lambda: None  # raises when the epoch was taken back; planning takes its time
        self._built: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []

    def node(self, name: str) -> DataFrame:
        """The DataFrame of a stream."""
        if name not in self._built:
            self.check()
            df = self._build(name)
            again = self._recall or self._replay is not None  # then hosts have kept what is read often
            if not again and self._read_often(name):
                df = df.persist(StorageLevel.MEMORY_AND_DISK)
                self._kept.append(df)
            self._built[name] = df
        return self._built[name]

    def node_to_run(self, name: str) -> DataFrame:
        """The DataFrame of a stream for an action of Perseid."""
        return self._frames.compiled.moved.to(self._frames.own, name, self.node(name))

    def node_for_user(self, name: str) -> DataFrame:
        """The DataFrame of a stream for a function of the user."""
        return self._frames.compiled.moved.to(self._frames.spark, name, self.node(name))

    def forget(self) -> None:
        """The epoch is done: let go what was kept."""
        for df in self._kept:
            df.unpersist()
        self._kept.clear()

    def _read_often(self, name: str) -> bool:
        """A stateful result with two readers is computed once; two jobs over it would run the exchange twice."""
        graph, unit = self._frames.graph, self._frames.unit
        node = graph.node(name)
        if node.unit != unit.name or (not feeders_of(graph, name) and not isinstance(node, StatefulNode)):
            return False
        if name in unit.outputs and graph.preservation(name) != "durable":
            return False  # kept as a stream, for longer than this epoch runs here
        inside = [reader for reader in graph.consumers(name) if reader.unit == unit.name]
        return len(inside) + (name in unit.outputs) > 1

    def _build(self, name: str) -> DataFrame:
        frames = self._frames
        node = frames.graph.node(name)
        if node.unit != frames.unit.name:
            return frames.stream(StreamName(name), self._admitted.epoch, self._routing, again=self._recall)
        match node:
            case SourceNode():
                source, (start, end) = node.source, self._admitted.slice_of(SourceName(node.name))
                if node.name in frames.compiled.unordered and isinstance(source, UnorderedSource):
                    return source.read_unordered(start, end)
                return source.read(start, end)
            case TransformNode():
                info = (EpochInfo(self._admitted.epoch, self._admitted.time_ms),) if node.takes_epoch else ()
                df: DataFrame = node.function(self.node_for_user(node.inputs[0]), *info)
                return df
            case UnionNode():
                return union([self.node(i) for i in node.inputs])
            case SinkNode():
                raise AssertionError(f"sink {name!r} is not a stream")
            case StatefulNode():
                rows, exchange = self._stateful(node)
                return rows.mapInArrow(exchange, frames.compiled.operators[name].output)

    def mapped(self, name: str) -> Callable[..., DataFrame] | None:
        """What ``node(name).mapInArrow`` would be, in the tasks of the exchange itself; None where others read it, too."""
        frames = self._frames
        node = frames.graph.node(name)
        if not isinstance(node, StatefulNode) or node.unit != frames.unit.name or len(frames.graph.consumers(name)) > 1:
            return None
        rows, exchange = self._stateful(node)
        return lambda function, schema: rows.mapInArrow(Then(exchange, function), schema)

    def _stateful(self, node: StatefulNode) -> tuple[DataFrame, Exchange]:
        routes = self._routing.of(OperatorName(node.name))
        only, recalled, wanted = None, frozenset[int](), True
        if (replay := self._replay) is not None:
            only = frozenset(r.shard.index for r in routes if replay.feeds(r.shard))
            recalled = frozenset(r.shard.index for r in routes if replay.recalls(r.shard))
            wanted = node.name in replay.stood_on
        if self._recall:
            recalled = frozenset(r.shard.index for r in routes)
        return self._frames._exchange(
            node,
            None if self._recall else [self.node(i) for i in node.inputs],
            [self._admitted],
            self._routing,
            self._addresses,
            self._release,
            only=only,
            recalled=recalled,
            aside=frozenset({self._admitted.epoch} if node.name in self._set_aside else ()),
            find=self._find,
            wanted=wanted,
        )


def _not_in_code(number: int) -> Column:
    """A number that is not written into the code Spark generates, so that code compiled for one epoch serves all."""
    zero = (F.monotonically_increasing_id() < 0).cast("int")
    return F.get(F.array(F.lit(int(number)).cast("long")), zero)


def _target(route: Route, addresses: Mapping[HostId, Address]) -> Target:
    assert route.host is not None
    places = [Place(host, addresses[host]) for host in route.places if host in addresses or host == route.host]
    return Target(route.shard.index, tuple(places), route.patience_ms / 1000)
