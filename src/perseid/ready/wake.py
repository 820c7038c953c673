"""A timer so that an epoch is run when something is due, even if no rows come.

One timer for a shard is enough: whatever is due comes out in any epoch. It belongs to a key that is concerned, so it moves with that key
when the shard is split; each part then sets its own in its next epoch.
"""

from __future__ import annotations

import numpy as np

from perseid.operators.context import Context
from perseid.operators.event_time import END_OF_TIME_MS
from perseid.ready.contents import Contents
from perseid.ready.kept_rows import KeptRows


def wake(contents: Contents, at_ms: int, number: int, context: Context) -> None:
    """At this watermark, for the key with the number; unless an epoch will be run before."""
    timers, now = context.timers, context.watermark_ms
    pending = timers.next_ms("event")
    if now != END_OF_TIME_MS and (pending is None or pending > at_ms or (now is not None and pending <= now)):
        (key,) = contents.keys.keys(np.array([number]))
        timers.at_event_time(key, at_ms)


def wake_at(contents: Contents, rows: KeptRows, context: Context, after_ms: int = 0) -> None:
    """When the watermark has passed the first of these rows, and as much more."""
    if len(rows):
        first = int(rows.times_us.argmin())
        wake(contents, int(rows.times_us[first]) // 1_000 + after_ms + 1, int(rows.numbers[first]), context)
