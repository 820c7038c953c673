"""What asynchronous checkpoints of 300 MB of state cost: throughput with one every 10 s against none, and the longest stall.

``longest_stall_ms`` is the longest time for which a checkpoint held back the start of an epoch: from the order to take snapshots
until the last host had forked and said so. A window of measuring is a whole number of checkpoint periods. Rounds alternate which
of the two comes first. The memory of the hosts is sampled while they checkpoint.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from perseid.bench.measuring import applications, ours
from perseid.bench.measuring.memory import MB, HostMemory
from perseid.bench.measuring.results import Results
from perseid.bench.measuring.side import Side
from perseid.bench.measuring.sizes import CHECKPOINT_S, SHARDS, Sizes
from perseid.bench.measuring.timings import Commit, from_journal, gaps_ms, middle, rows_per_s_within, stalls_ms

STATE_BYTES = 300 * MB
EPOCH_ROWS = 250_000
ROW_BYTES = 16
WARM_EPOCHS = 12


@dataclass(frozen=True, slots=True)
class Round:
    """What one application did in its window."""

    rows_per_s: float
    stalls_ms: list[float]
    commits: list[Commit]
    checkpoints_ms: list[float]  # when they began
    memory: tuple[int, int, int]  # of the fullest host with its children, of the fullest alone, of an empty one


def measure(perseid: Side, work: Path, sizes: Sizes, results: Results) -> None:
    window_s = sizes.checkpoint_window_s
    assert window_s % CHECKPOINT_S == 0
    stalls: list[float] = []
    memory = [(0, 0, 0)]
    for number in range(sizes.checkpoint_rounds):
        order = (True, False) if number % 2 == 0 else (False, True)
        found = {kept: perseid.call(run, work / f"{number}-{kept}", window_s, checkpoints=kept) for kept in order}
        with_them, without = found[True], found[False]
        results.sample("checkpointed_rows_per_s", with_them.rows_per_s, unit="rows/s")
        results.sample("unchecked_rows_per_s", without.rows_per_s, unit="rows/s")
        results.sample("checkpoint_cost_percent", 100 * (1 - with_them.rows_per_s / without.rows_per_s), unit="%")
        stalls += with_them.stalls_ms
        memory.append(with_them.memory)
    assert stalls, "no checkpoint was taken"
    results.sample("stall_ms", *stalls, unit="ms")
    results.number("longest_stall_ms", max(stalls), "ms")
    _draw(with_them, results)
    _say_memory(*(max(one) for one in zip(*memory, strict=True)), results=results)


def _say_memory(full: int, alone: int, empty: int, *, results: Results) -> None:
    state = STATE_BYTES / SHARDS
    epochs = 2 * EPOCH_ROWS * ROW_BYTES / SHARDS
    results.number("host_mb", full / MB, "MB")
    results.number("host_alone_mb", alone / MB, "MB")
    results.number("empty_host_mb", empty / MB, "MB")
    results.number("host_state_mb", state / MB, "MB")
    results.number("host_bytes_per_state_byte", (full - empty - epochs) / state, "bytes a byte")


def run(work: Path, window_s: int, *, checkpoints: bool) -> Round:
    """On Perseid's side: one application, warmed up, then measured for a window."""
    app = applications.newest(work / "out", state_bytes=STATE_BYTES, rate=None)
    scheme = ours.CHECKPOINTS if checkpoints else ours.NO_CHECKPOINTS
    running = ours.start(app, work, checkpoint=scheme, max_rows_per_epoch=EPOCH_ROWS)
    ours.wait_for(running, lambda p: p.epoch >= WARM_EPOCHS)
    from_ms = time.time() * 1000
    with HostMemory(running) as memory:
        time.sleep(window_s)
        last = running.progress().epoch
        ours.wait_for(running, lambda p: p.epoch > last and (p.checkpoints > 0 or not checkpoints))
    journal = ours.end(running)
    commits = from_journal(journal)
    until_ms = from_ms + window_s * 1000
    inside = [entry for entry in journal if from_ms <= entry["at_ms"] <= until_ms + 2_000]
    return Round(
        rows_per_s_within(commits, from_ms, window_s * 1000),
        stalls_ms(inside),
        [c for c in commits if from_ms <= c.at_ms <= until_ms],
        [entry["at_ms"] for entry in inside if entry["kind"] == "checkpoint_started"],
        (memory.full, memory.alone, memory.empty),
    )


def _draw(found: Round, results: Results) -> None:
    """The gaps between commits over time, and when checkpoints began."""
    begin = found.commits[0].at_ms
    results.series("commit_at_s", [(c.at_ms - begin) / 1000 for c in found.commits[1:]])
    results.series("commit_gap_ms", gaps_ms(found.commits, 1))
    results.series("checkpoint_at_s", [(at - begin) / 1000 for at in found.checkpoints_ms])
    results.number("median_gap_ms", middle(gaps_ms(found.commits, 1)), "ms")
    results.number("longest_gap_ms", max(gaps_ms(found.commits, 1)), "ms")
