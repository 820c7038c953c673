"""Clicks per visitor, told when the visitor has been quiet for a while: per-key state, timers and time-to-live."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import perseid
from perseid import App, KeyedOperator, every, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-sessions-"))
QUIET_MS = 2_000


class Sessions(KeyedOperator):
    ttl = every(hours=1)  # a visitor not seen for so long is forgotten
    clicks: int = state(default=0)  # this visitor's own: saved and restored with the key

    def process_key(self, key, rows: pa.Table):
        self.clicks += rows.num_rows
        self.context.timers.cancel(key, name="quiet")
        self.context.timers.at_processing_time(key, self.context.time_ms + QUIET_MS, name="quiet")

    def on_key_timer(self, key, timer):
        clicks, self.clicks = self.clicks, 0
        return [{"visitor": key, "clicks": clicks}]


app = App("sessions")
clicks = app.source(
    "clicks", perseid.sources.files(str(FOLDER / "in"), format="json", schema="visitor string, page string")
)
sessions = clicks.stateful("sessions", Sessions(), key="visitor", shards=2, output="visitor string, clicks long")
sessions.sink("out", perseid.sinks.parquet(str(FOLDER / "out")))


def main() -> None:
    (FOLDER / "in").mkdir()
    visits = [{"visitor": visitor, "page": f"/{page}"} for page in range(3) for visitor in ("ada", "grace", "edsger")]
    (FOLDER / "in" / "0001.json").write_text("".join(json.dumps(visit) + "\n" for visit in visits))
    running = app.start(root=str(FOLDER / "root"), hosts=1)
    try:
        for _ in range(60):
            running.wait(timeout_s=1)
            told = [pq.ParquetFile(file).read().to_pylist() for file in (FOLDER / "out").rglob("[!._]*.parquet")]
            if sum(map(len, told)) == 3:
                break
    finally:
        running.stop()
    print(sorted((row["visitor"], row["clicks"]) for rows in told for row in rows))


if __name__ == "__main__":
    main()
