"""The schemes' own machines over the state curves of the applications: how near to the oracle ``adaptive`` comes (M5, M9).

No Spark and no pictures: the sizes follow from how the generated data is made, the epochs are uneven as on a busy machine, and the storage
is as slow as the paper's, so that a large checkpoint is still being written when the next small moment comes.
"""

from __future__ import annotations

from bisect import bisect_left
from statistics import fmean

import numpy as np
import pytest
from curves import Curve, adaptive, drive
from numpy.typing import NDArray

from perseid.apps.bcp.generate import FRAME_BYTES, PLACES, Campus
from perseid.apps.signalguru.generate import INTERVAL_MS, Town
from perseid.checkpoint.oracle import Oracle, RecordedSize, Recording
from perseid.checkpoint.policy import FixedPeriod, Policy
from perseid.vocabulary import Epoch

EPOCHS, EPOCH_MS, UNEVEN, SHARDS, STILL = 420, 400.0, 0.12, 2, 0.22
Sizes = NDArray[np.float64]  # by epoch and shard


def tmi(parts: int) -> Sizes:
    """Pools that fill evenly and are dropped at once."""
    return np.repeat(5e6 + 2.5e6 * (np.arange(EPOCHS) % parts)[:, None], SHARDS, axis=1)


def bcp(parts: int) -> Sizes:
    """Pictures since the last bus, after the last picture of every epoch."""
    campus = Campus.of(0.3, 10.0, 0)
    stop = np.arange(campus.stops)
    sizes = []
    for tick in np.arange(1, EPOCHS + 1) * (campus.headway // parts) - 1:
        run, elapsed = np.divmod(tick - campus._passing(stop // PLACES, stop % PLACES), campus.headway)
        sizes.append(_by_shard(stop, np.where(run < 0, tick, elapsed) + 1))
    return np.array(sizes) * FRAME_BYTES


def signalguru(parts: int) -> Sizes:
    """Pictures of the cars that are near, since they came."""
    town = Town.of(0.07, 0)
    sizes = []
    for moment in np.arange(1, EPOCHS + 1) * (120 // parts) - 1:
        place = np.arange(town.intersections)
        _, phone, since_ms, leaves = town._cars(place, np.full(town.intersections, moment * INTERVAL_MS))
        sizes.append(_by_shard(phone >> 3, (since_ms // INTERVAL_MS + 1) * ~leaves))
    return np.array(sizes) * 10_000.0


def _by_shard(key: NDArray[np.int64], size: NDArray[np.int64]) -> list[float]:
    return [float(size[key % SHARDS == shard].sum()) for shard in range(SHARDS)]


def mean_bytes(
    sizes: Sizes, parts: int, cycles: float, seed: int, *, learning: int = 1, slower: float = 0.0
) -> dict[str, float]:
    """Of the checkpoints in the three periods after the first, or the first few, by scheme. The first epochs may be slower."""
    draw = np.random.default_rng(seed)
    each_ms = EPOCH_MS * (1 + slower * np.exp(-np.arange(len(sizes)) / 5))
    times, recorded = (np.cumsum(draw.lognormal(0, UNEVEN, len(sizes)) * each_ms).astype(int).tolist() for _ in "ab")
    period_ms = int(cycles * parts * EPOCH_MS)
    total = sizes.sum(axis=1)
    per_s = total[parts:].mean() / (STILL * period_ms / 1000)

    def curve(shard: int) -> Curve:
        of_shard = sizes[:, shard].tolist()
        return lambda at_ms: of_shard[bisect_left(times, at_ms)]

    curves = [curve(shard) for shard in range(SHARDS)]
    known = Recording(
        tuple(
            RecordedSize(at, int(size), Epoch(n + 1)) for n, (at, size) in enumerate(zip(recorded, total, strict=True))
        )
    )
    policies: dict[str, Policy] = {
        "adaptive": adaptive(curves, period_ms, profile_periods=1),
        "oracle": Oracle.made(known, period_ms, 0),
        "parallel": FixedPeriod(period_ms, 0),
    }
    found = {}
    measured = (learning + 0.25) * period_ms, (learning + 3.25) * period_ms
    for name, policy in policies.items():
        run = drive(policy, curves, 0, bytes_per_s=per_s, times_ms=times[: bisect_left(times, measured[1])])
        found[name] = fmean(size for at, _, size in run.taken if measured[0] <= at < measured[1])
    return found


@pytest.mark.parametrize(
    ("sizes", "parts", "over"), [(tmi, 15, 0.02), (bcp, 25, 0.05), (signalguru, 20, 0.25)], ids=["tmi", "bcp", "signalguru"]
)  # fmt: skip
def test_adaptive_is_near_the_oracle_however_many_cycles_a_period_has(sizes, parts, over) -> None:
    curve = sizes(parts)
    found = [
        mean_bytes(curve, parts, cycles, seed) for cycles in (1.35, 1.67, 1.9, 2.0, 2.1, 2.33, 2.6) for seed in range(3)
    ]
    adaptive_bytes, oracle_bytes, parallel_bytes = (
        fmean(f[name] for f in found) for name in ("adaptive", "oracle", "parallel")
    )
    assert adaptive_bytes <= (1 + over) * oracle_bytes
    assert adaptive_bytes <= 0.34 * parallel_bytes, "66 % less, as in the paper"


@pytest.mark.parametrize("slower", [1.0, 3.0])
@pytest.mark.parametrize(
    ("sizes", "parts", "over"), [(tmi, 20, 0.02), (bcp, 25, 0.05), (signalguru, 20, 0.25)], ids=["tmi", "bcp", "signalguru"]
)  # fmt: skip
def test_an_application_that_begins_slowly_is_near_the_oracle_from_the_second_profile_on(
    sizes, parts, over, slower
) -> None:
    curve = sizes(parts)
    found = [
        mean_bytes(curve, parts, cycles, seed, learning=2, slower=slower)
        for cycles in (1.5, 1.6, 1.67, 1.75, 1.9)
        for seed in range(3)
    ]
    assert fmean(f["adaptive"] for f in found) <= (1 + over) * fmean(f["oracle"] for f in found)
