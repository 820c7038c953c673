"""A query of Spark's with transformWithState stops, and Perseid goes on with its state and its offsets."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import perseid

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-moved-"))
OUTPUT = "sensor long, seen long"


class Seen(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        before = self.seen.get()
        n = (before[0] if before else 0) + sum(1 for _ in rows)
        self.seen.update((n,))
        yield Row(sensor=key[0], seen=n)


def newest(df, batch):
    rows = {row["sensor"]: row["seen"] for row in df.collect()}
    if rows:
        print(dict(sorted(rows.items())), flush=True)


def main() -> None:
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    config = {"spark.sql.streaming.stateStore.providerClass": provider}
    spark = perseid.spark_session(hosts=1, spares=0, config=config)

    def arrive(rows):
        spark.range(rows).selectExpr("id % 3 AS sensor").coalesce(1).write.mode("append").json(str(FOLDER / "in"))

    arrive(300)
    readings = spark.readStream.schema("sensor long").json(str(FOLDER / "in"))
    counts = readings.groupBy("sensor").transformWithState(Seen(), OUTPUT, "Update", "None")
    query = counts.writeStream.foreachBatch(newest).option("checkpointLocation", str(FOLDER / "spark"))
    started = query.outputMode("update").start()
    started.processAllAvailable()
    started.stop()

    arrive(30)
    counts = perseid.transform_with_state(readings.groupBy("sensor"), Seen(), OUTPUT, "Update", "None")
    query = (
        counts.writeStream.foreachBatch(newest)
        .option("checkpointLocation", str(FOLDER / "root"))
        .option("perseid.from", str(FOLDER / "spark"))
        .start()
    )
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main()
