"""The traffic of a run: so many expressways, whose load rises from the benchmark's first rate to its last and stays there (S7).

The benchmark takes three hours from 15 to 1,700 reports a second and expressway; here the rise takes minutes, so cars enter faster
than there, and the peak lasts. Where cars crowd they are slowed to the 40 miles an hour of the benchmark's own data, not to
a walk: a third of the reports come from a new segment, as there, and want an answer.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from perseid.apps.linear_road import generate
from perseid.apps.linear_road.feed import INDEX, write_tables

PEAK_RATE = 1_700.0
ROOM = 170.0
_ABOUT = "road.json"


@dataclass(frozen=True, slots=True)
class Road:
    """What is to be run."""

    xways: int
    ramp_s: int
    peak_s: int
    seed: int = 1

    @property
    def seconds(self) -> int:
        return self.ramp_s + self.peak_s

    @property
    def traffic(self) -> generate.Traffic:
        return generate.Traffic(self.xways, self.seconds, self.seed, peak_rate=PEAK_RATE, peak_s=self.peak_s, room=ROOM)


def make_feed(road: Road, folder: Path) -> Path:
    """The feed of this traffic below ``folder``; made if it is not there, which replaces that of another."""
    feed, about = folder / "feed", folder / _ABOUT
    wanted = json.dumps(asdict(road))
    if (feed / INDEX).exists() and about.exists() and about.read_text() == wanted:
        return feed
    shutil.rmtree(feed, ignore_errors=True)
    write_tables(feed, enumerate(generate.seconds(road.traffic), start=-1))
    about.write_text(wanted)
    return feed
