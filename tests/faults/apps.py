"""Small applications to break, and what each must have written in the end, counted without Perseid.

Run as a script, this file is the driver that tests kill: ``python apps.py counts --root … --out …`` prints its progress as JSON lines.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from sleeping import fall_asleep_before

import perseid
from perseid import App, KeyedOperator, Operator, every, state
from perseid.checkpoints import comparison
from perseid.driver.running import Running
from perseid.engine.event_log import EventCodec
from perseid.engine.rerun import Rerun
from perseid.state import Spilled
from perseid.storage.events import EventSeal, read_events
from perseid.storage.manifest import ShardSnapshot
from perseid.storage.store import Store

WAIT_S = 300.0
"""For anything at all: a bound for what never comes, not a time that anything may take."""
KEYS = 97
BUCKETS = 7
MANY_KEYS = 3_000


# -- operators ----------------------------------------------------------------------------------------------------


class Count(Operator):
    """Per key of an epoch: how many rows came now (``added``), and how many in all (``total``)."""

    ordered = False
    totals: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        added = Counter(rows["key"].to_pylist())
        for key, more in added.items():
            self.totals[key] = self.totals.get(key, 0) + more
        return counted("key", added, self.totals)


class Same(Operator):
    """Says what it hears."""

    def process(self, rows: pa.Table) -> pa.Table:
        return rows


class CountNarrow(Count):
    """A count that refuses rows whose narrow columns are not those of their number."""

    def process(self, rows: pa.Table) -> pa.Table:
        seq = rows["seq"].to_numpy()
        assert (rows["tiny"].to_numpy() == seq % 100 - 50).all() and (rows["small"].to_numpy() == -seq % 30_000).all()
        assert rows["odd"].to_pylist() == [bool(n % 2) if n % 3 else None for n in seq]
        return super().process(rows)


class CountWords(Operator):
    """The same for words."""

    ordered = False
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        added = Counter(rows["word"].to_pylist())
        for word, more in added.items():
            self.totals[word] = self.totals.get(word, 0) + more
        return counted("word", added, self.totals)


class Heavy(Count):
    """A count with some megabytes of state beside it, so that its snapshots take a while."""

    ballast: list[bytes] = state(default_factory=list)

    def process(self, rows: pa.Table) -> pa.Table:
        if not self.ballast:
            self.ballast = [bytes([n % 256]) * 100_000 for n in range(400)]
        return super().process(rows)


class Weighty(Count):
    """A count whose state takes a while to prepare, and can be divided."""

    ballast: dict[int, str] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        if not self.ballast:
            for key in set(rows["key"].to_pylist()):
                self.ballast[key] = "x" * 400_000
        return super().process(rows)


class Hoard(Operator):
    """A count by many keys with a text for each, several times the memory it may use."""

    ordered = False
    totals: Spilled[int, int] = state(spill="32 KB")
    texts: Spilled[int, list[str]] = state(spill="64 KB")

    def process(self, rows: pa.Table) -> pa.Table:
        added = Counter(rows["key"].to_pylist())
        keys = list(added)
        before = self.totals.get_many(keys, 0)
        self.totals.put_many(keys, [old + added[key] for key, old in zip(keys, before, strict=True)])
        for key in keys:
            self.texts.setdefault(key, [f"{key:0300d}"]).append("x" * added[key])
        if any(sum(map(len, self.texts[key])) != 300 + self.totals[key] for key in keys):
            raise AssertionError("the two fields do not agree")
        return counted("key", added, self.totals)


class KeyedHoard(KeyedOperator):
    """The same, key by key."""

    spill = "64 KB"
    total: int = state(default=0)
    texts: list[str] = state(default_factory=list)

    def process_key(self, key: int, rows: pa.Table) -> list[dict[str, int]]:
        self.texts = self.texts or [f"{key:0300d}"]
        self.texts.append("x" * rows.num_rows)
        self.total += rows.num_rows
        assert sum(map(len, self.texts)) == 300 + self.total
        return [{"key": key, "added": rows.num_rows, "total": self.total}]


class Pool(Operator):
    """Keeps what came, two kilobytes a row, and drops it in every eighth epoch: its state rises and falls."""

    readings: list[bytes] = state(default_factory=list, element_size=2_000)

    def process(self, rows: pa.Table) -> None:
        if self.context.epoch % 8 == 0:
            self.readings = []
        self.readings += [bytes(2_000) for _ in range(rows.num_rows)]


class Rollup(Operator):
    """Adds up what ``Count`` says it added, by bucket."""

    ordered = False
    totals: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        added: Counter[int] = Counter()
        for bucket, more in zip(rows["bucket"].to_pylist(), rows["added"].to_pylist(), strict=True):
            added[bucket] += more
        for bucket, more in added.items():
            self.totals[bucket] = self.totals.get(bucket, 0) + more
        return counted("bucket", added, self.totals)


class Breaks(Count):
    """A count that raises when it sees ``seq``: once, while a file is there, or always."""

    def __init__(self, seq: int, mark: str, how: str) -> None:
        self.seq, self.mark, self.how = seq, mark, how

    def process(self, rows: pa.Table) -> pa.Table:
        if self.seq in rows["seq"].to_pylist():
            mark = Path(self.mark)
            if self.how == "once" and not mark.exists():
                mark.touch()
                raise ValueError(f"row {self.seq} came for the first time")
            if self.how == "always" or (self.how == "while" and mark.exists()):
                raise ValueError(f"row {self.seq} is more than I can take")
        return super().process(rows)


class PickyKeys(KeyedOperator):
    """A count by key that cannot take some keys in one epoch; it has changed its state by then."""

    total: int = state(default=0)

    def __init__(self, bad: tuple[int, ...], epoch: int) -> None:
        self.bad, self.epoch = bad, epoch

    def process_key(self, key: int, rows: pa.Table) -> pa.Table:
        self.total += len(rows)
        if key in self.bad and self.context.epoch == self.epoch:
            raise ValueError(f"key {key} cannot be in epoch {self.epoch}")
        return pa.table({"key": ints([key]), "added": ints([len(rows)]), "total": ints([self.total])})


class NeverWorks(Operator):
    """Raises whatever comes, also when nothing does."""

    def process(self, rows: pa.Table) -> pa.Table:
        raise RuntimeError("no model")


class Folded(Operator):
    """Folds the rows of a key in their order: any other order, a lost or a doubled row gives another number."""

    folds: dict[int, int] = state(default_factory=dict)
    counts: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        seen = []
        for key, seq in zip(rows["key"].to_pylist(), rows["seq"].to_pylist(), strict=True):
            self.folds[key] = fold(self.folds.get(key, 0), seq)
            self.counts[key] = self.counts.get(key, 0) + 1
            seen.append(key)
        keys = list(dict.fromkeys(seen))
        folds, counts = [self.folds[k] for k in keys], [self.counts[k] for k in keys]
        return pa.table({"key": ints(keys), "fold": ints(folds), "total": ints(counts)})


class Both(Operator):
    """Two inputs: rows of each, per key."""

    ordered = False
    lefts: dict[int, int] = state(default_factory=dict)
    rights: dict[int, int] = state(default_factory=dict)

    def process(self, left: pa.Table, right: pa.Table) -> pa.Table:
        mine, theirs = Counter(left["key"].to_pylist()), Counter(right["other"].to_pylist())
        keys = sorted(mine.keys() | theirs.keys())
        for key in keys:
            self.lefts[key] = self.lefts.get(key, 0) + mine[key]
            self.rights[key] = self.rights.get(key, 0) + theirs[key]
        return pa.table(
            {
                "key": ints(keys),
                "left": ints(mine[k] for k in keys),
                "right": ints(theirs[k] for k in keys),
                "lefts": ints(self.lefts[k] for k in keys),
                "rights": ints(self.rights[k] for k in keys),
            }
        )


class Visits(KeyedOperator):
    """Counts a key's rows; reports them in bundles by timer; forgets a key that was away for long."""

    ttl = every(milliseconds=1500)
    n: int = state(default=0)
    unreported: int = state(default=0)

    def process_key(self, key: int, rows: pa.Table) -> Iterator[Mapping[str, Any]]:
        now_ms = self.context.time_ms
        self.n += rows.num_rows
        if not self.unreported:
            self.context.timers.at_processing_time(key, now_ms + 300)
        self.unreported += rows.num_rows
        yield {"key": key, "what": "rows", "added": rows.num_rows, "total": self.n, "at_ms": now_ms}

    def on_key_timer(self, key: int, timer: Any) -> Iterator[Mapping[str, Any]]:
        bundle, self.unreported = self.unreported, 0
        yield {"key": key, "what": "bundle", "added": bundle, "total": self.n, "at_ms": self.context.time_ms}


