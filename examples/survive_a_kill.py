"""Kills a host with SIGKILL while it counts, and shows that the count is right all the same."""

import os
import signal
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import perseid
from perseid import App, Operator, every, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-kill-"))
FILES, LINES = 40, 50


class Count(Operator):
    counts: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        for line in rows["line"].to_pylist():
            self.counts[line] = self.counts.get(line, 0) + 1
        return pa.table(
            {"line": pa.array(self.counts.keys(), pa.string()), "n": pa.array(self.counts.values(), pa.int64())}
        )


app = App("kill")
lines = app.source("lines", perseid.sources.files(str(FOLDER / "in"), format="text", schema="line string"))
counts = lines.stateful("count", Count(), key="line", shards=2, output="line string, n long")
counts.sink("out", perseid.sinks.parquet(str(FOLDER / "out")))


def result() -> dict[str, int]:
    highest: dict[str, int] = {}
    for file in (FOLDER / "out").rglob("[!._]*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            highest[row["line"]] = max(row["n"], highest.get(row["line"], 0))
    return highest


def main() -> None:
    (FOLDER / "in").mkdir()
    running = app.start(
        root=str(FOLDER / "root"), hosts=2, spares=1, checkpoint=perseid.checkpoints.parallel(every(seconds=1))
    )
    try:
        for number in range(FILES):
            (FOLDER / "in" / f"{number:06d}.txt").write_text("".join(f"line {i}\n" for i in range(LINES)))
            running.wait(timeout_s=0.2)
            if number == FILES // 2:
                victim = next(host for host in running.progress().hosts if host.shards)
                os.kill(victim.pid, signal.SIGKILL)
                print(f"killed host {victim.host} with {', '.join(victim.shards)}")
        for _ in range(60):
            if result() == {f"line {i}": FILES for i in range(LINES)}:
                break
            running.wait(timeout_s=1)
        print(f"faults survived: {running.progress().faults}")
    finally:
        running.stop()
    right = result() == {f"line {i}": FILES for i in range(LINES)}
    print("every line counted exactly once" if right else f"wrong: {result()}")
    raise SystemExit(0 if right else 1)


if __name__ == "__main__":
    main()
