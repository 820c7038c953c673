"""Orders that were not paid in ten minutes of event time: two inputs, event-time timers, pandas as output, dead letters."""

import json
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import perseid
from perseid import App, KeyedOperator, Operator, every, state

FOLDER = Path(tempfile.mkdtemp(prefix="perseid-orders-"))
TEN_MINUTES_MS = 600_000


class Unpaid(KeyedOperator):
    amount: float = state(default=0.0)

    def process_key(self, key, orders: pa.Table, payments: pa.Table):  # one parameter for each input, by its name
        for order in orders.to_pylist():
            if order["amount"] <= 0:
                raise ValueError(f"order {key} has the amount {order['amount']}")
            self.amount = order["amount"]
            self.context.timers.at_event_time(key, order["at"] + TEN_MINUTES_MS, name="due")
        if payments.num_rows:
            self.context.timers.cancel(key, name="due")
            yield {"id": key, "status": "paid", "amount": self.amount}
            self.context.forget()  # the key's state goes

    def on_key_timer(self, key, timer):
        yield {"id": key, "status": "unpaid", "amount": self.amount}
        self.context.forget()


class Totals(Operator):
    total: dict[str, float] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pd.DataFrame:
        sums = rows.to_pandas().groupby("status", as_index=False)["amount"].sum()
        for status, amount in zip(sums["status"], sums["amount"], strict=True):
            self.total[status] = self.total.get(status, 0.0) + amount
        return pd.DataFrame({"status": sums["status"], "total": [self.total[status] for status in sums["status"]]})


app = App("orders")
orders = app.source(
    "orders", perseid.sources.files(str(FOLDER / "orders"), format="json", schema="id long, at long, amount double")
)
payments = app.source(
    "payments", perseid.sources.files(str(FOLDER / "payments"), format="json", schema="id long, at long")
)
settled = app.stateful(
    "unpaid",
    Unpaid(),
    inputs={"orders": orders, "payments": payments},
    key="id",
    output="id long, status string, amount double",
    event_time=perseid.event_time("at", delay=every(seconds=5)),  # of both inputs
)
settled.sink("settled", perseid.sinks.parquet(str(FOLDER / "settled")))
settled.stateful("totals", Totals(), key="status", output="status string, total double").sink(
    "sums", perseid.sinks.parquet(str(FOLDER / "sums"))
)


def letters(root: Path, operator: str) -> list[dict]:
    """The rows an operator could not take, each with its error."""
    files = sorted((root / "dead-letters" / operator).glob("epoch=*/*.arrow"))
    return [row for file in files for row in pa.ipc.open_file(pa.OSFile(str(file))).read_all().to_pylist()]


def main() -> None:
    minute = 60_000
    write(
        "orders", [(1, 0, 10.0), (2, 1_000, 20.0), (3, 2_000, -5.0)], [(4, 11 * minute, 7.0)], [(5, 15 * minute, 1.0)]
    )
    write("payments", [(1, 3_000)], [(4, 12 * minute)], [(5, 15 * minute)])
    root = FOLDER / "root"
    app.run(root=str(root), hosts=1, spares=0, available_now=True, max_rows_per_epoch=1, dead_letters=True)
    print("settled:", sorted((row["id"], row["status"]) for row in read("settled")))
    print("put aside:", [(row["orders"]["id"], row["__perseid_error"]) for row in letters(root, "unpaid")])


def write(name: str, *files: list[tuple]) -> None:
    """One file for each epoch."""
    (FOLDER / name).mkdir()
    for number, rows in enumerate(files):
        lines = [json.dumps(dict(zip(("id", "at", "amount"), row, strict=False))) + "\n" for row in rows]
        (FOLDER / name / f"{number}.json").write_text("".join(lines))


def read(name: str) -> list[dict]:
    return [row for file in (FOLDER / name).rglob("[!._]*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]


if __name__ == "__main__":
    main()
