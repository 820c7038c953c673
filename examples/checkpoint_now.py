"""Looks into the state of a running application, and makes an operator's shards anew while clicks keep coming."""

import tempfile
import time
from pathlib import Path

import pyarrow as pa

import perseid
from perseid import App, Operator, TakenCheckpoint, every, state

PAGES, CLICKS = 1_000, 12_000


class Clicks(Operator):
    """How often each page was clicked."""

    counts: dict[int, int] = state(spill="64 KB")

    def process(self, rows: pa.Table) -> None:
        for page in rows["page"].to_pylist():
            self.counts[page] = self.counts.get(page, 0) + 1


def clicks_in(taken: TakenCheckpoint) -> int:
    return sum(sum(shard.processing["fields"]["counts"].values()) for shard in taken.state("count"))


def main() -> None:
    app = App("clicks")
    clicks = app.source("clicks", perseid.sources.generator({"page": f"id % {PAGES}"}, rows=CLICKS, rate=1_500))
    counts = clicks.stateful("count", Clicks(), key="page", shards=2, output="page long")
    counts.sink("out", perseid.sinks.noop())

    root = Path(tempfile.mkdtemp(prefix="perseid-now-"))
    running = app.start(root=str(root), hosts=1, checkpoint=perseid.checkpoints.parallel(every(minutes=10)))
    while running.progress().epoch < 5:
        time.sleep(0.1)
    taken = running.checkpoint_state()
    print(f"checkpoint {taken.id}, {taken.bytes} bytes, holds {clicks_in(taken)} clicks")
    running.restore_state("count")
    running.wait()
    assert running.progress().rows_in == CLICKS
    print("made anew, and went on to the end")


if __name__ == "__main__":
    main()
