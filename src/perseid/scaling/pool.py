"""The host pool (S6): p ready hosts without shards, refilled in the background.

A failed host's shards go to a ready one at once, so recovery does not wait for Spark to start a process.

Invariant: hosts running plus hosts starting never exceed what the application may use.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pool:
    """How many hosts the application works on, and how many stand ready beside them."""

    hosts: int
    spares: int

    @property
    def size(self) -> int:
        return self.hosts + self.spares

    def to_start(self, alive: int, starting: int) -> int:
        """How many hosts to ask Spark for now."""
        return max(0, self.size - alive - starting)
