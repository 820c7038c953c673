"""Two sources, one union, two sinks: totals per product from two shops, kept as parquet and handed to a function."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
from pyspark.sql import functions as F

import perseid
from perseid import App, Operator, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-shops-"))


class Totals(Operator):
    ordered = False  # sums do not mind the order of rows: faster
    totals: dict[str, float] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        sums = rows.group_by("product").aggregate([("price", "sum")])
        products = sums["product"].to_pylist()
        for product, price in zip(products, sums["price_sum"].to_pylist(), strict=True):
            self.totals[product] = self.totals.get(product, 0.0) + price
        return pa.table(
            {
                "product": pa.array(products, pa.string()),
                "total": pa.array([self.totals[p] for p in products], pa.float64()),
            }
        )


def announce(epoch, df):  # may be called again for an epoch after a crash: make it idempotent by epoch
    for row in df.orderBy("product").collect():
        print(f"epoch {epoch}: {row.product} {row.total:.2f}")


app = App("shops")
schema = "product string, price double"
north = app.source("north", perseid.sources.files(str(FOLDER / "north"), format="json", schema=schema))
south = app.source("south", perseid.sources.files(str(FOLDER / "south"), format="json", schema=schema))
sales = north.union(south).transform("paid", lambda df: df.where(F.col("price") > 0))
totals = sales.stateful("totals", Totals(), key="product", shards=2, output="product string, total double")
totals.sink("files", perseid.sinks.parquet(str(FOLDER / "out")))
totals.sink("announce", perseid.sinks.foreach(announce))


def main() -> None:
    for shop, price in (("north", 2.5), ("south", 4.0)):
        (FOLDER / shop).mkdir()
        sold = [{"product": product, "price": price} for product in ("tea", "coffee") for _ in range(10)]
        (FOLDER / shop / "0001.json").write_text("".join(json.dumps(sale) + "\n" for sale in sold))
    app.run(root=str(FOLDER / "root"), hosts=1, available_now=True)  # ends when all input is processed


if __name__ == "__main__":
    main()
