"""The application of the quick run: pools of positions, as in the paper's TMI, small enough for any machine.

Every row becomes a vector of numbers that is kept until its pool is full; then the pool is summed up and dropped. So the state rises
with every epoch and falls to nothing at the end of a pool. One stateful operator, one Spark job an epoch: the fewest an application
can have, so that a slow machine sees several pools within a minute.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from perseid import App, Operator, sinks, sources, state
from perseid.bench.measuring.sizes import SHARDS

NAME = "pool"
ROWS = 2400
"""In a pool: a multiple of every number of epochs that a pool may have."""
NUMBERS = 2048
"""In a row's vector: 16 KB, so a full pool has 39 MB."""


class Pool(Operator):
    """Keeps a vector of every row until the pool is full."""

    ordered = False
    pool: int = state(default=0)
    vectors: list[np.ndarray] = state(default_factory=list)

    def process(self, rows: pa.Table) -> pa.Table:
        out = []
        for row in rows["row"].to_numpy():
            pool = int(row) // ROWS
            if pool != self.pool:
                out.append((self.pool, float(sum(v.sum() for v in self.vectors))))
                self.pool, self.vectors = pool, []
            self.vectors.append(np.random.default_rng(int(row)).random(NUMBERS))
        return pa.table({"pool": [p for p, _ in out], "total": [t for _, t in out]}, schema=_SCHEMA)


_SCHEMA = pa.schema([("pool", pa.int64()), ("total", pa.float64())])


def build() -> App:
    """The application; it has no end."""
    app = App(NAME)
    rows = app.source("rows", sources.generator({"row": "id", "key": "id % 64"}))
    totals = rows.stateful("pool", Pool(), key="key", shards=SHARDS, output="pool long, total double")
    totals.sink("out", sinks.noop())
    return app
