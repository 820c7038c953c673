"""A class written for Spark's transformWithState, run by Perseid without a change."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import perseid
from perseid import App

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-processor-"))


class HotSensors(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.violations = handle.getValueState("violations", "n long")

    def handleInputRows(self, key, rows: Iterator[Row], timerValues) -> Iterator[Row]:
        before = self.violations.get()
        n = (before[0] if before else 0) + sum(1 for row in rows if row.temperature > 100)
        self.violations.update((n,))
        yield Row(sensor=key[0], violations=n)


def main() -> None:
    app = App("sensors")
    made_up = perseid.sources.generator({"sensor": "id % 3", "temperature": "90 + id % 20"}, rows=600)
    readings = app.source("readings", made_up)
    hot = readings.stateful(
        "hot", perseid.spark_processor(HotSensors()), key="sensor", output="sensor long, violations long"
    )
    out = perseid.sinks.memory()
    hot.sink("out", out)
    app.run(root=str(FOLDER / "root"), hosts=1, spares=0, max_rows_per_epoch=200)
    newest = {row["sensor"]: row["violations"] for row in out.rows()}
    print(f"violations: {dict(sorted(newest.items()))}")


if __name__ == "__main__":
    main()
