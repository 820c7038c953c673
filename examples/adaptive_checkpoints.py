"""A state that fills and empties, checkpointed when it is small: adaptive against parallel, and against an oracle."""

import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pyarrow as pa

import perseid
from perseid import App, Operator, every, state
from perseid.checkpoints import comparison

POOL_MS = 2_500


class Pool(Operator):
    """Keeps the readings of two and a half seconds, then sums them up and drops them."""

    readings: list[bytes] = state(default_factory=list, element_size=2_000)
    pool: int = state(default=0)

    def process(self, rows: pa.Table) -> pa.Table | None:
        told, now = None, self.context.time_ms // POOL_MS
        if now != self.pool:
            told = pa.table({"readings": [len(self.readings)]})
            self.readings, self.pool = [], now
        self.readings += [bytes(2_000) for _ in range(rows.num_rows)]
        return told


def build() -> App:
    app = App("pools")
    readings = app.source("readings", perseid.sources.generator({"sensor": "id % 10"}, rate=2_000))
    pools = readings.stateful("pool", Pool(), key="sensor", output="readings long")
    pools.sink("out", perseid.sinks.noop())
    return app


def run(scheme: perseid.checkpoints.Scheme, root: Path, checkpoints: int) -> dict[str, list[int]]:
    """Bytes of each checkpoint, by the reason for it."""
    running = build().start(root=str(root), hosts=1, spares=0, checkpoint=scheme)
    try:
        while running.progress().checkpoints < checkpoints and not running.wait(timeout_s=0.2):
            pass
    finally:
        running.stop()
    sizes: dict[str, list[int]] = defaultdict(list)
    for checkpoint in comparison.checkpoints_of(str(root)):
        sizes[checkpoint.reason].append(checkpoint.bytes)
    return sizes


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="perseid-adaptive-"))
    period = every(seconds=3)
    runs = {
        "parallel": run(perseid.checkpoints.parallel(period), folder / "parallel", 5),
        "adaptive": run(perseid.checkpoints.adaptive(period, profile_periods=2), folder / "adaptive", 8),
        "oracle": run(comparison.oracle(comparison.recording(str(folder / "parallel")), period), folder / "oracle", 4),
    }
    for scheme, sizes in runs.items():
        told = ", ".join(f"{reason}: {len(each)} of {mean(each) / 1e6:.1f} MB" for reason, each in sizes.items())
        print(f"{scheme}: {told}")


if __name__ == "__main__":
    main()
