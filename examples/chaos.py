"""An application to be struck: `perseid chaos examples/chaos.py --minutes 2`.

Two stateful operators in two units; any lost, doubled or reordered row changes what they say from then on.
"""

from collections.abc import Iterator

import pyarrow as pa

import perseid
from perseid import App, KeyedOperator, Operator, every, state


class Balance(Operator):
    """Every account's balance after each epoch, and a checksum that depends on the order of its payments."""

    balances: dict[int, int] = state(default_factory=dict)
    checksums: dict[int, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        for account, amount in zip(rows["account"].to_pylist(), rows["amount"].to_pylist(), strict=True):
            self.balances[account] = self.balances.get(account, 0) + amount
            self.checksums[account] = (self.checksums.get(account, 0) * 31 + amount) % 1_000_003
        accounts = list(dict.fromkeys(rows["account"].to_pylist()))
        return pa.table(
            {
                "account": pa.array(accounts, pa.int64()),
                "balance": pa.array([self.balances[a] for a in accounts], pa.int64()),
                "checksum": pa.array([self.checksums[a] for a in accounts], pa.int64()),
            }
        )


class Alarm(KeyedOperator):
    """Tells a while after a bank's first sign of life how many there were: timers must survive, too."""

    signs: int = state(default=0)

    def process_key(self, key: int, rows: pa.Table) -> None:
        if not self.signs:
            self.context.timers.at_processing_time(key, self.context.time_ms + 500)
        self.signs += rows.num_rows

    def on_key_timer(self, key: int, timer: perseid.Timer) -> Iterator[dict[str, int]]:
        signs, self.signs = self.signs, 0
        yield {"bank": key, "signs": signs, "at_ms": self.context.time_ms}


app = App("chaos")
payments = app.source(
    "payments",
    perseid.sources.generator({"account": "id % 997", "amount": "cast(noise * 1000 as long) - 400"}, rate=4_000),
)
balances = payments.stateful(
    "balance", Balance(), key="account", shards=3, output="account long, balance long, checksum long"
)
balances.sink("balances", perseid.sinks.parquet("balances"))
banks = balances.preserve("retained").transform("bank", lambda df: df.selectExpr("account % 20 as bank"), unit="alarms")
alarms = banks.stateful("alarm", Alarm(), key="bank", shards=2, output="bank long, signs long, at_ms long")
alarms.sink("alarms", perseid.sinks.parquet("alarms"))

if __name__ == "__main__":
    app.run(checkpoint=perseid.checkpoints.parallel(every(seconds=5)))
