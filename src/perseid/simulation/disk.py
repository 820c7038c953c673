"""A machine's own disk: what hosts keep there, as long as the machine does not go down.

Invariant: what lies in the folder of a host that was killed stays there, for whoever takes its shards over on the same machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from perseid.engine.messages import ApplyEpoch
from perseid.simulation.root import Snapshot
from perseid.simulation.values import Rows
from perseid.vocabulary import Epoch, ShardId


class Came(NamedTuple):
    """The rows of a request: those of the whole epoch, how many of them came to this shard, and how many were cut off."""

    rows: Rows
    num_rows: int
    missing: int = 0


Kept = dict[Epoch, tuple[ApplyEpoch, Came]]


@dataclass(slots=True)
class Disk:
    """Of one machine."""

    input: dict[tuple[str, ShardId], Kept] = field(default_factory=dict)  # by the folder of a host
    rows: dict[tuple[int, ShardId], Kept] = field(default_factory=dict)  # that tasks of a driver keep, by generation
    copies: dict[str, Snapshot] = field(default_factory=dict)  # of snapshots, by their path under the root
    backups: dict[tuple[str, str], Snapshot] = field(
        default_factory=dict
    )  # of other hosts' snapshots, by folder and path

    def lost(self) -> None:
        """The machine went down with it."""
        self.input.clear()
        self.rows.clear()
        self.copies.clear()
        self.backups.clear()
