"""The host pool (S6): p ready hosts without shards, refilled in the background.

A failed host's shards go to a ready one at once, so recovery does not wait for Spark to start a process. While an operator is scaled, the
pool has more of them, so that new shards are prepared where nobody works; afterwards it has as many as its shards need.

Invariant: hosts running plus hosts starting never exceed what the application may use.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Pool:
    """How many hosts the application works on, and how many stand ready beside them."""

    hosts: int
    spares: int
    most: int | None = None  # of all, as the cluster has room for no more; None: as at the start
    growth: int = 0  # on top, while an operator is scaled

    @property
    def size(self) -> int:
        return self._bounded(self.hosts + self.spares + self.growth)

    def growing(self, hosts: int) -> Pool:
        """With room for new shards on so many hosts of their own, as far as the cluster has it."""
        return replace(self, growth=hosts)

    def settled(self, hosts: int) -> Pool:
        """With so many hosts to work on, as far as the cluster has room for them."""
        room = max(self.hosts, self._bounded(hosts + self.spares) - self.spares) if hosts > self.hosts else hosts
        return replace(self, hosts=room, growth=0)

    def to_start(self, alive: int, starting: int) -> int:
        """How many hosts to ask Spark for now."""
        return max(0, self.size - alive - starting)

    def _bounded(self, wanted: int) -> int:
        least = self.hosts + self.spares
        return max(least, min(wanted, self.most if self.most is not None else least))
