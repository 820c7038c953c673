"""The state of an application, its epochs and its checkpoints as tables of Spark."""

import tempfile
from pathlib import Path

import perseid
from perseid import App, KeyedOperator, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-tables-"))


class Clicks(KeyedOperator):
    n: int = state(default=0)
    pages: list[int] = state(default_factory=list)

    def process_key(self, key, rows):
        self.n += rows.num_rows
        self.pages = sorted({*self.pages, *rows["page"].to_pylist()})
        yield {"user": key, "n": self.n}


app = App("clicks")
clicks = app.source("clicks", perseid.sources.generator({"user": "id % 3", "page": "id % 4"}, rows=600))
counts = clicks.stateful("count", Clicks(), key="user", shards=2, output="user long, n long")
counts.sink("out", perseid.sinks.noop())


def main() -> None:
    root = str(FOLDER / "root")
    spark = perseid.spark_session(hosts=1, spares=0)
    app.run(spark, root=root, hosts=1, spares=0, max_rows_per_epoch=300)

    users = spark.read.format("perseid").option("operator", "count").load(root)
    users.selectExpr("key.user", "value.n", "size(value.pages) AS pages").orderBy("user").show()
    epochs = spark.read.format("perseid").option("table", "epochs").load(root)
    epochs.selectExpr("epoch", "slices.clicks.end AS read_to").orderBy("epoch").show()


if __name__ == "__main__":
    main()