class OnTime(Operator):
    """Hands on every row that is not late, with the watermark it met."""

    seen: int = state(default=0)

    def process(self, rows: pa.Table) -> pa.Table:
        self.seen += rows.num_rows
        return rows.select(["seq", "key"])


def fold(before: int, seq: int) -> int:
    return (before * 31 + seq + 1) % ((1 << 61) - 1)


def ints(values: Iterable[int]) -> pa.Array:
    return pa.array(list(values), pa.int64())


def counted(key: str, added: Mapping[Any, int], totals: Mapping[Any, int]) -> pa.Table:
    keys = list(added)
    kind = pa.string() if key == "word" else pa.int64()
    return pa.table({key: pa.array(keys, kind), "added": ints(added.values()), "total": ints(totals[k] for k in keys)})


class CountPrices(KeyedOperator):
    """A count by two decimals."""

    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        self.n += rows.num_rows
        return [{"key": f"{key[0]} {key[1]}", "added": rows.num_rows, "total": self.n}]


# -- applications -------------------------------------------------------------------------------------------------

COUNTED = "key long, added long, total long"
ROLLED = "bucket long, added long, total long"


def numbers(rows: int, rate: float | None = None, **more: str) -> Any:
    """Row n: key n % KEYS, seq n."""
    return perseid.sources.generator({"key": f"id % {KEYS}", "seq": "id", **more}, rows=rows, rate=rate, partitions=3)


