"""Which language versions of Wikipedia are edited most, over an open loop: edits that nobody takes in time are dropped."""

import os
import sys
import tempfile
from pathlib import Path

import perseid
from perseid.apps.top_k.graph import made_up_edits, top_k, wiki_edits

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-top-"))
RATE, BACKLOG = float(os.environ.get("RATE", "20000")), int(os.environ.get("BACKLOG", "30000"))


def main() -> None:
    spark = perseid.spark_session(hosts=1, spares=0, app_name="top languages")
    try:
        file = sys.argv[1] if len(sys.argv) > 1 else None  # JSON lines with time and channel, or made up
        edits = wiki_edits(spark, file) if file else made_up_edits(per_second=1_000, rows=200_000)
        loop = perseid.sources.open_loop(edits, rate=RATE, backlog=BACKLOG)
        app = top_k(loop, perseid.sinks.parquet(str(FOLDER / "out")), k=3)
        app.run(spark, root=str(FOLDER / "root"), hosts=1, spares=0)
        spark.read.parquet(str(FOLDER / "out")).select("window", "rank", "key", "n").orderBy("window", "rank").show(
            6, False
        )
        print(f"{loop.passed:,} edits were counted, {loop.dropped:,} were dropped")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
