"""How much is measured: the numbers of a full and of a quick run. A quick run has all parts with a goal, smaller and once."""

from __future__ import annotations

from dataclasses import dataclass

HOSTS = 6
"""Room for the hosts of four new shards beside those of the two old ones."""
STATE_SIZES = {"small": 100, "medium": 10_000, "large": 100_000}
"""Words in the dictionary, as in the paper's figure 14."""
RECOVERY_WORDS = STATE_SIZES["large"]
OVERHEAD_RATE = 1_000
"""Fragments a second, the paper's highest."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """One run's lengths and repetitions."""

    state_mb: int  # of the operator that is scaled while it runs
    feed_rows_per_s: int  # rows of a kilobyte
    window_s: float  # of the words that are counted: so much input makes the state that is lost
    interval_s: float  # between checkpoints
    rates: tuple[int, ...]  # fragments a second; the last one is judged
    rounds: int  # of the rate that is judged
    replay_rate: int  # rows a second of the operator that is heavy to replay
    replay_s: tuple[float, ...]  # checkpoint intervals; the last one is judged
    replay_rounds: int  # of the interval that is judged
    states: tuple[str, ...]
    overhead_rounds: int
    overhead_s: float  # measured in each
    intervals_s: tuple[float, ...]
    rising_s: float
    rising: tuple[int, int]  # rows a second at the beginning and at the end
    open_s: float
    open_rate: int
    thresholds: tuple[float, ...]
    threshold_s: float
    threshold_rate: int
    manual: tuple[int, ...]  # shards given by hand, under the same load
    xways: tuple[int, ...]  # of Linear Road, rising
    ramp_s: int
    peak_s: int


FULL = Sizes(
    state_mb=500,
    feed_rows_per_s=2_000,
    window_s=30,
    interval_s=5,
    rates=(2_500, 10_000),
    rounds=2,
    replay_rate=5_000,
    replay_s=(2, 5, 15),
    replay_rounds=3,
    states=("small", "medium", "large"),
    overhead_rounds=3,
    overhead_s=11,
    intervals_s=(1, 2, 10),
    rising_s=100,
    rising=(1_000, 32_000),
    open_s=60,
    open_rate=60_000,
    thresholds=(0.1, 0.3, 0.5, 0.7, 0.9),
    threshold_s=32,
    threshold_rate=22_000,
    manual=(1, 2, 3, 4),
    xways=(100,),
    ramp_s=150,
    peak_s=180,
)
QUICK = Sizes(
    state_mb=60,
    feed_rows_per_s=2_000,
    window_s=10,
    interval_s=2.5,
    rates=(10_000,),
    rounds=1,
    replay_rate=6_000,
    replay_s=(6,),
    replay_rounds=1,
    states=("medium",),
    overhead_rounds=1,
    overhead_s=5,
    intervals_s=(1,),
    rising_s=30,
    rising=(1_000, 32_000),
    open_s=20,
    open_rate=60_000,
    thresholds=(0.1, 0.7),
    threshold_s=20,
    threshold_rate=22_000,
    manual=(1, 2),
    xways=(5,),
    ramp_s=20,
    peak_s=20,
)