def buckets(df: Any) -> Any:
    from pyspark.sql import functions as F

    return df.select((F.col("key") % BUCKETS).alias("bucket"), "added")


def counts(out: str, rows: int, rate: float | None = None, *, operator: Operator | None = None, shards: int = 3) -> App:
    """A keyed count in one unit."""
    app = App("counts")
    stream = app.source("numbers", numbers(rows, rate))
    stream.stateful("count", operator or Count(), key="key", shards=shards, output=COUNTED).sink(
        "out", perseid.sinks.parquet(out)
    )
    return app


def prices(out: str, rows: int, rate: float | None = None) -> App:
    """Counts by price and tax: decimals of few and of many digits as a key."""
    app = App("prices")
    columns = {
        "price": f"cast((id % {KEYS} - 40) / 4 as decimal(9, 2))",
        "tax": "cast(-1e20 + id % 3 as decimal(30, 3))",
    }
    counted = app.source("numbers", numbers(rows, rate, **columns)).stateful(
        "count", CountPrices(), key=["tax", "price"], shards=2, output="key string, added long, total long"
    )
    counted.sink("out", perseid.sinks.parquet(out))
    return app


def check_prices(out: str | Path, rows: int) -> None:
    keys = (f"{n % 3 - 10**20:.3f} {Decimal(n % KEYS - 40) / 4:.2f}" for n in range(rows))
    check_totals(out, "key", Counter(keys))


def narrow(out: str, rows: int, rate: float | None = None) -> App:
    """A keyed count of rows that travel packed."""
    app = App("narrow")
    columns = {
        "tiny": "tinyint(id % 100 - 50)",
        "small": "smallint(pmod(-id, 30000))",
        "odd": "if(id % 3 = 0, NULL, id % 2 = 1)",
    }
    stream = app.source("numbers", numbers(rows, rate, **columns))
    stream.stateful("count", CountNarrow(), key="key", shards=3, output=COUNTED).sink("out", perseid.sinks.parquet(out))
    return app


