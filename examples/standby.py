"""Stops the host of a count for a while: its copy answers meanwhile, and the count is right."""

import os
import signal
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import perseid
from perseid import App, Operator, state

KEYS, ROWS = 100, 12_000


class Count(Operator):
    counts: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        for key in rows["key"].to_pylist():
            self.counts[key] = self.counts.get(key, 0) + 1
        keys = list(dict.fromkeys(rows["key"].to_pylist()))
        return pa.table({"key": keys, "n": [self.counts[key] for key in keys]})


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="perseid-standby-"))
    app = App("guarded")
    numbers = app.source("numbers", perseid.sources.generator({"key": f"id % {KEYS}"}, rows=ROWS, rate=1_500))
    counts = numbers.stateful("count", Count(), key="key", shards=2, output="key long, n long", standby="hybrid")
    counts.sink("out", perseid.sinks.parquet(str(folder / "out")))

    running = app.start(root=str(folder / "root"), hosts=2, spares=1)
    while not all(one.phase == "guarded" for one in running.progress().standby) or not running.progress().standby:
        time.sleep(0.1)
    victim = next(host for host in running.progress().hosts if host.shards)
    os.kill(victim.pid, signal.SIGSTOP)
    while running.progress().switches == 0:
        time.sleep(0.05)
    print("the copy answers")
    os.kill(victim.pid, signal.SIGCONT)
    running.wait()

    found: dict[int, int] = {}
    for file in (folder / "out").rglob("[!._]*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            found[row["key"]] = max(row["n"], found.get(row["key"], 0))
    assert found == dict.fromkeys(range(KEYS), ROWS // KEYS), "a row was lost, or counted twice"
    print("every row counted exactly once")


if __name__ == "__main__":
    main()
