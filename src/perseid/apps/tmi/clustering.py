"""From the positions of a window to modes: features per phone, then k-means over all phones of a pool (M8).

Nothing is learned from labels. Clusters get their names by what they look like: the one that gets nowhere is still, the
slow one walks, and of those that drive, the one that halts at bus stops is the bus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_REPORTS = 3
HALT_M_S = 2.0
AT_STOP_M = 40.0
HEAD, TAIL = 0.5, 0.9  # quantiles of the speed

TRAVEL = np.dtype(
    [("phone", "i8"), ("reports", "i8"), ("progress", "f8"), ("mean", "f8"), ("middle", "f8"), ("fast", "f8"),
     ("halted", "f8"), ("at_stop", "f8"), ("truth", "i4")]
)  # fmt: skip


def travel_of(records: NDArray[Any]) -> NDArray[Any]:
    """How each phone moved. ``records`` is sorted by phone and time."""
    phones, starts, reports = np.unique(records["phone"], return_index=True, return_counts=True)
    travels = np.zeros(len(phones), TRAVEL)
    if not len(phones):
        return travels
    ends = starts + reports - 1
    speed = records["speed"].astype(np.float64)
    halting = speed < HALT_M_S
    at_stop = halting & (records["stop_m"] < AT_STOP_M)
    seconds = np.maximum((records["at_ms"][ends] - records["at_ms"][starts]) / 1000.0, 1.0)
    travels["phone"], travels["reports"] = phones, reports
    travels["progress"] = (
        np.hypot(records["x"][ends] - records["x"][starts], records["y"][ends] - records["y"][starts]) / seconds
    )
    travels["mean"] = np.add.reduceat(speed, starts) / reports
    travels["halted"] = np.add.reduceat(halting, starts, dtype=np.float64) / reports
    # A phone that hardly ever halts says nothing about stops: one sample beside a stop is added to its halts.
    travels["at_stop"] = np.add.reduceat(at_stop, starts, dtype=np.float64) / (
        np.add.reduceat(halting, starts, dtype=np.float64) + 1.0
    )
    ranked = speed[np.lexsort((speed, records["phone"]))]
    travels["middle"] = ranked[starts + (HEAD * (reports - 1)).astype(np.int64)]
    travels["fast"] = ranked[starts + (TAIL * (reports - 1)).astype(np.int64)]
    travels["truth"] = _commonest(records["truth"], starts)
    return travels[reports >= LEAST_REPORTS]


def _commonest(truth: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    """The commonest label of each phone; the lowest code among equals."""
    codes = np.arange(-1, max(int(truth.max()), 0) + 1)
    counts = np.stack([np.add.reduceat(truth == code, starts, dtype=np.int64) for code in codes], axis=1)
    return np.asarray(codes[counts.argmax(axis=1)])


def modes_of(travels: NDArray[Any], modes: tuple[str, ...], seed: int) -> NDArray[np.int64]:
    """The mode of every phone, as an index into ``modes`` (which go from slow to fast)."""
    from sklearn.cluster import KMeans  # here, so that the graph can be built without it
    from threadpoolctl import threadpool_limits

    features = np.column_stack(
        [
            np.log(travels["progress"] + 0.3),
            np.log(travels["fast"] + 1.0),
            np.log(travels["middle"] + 1.0),
            travels["halted"],
            *([1.5 * travels["at_stop"]] if "bus" in modes else []),
        ]
    )
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    distinct = len(np.unique(features, axis=0))
    with threadpool_limits(limits=1):  # one thread: the same sums in the same order, whatever the machine
        clusters = KMeans(min(len(modes), distinct), n_init=8, random_state=seed).fit(features).labels_
    return np.asarray(named(travels, clusters, modes)[clusters])


def named(travels: NDArray[Any], clusters: NDArray[Any], modes: tuple[str, ...]) -> NDArray[np.int64]:
    """For every cluster its mode: by typical speed, and among vehicles the bus is the one that halts at stops."""
    present = np.unique(clusters)
    typical = np.array(
        [np.median(travels["progress"][clusters == c] + travels["fast"][clusters == c]) for c in present]
    )
    mode = np.empty(len(present), np.int64)
    mode[typical.argsort(kind="stable")] = np.arange(len(present)) + (len(modes) - len(present)) // 2
    if "bus" in modes and len(present) == len(modes):
        fast = present[typical.argsort(kind="stable")[-2:]]
        at_stop = [float(travels["at_stop"][clusters == c].mean()) for c in fast]
        bus, other = (fast[0], fast[1]) if at_stop[0] >= at_stop[1] else (fast[1], fast[0])
        mode[bus], mode[other] = modes.index("bus"), modes.index("driving")
    return mode