def heavy(out: str, rows: int, rate: float | None = None) -> App:
    """A keyed count whose snapshots take a while."""
    return counts(out, rows, rate, operator=Heavy())


def hoards(out: str, rows: int, operator: Operator) -> App:
    """A count by many keys that is larger than the memory it may use."""
    app = App("hoards")
    stream = app.source("numbers", perseid.sources.generator({"key": f"id % {MANY_KEYS}"}, rows=rows, partitions=2))
    stream.stateful("hoard", operator, key="key", shards=2, output=COUNTED).sink("out", perseid.sinks.parquet(out))
    return app


def pools(rate: float) -> App:
    """A state that rises and falls, for good."""
    app = App("pools")
    numbers = app.source("numbers", perseid.sources.generator({"key": "id % 10"}, rate=rate, partitions=1))
    numbers.stateful("pool", Pool(), key="key", output="n long").sink("out", perseid.sinks.noop())
    return app


def chain(out: str, rows: int, rate: float | None = None) -> App:
    """Two stateful operators, one upon the other, in one unit."""
    app = App("chain")
    count = app.source("numbers", numbers(rows, rate)).stateful("count", Count(), key="key", shards=2, output=COUNTED)
    rolled = count.transform("buckets", buckets).stateful("rollup", Rollup(), key="bucket", shards=2, output=ROLLED)
    rolled.sink("out", perseid.sinks.parquet(out))
    return app


def units(
    out: str, rows: int, rate: float | None = None, *, kind: Any = "retained", third: bool = False, shards: int = 2
) -> App:
    """Two units (or three), each with its state and its sink: ``<out>-1``, ``<out>-2`` and ``<out>-3``."""
    app = App("units")
    count = app.source("numbers", numbers(rows, rate), unit="first").stateful(
        "count", Count(), key="key", shards=shards, output=COUNTED
    )
    count.sink("out-1", perseid.sinks.parquet(f"{out}-1"))
    rolled = count.preserve(kind).transform("buckets", buckets, unit="second")
    rolled = rolled.stateful("rollup", Rollup(), key="bucket", shards=shards, output=ROLLED)
    rolled.sink("out-2", perseid.sinks.parquet(f"{out}-2"))
    if third:
        again = rolled.preserve(kind).transform("same", lambda df: df.select("bucket", "added"), unit="third")
        again.stateful("again", Rollup(), key="bucket", shards=1, output=ROLLED).sink(
            "out-3", perseid.sinks.parquet(f"{out}-3")
        )
    return app


