"""How much is measured: the numbers of a full and of a quick run. Every window is bounded, so that a run ends in time."""

from __future__ import annotations

from dataclasses import dataclass

UNITS = 4
"""Of two operators each, as in the paper."""
ELEMENTS = 20
"""In the state of an operator."""
HOSTS, SPARES = 4, 4
"""Every unit on a host of its own, and as many others for copies."""
RATE = 10_000
"""Rows a second, the paper's; two cores carry it (``pace`` says so in the results)."""
LOAD = 0.6
"""Of all cores, taken by the application, as in the paper."""
JUDGED_SHARE = 0.6
"""Of the time in which the primary is stopped."""
MODES = ("none", "passive", "active", "hybrid")


@dataclass(frozen=True, slots=True)
class Sizes:
    """One run's lengths and repetitions."""

    calibration_s: float  # for the pace of a chain, twice
    modes: tuple[str, ...]  # of the delay under failures
    shares: tuple[float, ...]  # of the time with a failure
    window_s: float  # measured for each share
    poisson: bool  # as well as regular failures
    outage_s: float  # how long one takes, on average
    rounds: int  # of the recovery that is judged
    heartbeats_ms: tuple[int, ...]  # besides 100
    refreshes_ms: tuple[int, ...]  # besides 500
    other_rounds: int
    chain_rounds: int
    rates: tuple[int, ...]  # of traffic
    traffic_s: float
    quiet_s: float  # without any failure
    shared: tuple[float, ...]  # failure time of three primaries with one copy host
    large_mb: int
    loads: tuple[int, ...]  # percent taken from a host by what is to be detected
    spikes: int  # of each


FULL = Sizes(
    calibration_s=8,
    modes=MODES,
    shares=(0.3, 0.6, 0.8),
    window_s=11,
    poisson=True,
    outage_s=1.0,
    rounds=8,
    heartbeats_ms=(500,),
    refreshes_ms=(100, 900),
    other_rounds=3,
    chain_rounds=5,
    rates=(1_000, 5_000),
    traffic_s=8,
    quiet_s=300,
    shared=(0.0, 0.1, 0.2, 0.3),
    large_mb=50,
    loads=(60, 80, 90, 95),
    spikes=6,
)
QUICK = Sizes(
    calibration_s=4,
    modes=("active", "hybrid"),
    shares=(0.6,),
    window_s=8,
    poisson=False,
    outage_s=1.0,
    rounds=3,
    heartbeats_ms=(),
    refreshes_ms=(),
    other_rounds=0,
    chain_rounds=0,
    rates=(),
    traffic_s=6,
    quiet_s=10,
    shared=(),
    large_mb=0,
    loads=(),
    spikes=0,
)
