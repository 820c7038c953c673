"""An application on a cluster: only the master URL differs. Here `local-cluster`, with executors as processes."""

import os
import tempfile
from pathlib import Path

import pyarrow as pa

import perseid
from perseid import App, Operator, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-cluster-"))  # on a real cluster: storage that every machine reaches
MASTER = os.environ.get("MASTER", "local-cluster[2,3,1024]")  # 2 executors, 3 task slots and 1 GB each


class Longest(Operator):
    longest: dict[str, str] = state(default_factory=dict)  # by first letter

    def process(self, rows: pa.Table) -> pa.Table:
        for row in rows.to_pylist():
            self.longest[row["letter"]] = max(self.longest.get(row["letter"], ""), row["word"], key=len)
        return pa.table(
            {"letter": pa.array(self.longest, pa.string()), "word": pa.array(self.longest.values(), pa.string())}
        )


app = App("longest")
words = app.source("words", perseid.sources.files(str(FOLDER / "in"), format="text", schema="word string"))
letters = words.transform("letter", lambda df: df.selectExpr("word", "substr(word, 1, 1) AS letter"))
longest = letters.stateful("longest", Longest(), key="letter", shards=4, output="letter string, word string")
longest.sink("out", perseid.sinks.parquet(str(FOLDER / "out")))


def main() -> None:
    (FOLDER / "in").mkdir()
    (FOLDER / "in" / "0001.txt").write_text("\n".join(f"{letter * n}" for letter in "abcdef" for n in range(1, 20)))
    spark = perseid.spark_session(MASTER, hosts=2, spares=1, app_name="longest")
    try:
        app.run(spark, root=str(FOLDER / "root"), hosts=2, spares=1, available_now=True)
        spark.read.parquet(str(FOLDER / "out")).orderBy("letter").show()
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
