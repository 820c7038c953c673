"""The application that the dashboard's tests and screenshots show: two sources, a pool that rises and falls, counts with a hot key.

Run as a script, it records the journal of the tests: ``python rides.py ROOT OUT`` kills a host, scales, kills all hosts, and ends.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import perseid
from perseid import App, Operator, every, state

RATE = 500


class Pool(Operator):
    """Keeps what came, and lets it go in every tenth epoch: its state rises and falls."""

    seen: dict[str, list[bytes]] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        if self.context.epoch % 10 == 0:
            self.seen = {}
        for area in rows["area"].to_pylist():
            self.seen.setdefault(area, []).append(bytes(2_000))
        return pa.table({"area": list(self.seen), "rides": [len(kept) for kept in self.seen.values()]})


class Fares(Operator):
    """What every area has paid."""

    ordered = False
    fares: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        added: Counter[str] = Counter()
        for area, fare in zip(rows["area"].to_pylist(), rows["fare"].to_pylist(), strict=True):
            added[area] += fare
        for area, fare in added.items():
            self.fares[area] = self.fares.get(area, 0) + fare
        return pa.table({"area": list(added), "fare": [self.fares[area] for area in added]})


def by_city(df: Any) -> Any:
    from pyspark.sql import functions as F

    return df.select(F.expr("substr(area, 1, 2) as city"), "fare")


class Cities(Operator):
    """The newest fares of each city."""

    newest: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        self.newest |= dict(zip(rows["city"].to_pylist(), rows["fare"].to_pylist(), strict=True))
        return pa.table({"city": list(self.newest), "fare": list(self.newest.values())})


def rides(out: str, rows: int | None, rate: float = RATE) -> App:
    """Made-up rides: almost half of them begin in one area."""
    app = App("rides")
    area = "case when noise < 0.45 then 'c0-airport' else concat('c', id % 3, '-', id % 40) end"
    columns = {"area": area, "fare": "cast(5 + noise * 30 as long)"}
    began_ms = int(time.time() * 1000)
    at, rarely = (f"timestamp_millis({began_ms} + cast(id * {1000 / pace} as long))" for pace in (rate, rate / 4))
    booked = app.source("booked", perseid.sources.generator({**columns, "at": at}, rows=rows, rate=rate, partitions=2))
    street = app.source(
        "street", perseid.sources.generator({**columns, "at": rarely}, rows=rows, rate=rate / 4, seed=2)
    )
    both = booked.transform("valid", lambda df: df.where("fare > 5")).union(street, name="rides")
    fares = both.stateful(
        "fares", Fares(), key="area", shards=2, output="area string, fare long",
        event_time=perseid.event_time("at", delay=every(seconds=2)),
    )  # fmt: skip
    fares.sink("paid", perseid.sinks.parquet(f"{out}/paid"))
    cities = fares.preserve("durable").transform("by_city", by_city, unit="report")
    cities.stateful("cities", Cities(), key="city", shards=1, output="city string, fare long").sink(
        "board", perseid.sinks.parquet(f"{out}/board")
    )
    both.stateful("pool", Pool(), key="area", shards=2, output="area string, rides long").sink(
        "crowds", perseid.sinks.parquet(f"{out}/crowds")
    )
    return app


def wait_until(true: Callable[[], Any], what: str, timeout_s: float = 300.0) -> None:
    until = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < until, f"waited {timeout_s:g} s for {what}"
        time.sleep(0.1)


def epochs_later(running: Any, epochs: int) -> None:
    wanted = running.progress().epoch + epochs
    wait_until(lambda: running.wait(0) or running.progress().epoch >= wanted, f"epoch {wanted}")


def kill(running: Any, count: int = 1) -> list[int]:
    """Kill so many hosts that hold shards."""
    found = [host for host in running.progress().hosts if host.alive and host.shards][:count]
    for host in found:
        os.kill(host.pid, signal.SIGKILL)
    return [host.host for host in found]


def record(root: str, out: str) -> None:
    from perseid.testing import session

    spark = session(hosts=4, spares=1)
    running = rides(out, None).start(
        spark, root=root, hosts=2, spares=1, checkpoint=perseid.checkpoints.adaptive(every(seconds=4)), trigger=every(milliseconds=1200)
    )  # fmt: skip
    epochs_later(running, 70)
    kill(running)
    epochs_later(running, 30)
    running.scale("fares", 4)
    epochs_later(running, 30)
    kill(running, 9)
    epochs_later(running, 40)
    running.stop()
    spark.stop()


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parent)  # for Spark's workers
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    import rides as importable  # under the name that workers know it by

    importable.record(*sys.argv[1:3])