def two_inputs(out: str, rows: int, rate: float | None = None) -> App:
    """Left: key n % 97. Right: half as many rows, key n % 50."""
    app = App("two-inputs")
    left = app.source("left", numbers(rows, rate))
    right = app.source("right", perseid.sources.generator({"other": "id % 50"}, rows=rows // 2, rate=rate and rate / 2))
    both = app.stateful(
        "both", Both(), inputs={"left": left, "right": right}, key={"left": "key", "right": "other"}, shards=2,
        output="key long, left long, right long, lefts long, rights long",
    )  # fmt: skip
    both.sink("out", perseid.sinks.parquet(out))
    return app


def fan_out(out: str, rows: int, rate: float | None = None) -> App:
    """One stateful result, two sinks, one of them behind a transform."""
    app = App("fan-out")
    count = app.source("numbers", numbers(rows, rate)).stateful("count", Count(), key="key", shards=2, output=COUNTED)
    count.sink("out-1", perseid.sinks.parquet(f"{out}-1"))
    count.transform("even", lambda df: df.where("key % 2 = 0")).sink("out-2", perseid.sinks.parquet(f"{out}-2"))
    return app


def ordered(out: str, rows: int, rate: float | None = None) -> App:
    """An operator that depends on the order of the rows of a key."""
    app = App("ordered")
    app.source("numbers", numbers(rows, rate)).stateful(
        "fold", Folded(), key="key", shards=2, output="key long, fold long, total long"
    ).sink("out", perseid.sinks.parquet(out))
    return app


VISITORS, VISIT_ROWS = 12, 500


def visits(out: str, rows: int, rate: float | None = None) -> App:
    """Keys that come for 500 rows each and return when all others have been there."""
    app = App("visits")
    source = perseid.sources.generator(
        {"key": f"(id div {VISIT_ROWS}) % {VISITORS}", "seq": "id"}, rows=rows, rate=rate
    )
    app.source("numbers", source).stateful(
        "visits", Visits(), key="key", shards=2, output="key long, what string, added long, total long, at_ms long"
    ).sink("out", perseid.sinks.parquet(out))
    return app


class Alarms(KeyedOperator):
    """Every key rings once, when event time has come to its first row."""

    def process_key(self, key: int, rows: pa.Table) -> None:
        self.context.timers.at_event_time(key, rows["at"][0].as_py())

    def on_key_timer(self, key: int, timer: Any) -> Iterator[Mapping[str, Any]]:
        yield {"key": key}


def alarms(out: str, rows: int, rate: float | None = None) -> App:
    """Timers of a second unit, due when the last rows have passed it."""
    app = App("alarms")
    stream = app.source("numbers", numbers(rows, rate, at="id"), unit="first")
    passed = stream.transform("pass", lambda df: df.selectExpr("seq as key", "at"), unit="first")
    passed.preserve("retained").stateful(
        "alarm", Alarms(), key="key", shards=2, output="key long", unit="second",
        event_time=perseid.event_time("at", delay=every(milliseconds=1)),
    ).sink("out", perseid.sinks.parquet(out))  # fmt: skip
    return app


LATE_EVERY, LATE_MS, DELAY_MS = 40, 3000, 500


def late(out: str, rows: int, rate: float | None = None) -> App:
    """Event time n ms; every 40th row is 3 s old when it comes; the operator waits 0.5 s. Two units: the operator is in the second."""
    app = App("late")
    at = f"id - if(id % {LATE_EVERY} = 0, {LATE_MS}, 0)"
    stream = app.source("numbers", numbers(rows, rate, at=at), unit="first")
    passed = stream.transform("pass", lambda df: df, unit="first").preserve("retained")
    passed.stateful(
        "on-time", OnTime(), key="key", shards=2, output="seq long, key long", unit="second",
        event_time=perseid.event_time("at", delay=every(milliseconds=DELAY_MS)),
    ).sink("out", perseid.sinks.parquet(out))  # fmt: skip
    return app


def words(out: str, rows: int, rate: float | None = None) -> App:
    """A word count over text files in ``<out>-in``."""
    from pyspark.sql import functions as F

    app = App("words")
    lines = app.source("lines", perseid.sources.files(f"{out}-in", format="text", schema="line string"))
    split = lines.transform("split", lambda df: df.select(F.explode(F.split("line", " ")).alias("word")))
    split.stateful("count", CountWords(), key="word", shards=4, output="word string, added long, total long").sink(
        "out", perseid.sinks.parquet(out)
    )
    return app


def dirty(out: str, rows: int, rate: float | None = None) -> App:
    """A word count over JSON files in ``<out>-in``, some lines of which are no JSON."""
    app = App("dirty")
    lines = app.source("lines", perseid.sources.files(f"{out}-in", format="json", schema="word string"))
    lines.stateful("count", CountWords(), key="word", shards=2, output="word string, added long, total long").sink(
        "out", perseid.sinks.parquet(out)
    )
    return app


APPS: Mapping[str, Callable[..., App]] = {
    "counts": counts,
    "heavy": heavy,
    "chain": chain,
    "units": units,
    "two-inputs": two_inputs,
    "fan-out": fan_out,
    "ordered": ordered,
    "visits": visits,
    "late": late,
    "words": words,
    "dirty": dirty,
}


# -- independent counts -------------------------------------------------------------------------------------------


def epochs_of(out: str | Path) -> dict[int, list[dict[str, Any]]]:
    """What a parquet sink holds: its rows by epoch."""
    found: dict[int, list[dict[str, Any]]] = {}
    for folder in Path(out).iterdir():
        match = re.fullmatch(r"epoch=(\d+)", folder.name)
        if match:
            parts = sorted(p for p in folder.iterdir() if p.suffix == ".parquet")
            found[int(match[1])] = [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]
    return dict(sorted(found.items()))


def check_totals(out: str | Path, key: str, expected: Mapping[Any, int]) -> None:
    """Every input row was counted exactly once: increments add up, and each total is the sum of the increments so far."""
    running: Counter[Any] = Counter()
    for epoch, rows in epochs_of(out).items():
        seen: set[Any] = set()
        for row in rows:
            assert row[key] not in seen, f"epoch {epoch} has {key} {row[key]} twice"
            seen.add(row[key])
            running[row[key]] += row["added"]
            assert row["total"] == running[row[key]], (
                f"epoch {epoch}: {row}, but increments so far: {running[row[key]]}"
            )
    rows_in, rows_out = sum(expected.values()), sum(running.values())
    assert dict(running) == dict(expected), f"rows in: {rows_in}, rows counted: {rows_out}"


def check_counts(out: str | Path, rows: int) -> None:
    check_totals(out, "key", Counter(n % KEYS for n in range(rows)))


def check_hoards(out: str | Path, rows: int) -> None:
    check_totals(out, "key", Counter(n % MANY_KEYS for n in range(rows)))


def check_rollup(out: str | Path, rows: int) -> None:
    check_totals(out, "bucket", Counter(n % KEYS % BUCKETS for n in range(rows)))


def check_units(out: str | Path, rows: int, *, third: bool = False) -> None:
    check_counts(f"{out}-1", rows)
    check_rollup(f"{out}-2", rows)
    if third:
        check_rollup(f"{out}-3", rows)


def check_fan_out(out: str | Path, rows: int) -> None:
    check_counts(f"{out}-1", rows)
    expected = Counter(n % KEYS for n in range(rows))
    check_totals(f"{out}-2", "key", {k: n for k, n in expected.items() if k % 2 == 0})


def check_two_inputs(out: str | Path, rows: int) -> None:
    lefts: Counter[int] = Counter()
    rights: Counter[int] = Counter()
    for found in epochs_of(out).values():
        for row in found:
            lefts[row["key"]] += row["left"]
            rights[row["key"]] += row["right"]
            assert (row["lefts"], row["rights"]) == (lefts[row["key"]], rights[row["key"]])
    assert +lefts == Counter(n % KEYS for n in range(rows))
    assert +rights == Counter(n % 50 for n in range(rows // 2))


def check_ordered(out: str | Path, rows: int) -> None:
    """The last fold of every key is that of its rows in their order; so is the one of every epoch before."""
    folds = {key: [(0, 0)] for key in range(KEYS)}  # after n rows of the key
    for n in range(rows):
        of_key = folds[n % KEYS]
        of_key.append((fold(of_key[-1][0], n), len(of_key)))
    last: dict[int, int] = {}
    for epoch, found in epochs_of(out).items():
        for row in found:
            assert (row["fold"], row["total"]) == folds[row["key"]][row["total"]], f"epoch {epoch}: {row}"
            last[row["key"]] = row["total"]
    assert last == {key: len(of_key) - 1 for key, of_key in folds.items()}


def check_visits(out: str | Path, rows: int) -> None:
    """Totals start anew exactly when a key was away for its time to live; bundles hold what came since the last."""
    totals: Counter[int] = Counter()
    ever: Counter[int] = Counter()
    last_ms: dict[int, int] = {}
    open_bundle: dict[int, tuple[int, int]] = {}  # rows, due
    resets = bundles = 0
    for epoch, found in epochs_of(out).items():
        for row in (r for r in found if r["what"] == "rows"):
            key, at_ms = row["key"], row["at_ms"]
            if key in last_ms and at_ms - last_ms[key] >= 1500 and key not in open_bundle:
                totals[key] = 0
                resets += 1
            totals[key] += row["added"]
            ever[key] += row["added"]
            last_ms[key] = at_ms
            unreported, due = open_bundle.get(key, (0, at_ms + 300))
            open_bundle[key] = (unreported + row["added"], due)
            assert row["total"] == totals[key], f"epoch {epoch}: {row}, expected a total of {totals[key]}"
        for row in (r for r in found if r["what"] == "bundle"):
            unreported, due = open_bundle.pop(row["key"])
            assert row["added"] == unreported and row["at_ms"] >= due, f"epoch {epoch}: {row}: {unreported}, {due}"
            last_ms[row["key"]] = row["at_ms"]
            bundles += 1
        for key, (_, due) in open_bundle.items():
            times = [row["at_ms"] for row in found]
            assert not times or due > times[0], f"epoch {epoch}: the bundle of key {key} was due"
    assert ever == Counter(n // VISIT_ROWS % VISITORS for n in range(rows))
    assert resets and bundles


def check_late(out: str | Path, rows: int, journal: list[dict[str, Any]]) -> int:
    """Exactly the rows at or after the watermark of their epoch came through. Returns how many were late."""
    slices = {e["epoch"]: e["slices"]["numbers"] for e in journal if e["kind"] == "epoch_admitted"}
    found = epochs_of(out)
    newest: int | None = None
    dropped = end = 0
    for epoch in range(1, max(slices) + 1):
        if epoch in slices:
            start, after = slices[epoch]
        else:  # a killed driver takes the last words of its journal with it: it ends where the next one begins
            start, after = end, slices[epoch + 1][0] if epoch + 1 in slices else min(r["seq"] for r in found[epoch + 1])
        assert start == end, f"epoch {epoch} begins with row {start}, the one before ended with row {end - 1}"
        end = after
        times = {n: n - (LATE_MS if n % LATE_EVERY == 0 else 0) for n in range(start, end)}
        mark = None if newest is None else newest - DELAY_MS
        expected = [n for n, at in times.items() if mark is None or at >= mark]
        got = sorted(row["seq"] for row in found.get(epoch, []))
        assert got == expected, f"epoch {epoch}, watermark {mark}: {set(got) ^ set(expected)}"
        dropped += len(times) - len(expected)
        newest = max([*times.values(), *([] if newest is None else [newest])], default=None)
    assert end == rows
    return dropped


def dead_letters(root: str | Path, operator: str) -> list[dict[str, Any]]:
    """The rows an operator could not take."""
    rows: list[dict[str, Any]] = []
    for file in sorted(Path(root, "dead-letters", operator).rglob("*.arrow")):
        rows += pa.ipc.open_file(pa.OSFile(str(file))).read_all().to_pylist()
    return rows


def journal_of(root: str | Path) -> list[dict[str, Any]]:
    """The journal of a root, read without Perseid."""
    lines = [line for file in sorted(Path(root, "journal").glob("*.jsonl")) for line in file.read_text().splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


class Folder:
    """Where one run lives."""

    def __init__(self, path: Path) -> None:
        self.root, self.out = str(path / "root"), str(path / "out")

    def journal(self) -> list[dict[str, Any]]:
        return journal_of(self.root)

    def kinds(self) -> list[str]:
        return [entry["kind"] for entry in self.journal()]


def check_recorded(folder: Folder) -> Rerun:
    """The controller, given the recorded events of all drivers again, commands just what it did."""
    store = Store.at(folder.root)
    again = Rerun(EventCodec(ShardSnapshot), EventSeal(store).unseal)
    assert [str(step.difference) for step in again.steps(read_events(store)) if step.difference is not None] == []
    assert again.run and again.commands and not again.skipped
    return again


# -- a running application ----------------------------------------------------------------------------------------


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = WAIT_S) -> Any:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {timeout_s:g} s in vain: {what}")


def wait_for_epoch(running: Running, epoch: int) -> None:
    """Until every unit has committed this epoch."""

    def passed() -> bool:
        assert not running.wait(0), f"the application ended before epoch {epoch}"
        return running.progress().epoch >= epoch

    wait_until(passed, f"epoch {epoch}")


def wait_for_checkpoint(running: Running, number: int = 1) -> None:
    """Until so many checkpoints were committed since the start."""
    wait_until(lambda: running.wait(0) or running.progress().checkpoints >= number, f"checkpoint {number}")


def kept_input(pid: int) -> Path:
    """Where a host keeps the input of its shards; it holds the lock of its folder open."""
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if file.readlink().parent.name.startswith("perseid-host-") and file.readlink().name == "owner":
                return file.readlink().parent / "input"
    raise AssertionError(f"process {pid} is not a host")


def scheme(name: str, seconds: float) -> Any:
    schemes: dict[str, Callable[..., Any]] = {
        "parallel": perseid.checkpoints.parallel,
        "source": perseid.checkpoints.source,
        "adaptive": lambda period: perseid.checkpoints.adaptive(period, profile_periods=1),
        "baseline": comparison.baseline,
    }
    return schemes[name](every(seconds=seconds))


class Begin(Protocol):
    """Starts an application on the session and the root of a test, and ends it when the test did not."""

    def __call__(self, app: App, scheme: str = "parallel", period: float = 0.4, **more: Any) -> Running: ...


def end(running: Running) -> None:
    assert running.wait(WAIT_S), running.progress()


def main() -> None:
    """The driver process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("app", choices=APPS)
    for name in ("--root", "--out"):
        parser.add_argument(name, required=True)
    parser.add_argument("--master")
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--epoch-rows", type=int, default=300)
    parser.add_argument("--scheme", default="parallel")
    parser.add_argument("--period", type=float, default=1.0)
    parser.add_argument("--breaks", nargs=3, metavar=("SEQ", "MARK", "HOW"))
    parser.add_argument("--kind", default="retained")
    parser.add_argument("--available-now", action="store_true")
    parser.add_argument("--dead-letters", action="store_true")
    parser.add_argument("--trigger", type=float, metavar="SECONDS")
    parser.add_argument("--lease-seconds", type=float, default=10)
    parser.add_argument("--asleep-before", metavar="STEP")
    given = parser.parse_args()
    if given.asleep_before:
        base = str(Path(given.root).parent)
        fall_asleep_before(given.asleep_before, base, Path(f"{base}.asleep"))
    from perseid.spark.session import spark_session

    more: dict[str, Any] = {}
    if given.breaks:
        more["operator"] = Breaks(int(given.breaks[0]), given.breaks[1], given.breaks[2])
    if given.app == "units":
        more["kind"] = given.kind
    app = APPS[given.app](given.out, given.rows, given.rate, **more)
    executors = {
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", "")
    }  # as the driver: see tests/conftest.py
    spark = spark_session(given.master, hosts=2, spares=1, app_name=given.app, config=executors)
    running = app.start(
        spark, root=given.root, checkpoint=scheme(given.scheme, given.period), hosts=2, spares=1,
        available_now=given.available_now, max_rows_per_epoch=given.epoch_rows,
        trigger=every(seconds=given.trigger) if given.trigger else None,
        lease_timeout=every(seconds=given.lease_seconds), dead_letters=given.dead_letters,
    )  # fmt: skip
    try:
        while not running.wait(0.1):
            print(json.dumps(running.progress().as_dict()), flush=True)
        print(json.dumps({**running.progress().as_dict(), "ended": True}), flush=True)
    except perseid.PerseidError as error:
        print(json.dumps({"error": type(error).__name__, "message": str(error)}), flush=True)
        sys.stdout.flush()
        spark.stop()
        os._exit(1)
    spark.stop()


if __name__ == "__main__":
    main()
