"""What asynchronous checkpoints of 300 MB of state cost: throughput with one every 10 s against none, and the longest stall.

One application takes a checkpoint every 10 s. The 5 s from the beginning of one are compared with the 5 s before and the 5 s after them,
which have none: all in the same processes, seconds apart, so that little but the checkpoint differs. What was lost is told as a share
of the 10 s. A checkpoint is durable half a second after it began; what it might still cost 5 s later is not seen here.

``longest_stall_ms`` is the longest time for which a checkpoint held back the start of an epoch: from the order to take snapshots
until the last host had forked and said so. The memory of the hosts is sampled all the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perseid.bench.measuring import applications, ours
from perseid.bench.measuring.contestant import Contestant
from perseid.bench.measuring.memory import MB, HostMemory
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.sizes import CHECKPOINT_S, SHARDS, Sizes
from perseid.bench.measuring.timings import Commit, checkpoint_pairs, from_journal, gaps_ms, middle, stalls_ms

STATE_BYTES = 300 * MB
EPOCH_ROWS = 250_000
ROW_BYTES = 16
WARM_EPOCHS = 12
WINDOW_S = CHECKPOINT_S / 2


@dataclass(frozen=True, slots=True)
class Window:
    """What the application did while it was measured."""

    pairs: list[tuple[float, float]]  # rows/s with a checkpoint, rows/s without
    stalls_ms: list[float]
    commits: list[Commit]
    checkpoints_ms: list[float]  # when they began
    memory: tuple[int, int, int]  # of the fullest host with its children, of the fullest alone, of an empty one


def measure(side: Contestant, work: Path, sizes: Sizes, results: Results) -> None:
    found = side.call(run, work, sizes.checkpoint_pairs)
    results.sample("checkpointed_rows_per_s", *(with_one for with_one, _ in found.pairs), unit="rows/s")
    results.sample("unchecked_rows_per_s", *(without for _, without in found.pairs), unit="rows/s")
    costs = [100 * (1 - with_one / without) * WINDOW_S / CHECKPOINT_S for with_one, without in found.pairs]
    results.sample("checkpoint_cost_percent", *costs, unit="%")
    results.sample("stall_ms", *found.stalls_ms, unit="ms")
    results.number("longest_stall_ms", max(found.stalls_ms), "ms")
    _draw(found, results)
    _say_memory(*found.memory, results=results)


def _say_memory(full: int, alone: int, empty: int, *, results: Results) -> None:
    state = STATE_BYTES / SHARDS
    epochs = 2 * EPOCH_ROWS * ROW_BYTES / SHARDS
    results.number("host_mb", full / MB, "MB")
    results.number("host_alone_mb", alone / MB, "MB")
    results.number("empty_host_mb", empty / MB, "MB")
    results.number("host_state_mb", state / MB, "MB")
    results.number("host_bytes_per_state_byte", (full - empty - epochs) / state, "bytes a byte")


def run(work: Path, pairs: int) -> Window:
    """On Perseid's side: one application, warmed up, then measured through so many checkpoints."""
    app = applications.newest(work / "out", state_bytes=STATE_BYTES, rate=None)
    running = ours.start(app, work, max_rows_per_epoch=EPOCH_ROWS)
    ours.wait_for(running, lambda p: p.epoch >= WARM_EPOCHS)
    with HostMemory(running) as memory:
        ours.wait_for(running, lambda p: p.checkpoints > pairs + 1)
    journal = ours.end(running)
    commits = from_journal(journal)
    began = [entry["at_ms"] for entry in journal if entry["kind"] == "checkpoint_started"]
    judged = began[1 : pairs + 1]
    inside = [entry for entry in journal if began[0] <= entry["at_ms"] < began[pairs + 1]]
    return Window(
        checkpoint_pairs(commits, judged, WINDOW_S * 1000),
        stalls_ms(inside),
        [c for c in commits if began[0] <= c.at_ms <= began[pairs + 1]],
        began[: pairs + 1],
        (memory.full, memory.alone, memory.empty),
    )


def _draw(found: Window, results: Results) -> None:
    """The gaps between commits over time, and when checkpoints began."""
    begin = found.commits[0].at_ms
    results.series("commit_at_s", [(c.at_ms - begin) / 1000 for c in found.commits[1:]])
    results.series("commit_gap_ms", gaps_ms(found.commits, 1))
    results.series("checkpoint_at_s", [(at - begin) / 1000 for at in found.checkpoints_ms])
    results.number("median_gap_ms", middle(gaps_ms(found.commits, 1)), "ms")
    results.number("longest_gap_ms", max(gaps_ms(found.commits, 1)), "ms")
