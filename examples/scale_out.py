"""Counts clicks by page while the operator that counts them grows from one shard to three and shrinks again."""

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import perseid
from perseid import App, Operator, every, state

PAGES, CLICKS = 1_000, 12_000


class Clicks(Operator):
    """How often each page was clicked. A dict by the operator's key is divided among shards by itself."""

    counts: dict[int, int] = state(default_factory=dict)
    seen: int = state(default=0, split=lambda seen, part: seen if part.index == 0 else 0, merge=sum)

    def process(self, rows: pa.Table) -> pa.Table:
        self.seen += rows.num_rows
        for page in rows["page"].to_pylist():
            self.counts[page] = self.counts.get(page, 0) + 1
        pages = list(dict.fromkeys(rows["page"].to_pylist()))
        return pa.table({"page": pages, "clicks": [self.counts[page] for page in pages]})


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="perseid-scale-"))
    app = App("clicks")
    clicks = app.source("clicks", perseid.sources.generator({"page": f"id % {PAGES}"}, rows=CLICKS, rate=1_500))
    counts = clicks.stateful("count", Clicks(), key="page", shards=1, output="page long, clicks long")
    counts.sink("out", perseid.sinks.parquet(str(folder / "out")))

    running = app.start(root=str(folder / "root"), hosts=1, checkpoint=perseid.checkpoints.parallel(every(seconds=2)))
    while running.progress().epoch < 5:
        time.sleep(0.1)
    for shards in (3, 1):
        done = running.scale("count", shards=shards)
        print(f"{done.before} → {done.shards} shards; the input paused for {done.pause_ms} ms")
    running.wait()

    found: dict[int, int] = {}
    for file in (folder / "out").rglob("[!._]*.parquet"):
        for row in pq.ParquetFile(file).read().to_pylist():
            found[row["page"]] = max(row["clicks"], found.get(row["page"], 0))
    assert found == dict.fromkeys(range(PAGES), CLICKS // PAGES), "a click was lost, or counted twice"
    print("every click counted exactly once")


if __name__ == "__main__":
    main()
