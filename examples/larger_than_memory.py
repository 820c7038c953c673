"""State of several times the memory it may use: what is in memory, and what an access costs, beside a dict.

python larger_than_memory.py 3000000 "64 MB"
"""

import os
import random
import sys
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from perseid import Context, Operator, Spilled, state
from perseid.primitives import restore_state, run_epoch

LIMIT = sys.argv[2] if len(sys.argv) > 2 else "1 MB"
EPOCHS, ROWS = 20, 20_000


class Clicks(Operator):
    """Clicks by user, with at most so much of it in memory."""

    counts: Spilled[str, int] = state(spill=LIMIT)

    def process(self, rows: pa.Table) -> None:
        users = rows["user"].unique()
        counts = self.counts.get_many(users, 0)
        self.counts.put_many(users, [count + 1 for count in counts])


class ClicksInMemory(Operator):
    """The same in a dict."""

    counts: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> None:
        for user in rows["user"].unique().to_pylist():
            self.counts[user] = self.counts.get(user, 0) + 1


def apply(shard: Operator, epoch: int, users: list[int]) -> None:
    run_epoch(shard, {"rows": pa.table({"user": [f"user-{n:09d}" for n in users]})}, Context(epoch, time_ms=epoch))


def resident_mb() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def measured(prototype: Operator, keys: int) -> dict[str, Any]:
    apply(restore_state(prototype, None), 1, list(range(ROWS)))  # whatever Python and Arrow need once
    before, chance = resident_mb(), random.Random(1)
    shard = restore_state(prototype, None)
    for epoch, start in enumerate(range(0, keys, ROWS), start=1):
        apply(shard, epoch, list(range(start, min(start + ROWS, keys))))
    loaded = resident_mb() - before
    everywhere = timed(shard, lambda: chance.randrange(keys))
    few = timed(shard, lambda: chance.randrange(keys // 50))
    assert len(counts_of(shard)) == keys
    return {"MB": loaded, "any key, µs": everywhere, "a hot key, µs": few}


def timed(shard: Operator, key: Callable[[], int]) -> float:
    """Of the processor, for one key of an epoch, which is looked up and written; after some epochs for warming up."""
    spent = 0.0
    for epoch in range(EPOCHS):
        users = list({key() for _ in range(ROWS)})
        begun = time.process_time()
        apply(shard, epoch, users)
        spent += (time.process_time() - begun) / len(users) if epoch >= EPOCHS // 2 else 0.0
    return round(spent / (EPOCHS - EPOCHS // 2) * 1e6, 2)


def counts_of(shard: Any) -> MutableMapping[str, int]:
    return shard.counts


def main() -> None:
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    for name, prototype in ("in memory", ClicksInMemory()), ("spilled", Clicks()):
        pid = os.fork()  # so that neither is measured with what the other left behind
        if pid == 0:
            print(f"{keys:,} keys, {name}: {measured(prototype, keys)}", flush=True)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0


if __name__ == "__main__":
    main()
