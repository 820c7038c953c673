"""How long the parts of a restore took in a host, and which copies of snapshots were read (M6)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phases:
    """Of one restore."""

    ms: dict[str, int] = field(default_factory=lambda: {"read": 0, "deserialise": 0, "catch_up": 0})
    copies: dict[str, int] = field(default_factory=dict)

    def add(self, phase: str, begun: float) -> None:
        """It has lasted since ``begun``."""
        self.ms[phase] += since(begun)


def since(begun: float) -> int:
    """Milliseconds."""
    return round((time.monotonic() - begun) * 1000)
