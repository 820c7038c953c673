"""Durations as users write them: ``every(seconds=30)``."""

from __future__ import annotations

from dataclasses import dataclass

from perseid.errors import SettingsError


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A positive length of time, made by ``every``."""

    seconds: float

    @property
    def ms(self) -> int:
        """The length in milliseconds."""
        return round(self.seconds * 1000)

    def __repr__(self) -> str:
        return f"every(seconds={int(self.seconds) if self.seconds == int(self.seconds) else self.seconds})"

    def __str__(self) -> str:
        return f"{self.seconds:g} s"


def every(*, hours: float = 0, minutes: float = 0, seconds: float = 0, milliseconds: float = 0) -> Duration:
    """A period or a length of time. Raises ``SettingsError`` for a length of zero or less.

    >>> every(minutes=1, seconds=30)
    every(seconds=90)
    """
    total = hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    if not total > 0:
        raise SettingsError(f"every(...): expected a length of time above zero, got {total:g} s")
    return Duration(total)
