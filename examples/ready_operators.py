"""What people write every day, without a class: repeats dropped, prices looked up, sums by window, the dearest orders, late payments."""

import tempfile
from pathlib import Path

import pyarrow.parquet as pq

import perseid
from perseid import App, agg, every

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-ready-"))

app = App("shop")
orders = app.source(
    "orders",
    perseid.sources.generator(
        {  # every order comes twice
            "id": "id div 2",
            "at": "timestamp_millis((id div 2) * 500)",
            "product": "element_at(array('tea', 'coffee'), cast(id div 2 % 2 as int) + 1)",
            "quantity": "cast(id div 2 % 5 as int) + 1",
        },
        rows=240,
    ),
)
prices = app.source(
    "prices",
    perseid.sources.generator(
        {
            "at": "timestamp_millis(id * 30000)",
            "name": "element_at(array('tea', 'coffee'), cast(id % 2 as int) + 1)",
            "price": "cast(id + 2 as double)",
        },
        rows=3,
    ),
)
payments = app.source(
    "payments", perseid.sources.generator({"order": "id * 3", "at": "timestamp_millis(id * 1500 + 700)"}, rows=40)
)

event_time = perseid.event_time("at", delay=every(seconds=5))

once = orders.deduplicate("once", key="id", within=every(hours=1), event_time=event_time)

priced = once.as_of("priced", prices, key={"left": "product", "right": "name"}, event_time=event_time)
amounts = priced.transform("amounts", lambda df: df.selectExpr("id", "at", "product", "quantity * price as amount"))

sums = amounts.aggregate(
    "sums",
    key="product",
    window=perseid.tumbling(seconds=10),
    event_time=event_time,
    values={
        "orders": agg.count(),
        "total": agg.sum("amount"),
        "median": agg.quantile("amount", 0.5),
        "last": agg.last("id"),
    },
)

dearest = amounts.top_k(
    "dearest", 3, key="product", by="amount", window=perseid.tumbling(minutes=1), event_time=event_time
)

paid = once.join(
    "paid",
    payments,
    key={"left": "id", "right": "order"},
    within=every(seconds=1),
    how="left",  # unpaid orders come out, too, when their time is over
    event_time=event_time,
)

for name, stream in {"sums": sums, "dearest": dearest, "paid": paid}.items():
    stream.sink(f"{name}-out", perseid.sinks.parquet(str(FOLDER / name)))


def read(name: str) -> list[dict]:
    return [row for file in (FOLDER / name).rglob("[!._]*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]


def main() -> None:
    app.run(root=str(FOLDER / "root"), hosts=1, spares=0)
    windows = read("sums")
    print("orders:", sum(row["orders"] for row in windows), "in", len(windows), "windows")
    print("total:", sum(row["total"] for row in windows if row["total"] is not None))
    print("dearest:", sorted((row["product"], row["rank"], row["id"], row["amount"]) for row in read("dearest")))
    print("unpaid:", sum(row["at_right"] is None for row in read("paid")))


if __name__ == "__main__":
    main()
