"""A stream as users hold it: a handle on a node of their ``App``, from which the next node is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from perseid.errors import GraphError
from perseid.graph.nodes import ROWS, SinkNode, TransformNode, UnionNode
from perseid.operators.event_time import EventTime
from perseid.ready.aggregate import Aggregate
from perseid.ready.as_of import AsOf
from perseid.ready.deduplicate import Deduplicate
from perseid.ready.each_row import EachRow
from perseid.ready.join import Join
from perseid.ready.lookup import Lookup
from perseid.ready.sort import Sort
from perseid.ready.top_k import TopK
from perseid.vocabulary import Preservation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from perseid.checkpoint.schemes import Scheme
    from perseid.duration import Duration
    from perseid.graph.builder import GraphBuilder
    from perseid.operators.operator import Operator
    from perseid.ready.functions import Function
    from perseid.ready.join import How
    from perseid.ready.windows import Window
    from perseid.sinks.sink import Sink
    from perseid.standby.modes import Mode, Standby


@dataclass(frozen=True, eq=False)
class Stream:
    """The rows that leave one node of an ``App``. Its methods add the next node; nothing runs until the application does.

        words = lines.transform("split", split)
        counts = words.stateful("count", WordCount(), key="word", output="word string, n long")
        counts.sink("out", perseid.sinks.parquet("out/"))

    Without ``unit`` a node joins the unit of its (first) input.
    """

    app: GraphBuilder
    name: str
    unit: str

    def transform(self, name: str, function: Callable[..., DataFrame], *, unit: str | None = None) -> Stream:
        """Apply a DataFrame function: ``function(df)`` or ``function(df, epoch)`` with an ``EpochInfo``.

            words = lines.transform("split", lambda df: df.select(F.explode(F.split("line", " ")).alias("word")))

        It works on one epoch at a time and must be deterministic: no ``rand``, no ``current_timestamp``.
        """
        inputs, mistakes = self.app._inputs(name, [self])
        return self.app._add(TransformNode(name, unit or self.unit, inputs, function), mistakes)

    def stateful(
        self,
        name: str,
        operator: Operator,
        *,
        key: str | Sequence[str],
        output: str,
        shards: int = 1,
        event_time: EventTime | None = None,
        combine: Mapping[str, str] | None = None,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Apply a stateful operator.

            counts = words.stateful("count", WordCount(), key="word", shards=2, output="word string, n long")

        ``key``: rows of equal key columns go to the same shard. ``output``: the columns it returns, as in Spark.
        ``shards``: how many pieces the key space is cut into at the start. ``event_time``: see ``perseid.event_time``.
        ``combine``: partial aggregation by Spark, such as ``{"n": "count(*)", "total": "sum(amount)"}``: each epoch the
        operator gets one row per key, with the key columns and these, instead of the rows themselves.
        ``checkpoint``: how the operator's unit is checkpointed, if otherwise than the application: for example
        ``perseid.checkpoints.source()`` where its hosts must not fork. ``standby``: ``"hybrid"``, ``"active"`` or ``"passive"`` for a
        second copy that takes over when a host is slow or dead, or one of ``perseid.standby``.
        """
        return self.app._stateful(
            name, operator, {ROWS: self}, key=key, output=output, shards=shards, event_time=event_time,
            combine=combine, checkpoint=checkpoint, standby=standby, unit=unit,
        )  # fmt: skip

    def aggregate(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        values: Mapping[str, Function],
        window: Window | None = None,
        event_time: EventTime | None = None,
        early: bool = False,
        late: Duration | None = None,
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Sums, counts, quantiles and the like by key, of all rows so far or by window.

            per_minute = clicks.aggregate(
                "per-minute",
                key="page",
                window=perseid.tumbling(minutes=1),
                event_time=perseid.event_time("at", delay=every(seconds=5)),
                values={"clicks": perseid.agg.count(), "p95": perseid.agg.quantile("ms", 0.95)},
            )

        ``values``: functions of ``perseid.agg`` by the name of their column. ``window``: ``perseid.tumbling``, ``perseid.sliding`` and
        ``perseid.session`` go by event time and give one result per key and window, when the watermark passes its end;
        ``perseid.count_window`` goes by the rows of each key; without a window every epoch gives the values so far of the keys
        that had rows in it. The columns that come out are the key, ``window_start`` and ``window_end`` (of windows of time, as the
        event-time column), and the values.

        ``early=True`` also gives the results so far of windows that had rows in an epoch. ``late``: how long after its end a window takes
        in rows that were too late for its result; each epoch with such rows gives a corrected one. With either, the column
        ``result`` says ``"early"``, ``"final"`` or ``"corrected"``. The rest is as for ``stateful``.
        """
        operator = Aggregate(values, window=window, early=early, late=late)
        return self._ready(
            name, operator, {ROWS: self}, key=key, shards=shards, event_time=operator.event_time(event_time), checkpoint=checkpoint,
            standby=standby, unit=unit,
        )  # fmt: skip

    def deduplicate(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        within: Duration | None = None,
        event_time: EventTime | None = None,
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Let through the first row of each key, and drop its repeats.

            once = events.deduplicate("once", key="id", within=every(hours=1), event_time=perseid.event_time("at", delay=every(minutes=1)))

        ``within``: for how long after a row that was let through others of its key are repeats; its key is forgotten then. Without it
        keys are remembered for good. Time is event time if ``event_time`` is given (rows of the same key that come later but
        happened before are repeats, too), else the time of epochs. The rest is as for ``stateful``; rows keep their columns.
        """
        return self._ready(
            name, Deduplicate(within), {ROWS: self}, key=key, shards=shards, event_time=event_time, checkpoint=checkpoint, standby=standby,
            unit=unit,
        )  # fmt: skip

    def top_k(
        self,
        name: str,
        k: int,
        *,
        key: str | Sequence[str],
        by: str,
        largest: bool = True,
        window: Window | None = None,
        event_time: EventTime | None = None,
        early: bool = False,
        late: Duration | None = None,
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """The ``k`` rows of each key with the largest (or smallest) value in the column ``by``, of all rows so far or by window.

            dearest = orders.top_k("dearest", 3, key="shop", by="amount", window=perseid.tumbling(hours=1), event_time=…)

        They come out as rows: the key, ``window_start`` and ``window_end`` (of windows of time), ``rank`` from 1, and the other columns of
        the row. Of rows with equal values those that came first count. Rows whose value is null or NaN are left out. Without a window
        every epoch gives the rows of the keys that had rows in it. ``early``, ``late`` and the rest are as for ``aggregate``.
        """
        operator = TopK(k, by, largest=largest, window=window, early=early, late=late)
        return self._ready(
            name, operator, {ROWS: self}, key=key, shards=shards, event_time=operator.event_time(event_time), checkpoint=checkpoint,
            standby=standby, unit=unit,
        )  # fmt: skip

    def join(
        self,
        name: str,
        right: Stream,
        *,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        within: Duration,
        event_time: EventTime,
        how: How = "inner",
        suffix: str = "_right",
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Pairs of rows of this stream and another with equal keys whose event times are at most ``within`` apart.

            paid = orders.join("paid", payments, key={"left": "id", "right": "order"}, within=every(minutes=10), event_time=…)

        ``how``: ``"left"`` also gives rows of this stream that found no partner, with nulls, when the watermark says that none can come;
        ``"outer"`` those of both. ``event_time`` is a column of both. All columns of this stream come out, then those of the other
        without its key; where both have a name, the other's has ``suffix`` behind it. Null keys are equal to nothing. The rest is as for
        ``stateful``.
        """
        return self._ready(
            name, Join(within=within, how=how, suffix=suffix), {"left": self, "right": right}, key=key, shards=shards,
            event_time=event_time, checkpoint=checkpoint, standby=standby, unit=unit,
        )  # fmt: skip

    def as_of(
        self,
        name: str,
        right: Stream,
        *,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        event_time: EventTime,
        within: Duration | None = None,
        suffix: str = "_right",
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Each row of this stream with the newest row of another with the same key that had happened by then, by event time.

            valued = trades.as_of("valued", quotes, key="symbol", event_time=perseid.event_time("at", delay=every(seconds=5)))

        A row comes out when the watermark has passed its time; with nulls if there was no such row, or none in the time ``within`` before
        it. Columns and ``suffix`` are as for ``join``, the rest as for ``stateful``.
        """
        return self._ready(
            name, AsOf(within=within, suffix=suffix), {"left": self, "right": right}, key=key, shards=shards,
            event_time=event_time, checkpoint=checkpoint, standby=standby, unit=unit,
        )  # fmt: skip

    def lookup(
        self,
        name: str,
        right: Stream,
        *,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        suffix: str = "_right",
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Each row of this stream with the row of another, slow stream that came last with the same key.

            named = clicks.lookup("named", users, key={"left": "user", "right": "id"})

        Rows come out in the epoch in which they came, with nulls if nothing came for their key yet; of one epoch the rows of the
        slow stream are taken first. Its last row of every key stays in the state. Columns and ``suffix`` are as for ``join``,
        the rest as for ``stateful``.
        """
        return self._ready(
            name, Lookup(suffix=suffix), {"left": self, "right": right}, key=key, shards=shards, event_time=None,
            checkpoint=checkpoint, standby=standby, unit=unit,
        )  # fmt: skip

    def running(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        values: Mapping[str, Function],
        event_time: EventTime | None = None,
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """Each row with values of all rows of its key up to it, such as its number or the sum so far.

            counted = orders.running("counted", key="customer", values={"nth": perseid.agg.count(), "spent": perseid.agg.sum("amount")})
            first = counted.transform("first", lambda df: df.where("nth = 1"))

        ``values``: ``count``, ``sum``, ``mean``, ``min``, ``max``, ``first`` and ``last`` of ``perseid.agg``, by the name of the column
        that is put behind those of the row. Rows are taken in the order of their source. The rest is as for ``stateful``.
        """
        return self._ready(
            name, EachRow(values), {ROWS: self}, key=key, shards=shards, event_time=event_time, checkpoint=checkpoint,
            standby=standby, unit=unit,
        )  # fmt: skip

    def sort(
        self,
        name: str,
        *,
        key: str | Sequence[str],
        event_time: EventTime,
        shards: int = 1,
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
        unit: str | None = None,
    ) -> Stream:
        """The rows in the order of their event time, each when the watermark has passed it.

            in_order = readings.sort("in-order", key="sensor", event_time=perseid.event_time("at", delay=every(seconds=5)))

        What reads the stream gets the rows of each key in order, over all epochs; with one shard all rows. Rows of the same time stay in
        the order in which they came. The rest is as for ``stateful``.
        """
        return self._ready(
            name, Sort(), {ROWS: self}, key=key, shards=shards, event_time=event_time, checkpoint=checkpoint, standby=standby, unit=unit,
        )  # fmt: skip

    def split(self, name: str, conditions: Mapping[str, str]) -> dict[str, Stream]:
        """Streams by condition: each row goes to the first whose condition, an expression of Spark's SQL, is true.

            parts = orders.split("by-size", {"large": "amount >= 100", "small": "amount > 0", "wrong": "true"})
            parts["large"].sink("large", perseid.sinks.parquet("large/"))

        They are called ``by-size-large`` and so on. A row for which no condition is true is dropped.
        """
        if (
            not isinstance(conditions, Mapping)
            or not conditions
            or not all(isinstance(text, str) and text for pair in conditions.items() for text in pair)
        ):
            raise GraphError(
                f'split(conditions={conditions!r:.80}): expected conditions by name, such as {{"large": "amount > 100"}}'
            )
        before: list[str] = []
        made = {}
        for part, condition in conditions.items():
            mine = " and ".join([*(f"not coalesce(({other}), false)" for other in before), f"({condition})"])
            made[part] = self.transform(f"{name}-{part}", partial(_where, condition=mine))
            before.append(condition)
        return made

    def _ready(self, name: str, operator: Operator, inputs: Mapping[str, Stream], **more: Any) -> Stream:
        """Add an operator that tells its output from its inputs."""
        return self.app._stateful(name, operator, inputs, output=None, combine=None, **more)

    def union(self, *others: Stream, name: str | None = None, unit: str | None = None) -> Stream:
        """This stream and others of the same columns as one."""
        name = name if name is not None else self.app._free_name("union")
        inputs, mistakes = self.app._inputs(name, [self, *others])
        return self.app._add(UnionNode(name, unit or self.unit, inputs), mistakes)

    def preserve(self, how: Preservation) -> Stream:
        """Say how this stream's epochs are kept where they cross into another unit.

        ``"retained"`` (the default): until a checkpoint covers them, so that a loss below restores only what was lost;
        ``"transient"``: until they were read, so that a loss below takes the whole application back;
        ``"durable"``: under the checkpoint root.
        """
        self.app._preserve(self, how)
        return self

    def sink(self, name: str, sink: Sink, *, unit: str | None = None) -> None:
        """Write the stream somewhere: ``counts.sink("out", perseid.sinks.parquet("out/"))``."""
        inputs, mistakes = self.app._inputs(name, [self])
        self.app._add(SinkNode(name, unit or self.unit, inputs, sink), mistakes)

    def __repr__(self) -> str:
        return f"Stream({self.app.name!r}, {self.name!r})"


def _where(df: DataFrame, *, condition: str) -> DataFrame:
    return df.where(condition)


def describe(thing: Any) -> str:
    """A thing that should have been a stream, for a message."""
    return f"the {type(thing).__name__} {thing!r:.60}"
