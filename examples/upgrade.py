"""An application whose code changes: state in euros goes on in cents, under a class of another name."""

import tempfile
from pathlib import Path

import pyarrow.compute as pc

import perseid
from perseid import App, KeyedOperator, migrate, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-upgrade-"))


class TotalInEuros(KeyedOperator):  # what ran until now
    euros: float = state(default=0.0)

    def process_key(self, key, rows):
        self.euros += pc.sum(rows["cents"]).as_py() / 100
        yield {"shop": key, "total": f"{self.euros:.2f} euros"}


class Total(KeyedOperator):
    state_version = 2
    cents: int = state(default=0)
    largest: int = state(default=0)

    @migrate(from_version=1)
    def in_cents(fields):
        return {"cents": round(fields["euros"] * 100)}

    def process_key(self, key, rows):
        self.cents += pc.sum(rows["cents"]).as_py()
        self.largest = max(self.largest, pc.max(rows["cents"]).as_py())
        yield {"shop": key, "total": f"{self.cents} cents, largest {self.largest}"}


perseid.moved(f"{__name__}:TotalInEuros", Total)


def run(spark, operator, rows):
    app = App("shops")
    sales = app.source("sales", perseid.sources.generator({"shop": "id % 2", "cents": "100 + id % 50"}, rows=rows))
    totals = sales.stateful("total", operator, key="shop", output="shop long, total string")
    out = perseid.sinks.memory()
    totals.sink("out", out)
    app.run(spark, root=str(FOLDER / "root"), hosts=1, spares=0, max_rows_per_epoch=300)
    newest = {row["shop"]: row["total"] for row in out.rows()}
    print(dict(sorted(newest.items())))


def main() -> None:
    spark = perseid.spark_session(hosts=1, spares=0)
    run(spark, TotalInEuros(), rows=300)
    run(spark, Total(), rows=600)


if __name__ == "__main__":
    main()
