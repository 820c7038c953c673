"""Operators with state of every kind that a snapshot can hold, and the rows they get: some before a snapshot, some after it.

Their code stays as it is. What a release wrote of them is in the folder of that release.
"""

from __future__ import annotations

import datetime
import enum
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

import perseid
from perseid import App, KeyedOperator, Operator, every, spark_processor, state
from perseid.graph.nodes import StatefulNode
from perseid.testing import OperatorHarness

OUTPUT = "id string, n double, told string"
SCHEMA = "id string, value long, at timestamp"
NOON = datetime.datetime(2026, 11, 19, 12, tzinfo=datetime.UTC)
START_MS = 1_763_553_600_000


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Point(NamedTuple):
    x: int
    y: float


@dataclass
class Account:
    owner: str
    points: list[Point] = field(default_factory=list)


class ByKey(KeyedOperator):
    """Scalars, containers and objects by key, a time to live, timers."""

    ttl = every(hours=1)
    n: int = state(default=0)
    mean: float | None = state(default=None)
    account: Account | None = state(default=None)
    last: deque[Any] = state(default_factory=lambda: deque(maxlen=2))
    colours: Counter[Colour] = state(default_factory=Counter)
    since: datetime.datetime | None = state(default=None)

    def process_key(self, key: Any, rows: pa.Table) -> Iterator[dict[str, Any]]:
        for value, at in zip(rows["value"].to_pylist(), rows["at"].to_pylist(), strict=True):
            self.n += 1
            self.mean = value if self.mean is None else (self.mean + value) / 2
            self.account = self.account or Account(key)
            self.account.points.append(Point(value, value / 2))
            self.last.append((value, frozenset({value, 7})))
            self.colours[Colour(value % 2 + 1)] += 1
            self.since = self.since or at
        self.context.timers.at_processing_time(key, self.context.time_ms + 3_000, name="told")
        yield {"id": key, "n": self.mean, "told": f"{self.n} {self.account} {list(self.last)} {self.since}"}

    def on_timer_key(self, key: Any, timer: Any) -> Iterator[dict[str, Any]]:
        yield {"id": key, "n": 0.0, "told": f"timer at {timer.at_ms}, {sorted(self.colours.items(), key=str)}"}


class Spilling(KeyedOperator):
    """State by key that is on disk."""

    spill = "1 MB"
    n: int = state(default=0)
    text: str = state(default="")

    def process_key(self, key: Any, rows: pa.Table) -> Iterator[dict[str, Any]]:
        self.n += sum(rows["value"].to_pylist())
        self.text += key
        yield {"id": key, "n": float(self.n), "told": self.text}


class AsAWhole(Operator):
    """Dicts by key, one of them spilled, and values of the shard as a whole: NumPy, Arrow."""

    counts: dict[str, int] = state(default_factory=dict)
    large: dict[str, tuple[int, ...]] = state(spill="1 MB")
    array: NDArray[np.float64] = state(default_factory=lambda: np.zeros(3), split=lambda a, part: a, merge=sum)
    table: pa.Table = state(
        default_factory=lambda: pa.table({"v": pa.array([], pa.int64())}),
        split=lambda t, part: t,
        merge=pa.concat_tables,
    )

    def process(self, rows: pa.Table) -> pa.Table:
        for key, value in zip(rows["id"].to_pylist(), rows["value"].to_pylist(), strict=True):
            self.counts[key] = self.counts.get(key, 0) + value
            self.large[key] = (*self.large.get(key, ()), value)
            self.array[value % 3] += value
        self.table = pa.concat_tables([self.table, rows.select(["value"]).rename_columns(["v"])])
        told = f"{self.array.tolist()} {sum(self.table['v'].to_pylist())}"
        return pa.Table.from_pylist(
            [{"id": k, "n": float(n), "told": f"{self.large[k]} {told}"} for k, n in self.counts.items()]
        )


class Processor(StatefulProcessor):
    """Value, list and map state of a class written for Spark, with and without a time to live, and timers."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.total = handle.getValueState("total", "n long, s string")
        self.items = handle.getListState("items", "v long, deep array<long>")
        self.places = handle.getMapState("places", "k string", "v double")
        self.short = handle.getValueState("short", "n long", 3_600_000)
        self.shorts = handle.getListState("shorts", "n long", 3_600_000)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            before = self.total.get() or (0, "")
            self.total.update((before[0] + row.value, before[1] + "."))
            self.items.appendValue((row.value, [row.value, 1]))
            self.places.updateValue((str(row.value % 3),), (row.value / 2,))
            self.short.update((row.value,))
            self.shorts.appendValue((row.value,))
        self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 3_000)
        yield self._row(key, "rows")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._row(key, f"timer {expiredTimerInfo.getExpiryTimeInMs()}")

    def _row(self, key: Any, why: str) -> Row:
        told = (list(self.items.get()), sorted(self.places.iterator()), self.short.get(), list(self.shorts.get()))
        return Row(id=key[0], n=float(self.total.get()[0]), told=f"{why} {told}")

    def close(self) -> None: ...


def golden_app() -> App:
    app = App("golden")
    rows = app.source("rows", perseid.sources.files("in/", schema=SCHEMA))
    for name, operator, shards in (
        ("by-key", ByKey(), 2),
        ("spilling", Spilling(), 1),
        ("as-a-whole", AsAWhole(), 2),
        ("processor", spark_processor(Processor(), time_mode="ProcessingTime"), 2),
    ):
        rows.stateful(name, operator, key="id", output=OUTPUT, shards=shards).sink(f"{name}-out", perseid.sinks.noop())
    return app


def harness(node: StatefulNode) -> OperatorHarness:
    if node.name == "processor":  # what prepare() does with Spark's parser
        node.operator._schemas = SCHEMAS  # type: ignore[attr-defined]
    return OperatorHarness(node.operator, key="id", output=OUTPUT, schema=SCHEMA, shards=node.shards, name=node.name)


def epochs(first: int, last: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """When each of these epochs is, and its rows."""
    for epoch in range(first, last + 1):
        at = NOON + datetime.timedelta(seconds=epoch)
        rows = [{"id": f"k{n % 5}", "value": epoch * 10 + n, "at": at} for n in range(epoch % 3 * 4)]
        yield START_MS + epoch * 1_000, rows


def run(tested: OperatorHarness, first: int, last: int) -> list[list[Any]]:
    """What comes out of these epochs, in an order that does not depend on that of keys."""
    out = [tested.epoch(rows, at_ms=at_ms) for at_ms, rows in epochs(first, last)]
    return [sorted([row["id"], row["n"], row["told"]] for row in rows) for rows in out]


def _schemas() -> dict[str, Any]:
    from pyspark.sql import types as T

    long, text = T.LongType(), T.StringType()

    def of(**columns: T.DataType) -> T.StructType:
        return T.StructType([T.StructField(name, kind) for name, kind in columns.items()])

    return {
        "n long, s string": of(n=long, s=text),
        "v long, deep array<long>": of(v=long, deep=T.ArrayType(long)),
        "k string": of(k=text),
        "v double": of(v=T.DoubleType()),
        "n long": of(n=long),
    }


SCHEMAS = _schemas()
