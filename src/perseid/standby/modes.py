"""Standby modes (H1): what stands ready for the case that a host of a unit becomes slow or dies.

none      nothing: lost shards come back from the last checkpoint
active    two copies get every epoch; the first answer counts
passive   the state is refreshed on a second machine; a copy is launched from it after three missed heartbeats
hybrid    a suspended copy in memory, refreshed all the time, takes over at the first missed heartbeat, and gives back

The defaults are the paper's: heartbeat 100 ms, refresh 500 ms; an outage of more than 20 s is for good.

Invariant: a setting that a mode has no use for cannot be given to it, and keeps its default.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Literal

from perseid.duration import Duration, every
from perseid.errors import SettingsError

Mode = Literal["none", "active", "passive", "hybrid"]
Timing = Literal["sweeping", "synchronous", "individual"]  # of refreshes (H2): the last two are there to compare with

HEARTBEAT = every(milliseconds=100)
GIVE_UP = every(seconds=20)
REFRESH = every(milliseconds=500)
SHORTEST_HEARTBEAT_MS = 20  # below that, a scheduler's time slice looks like a missed heartbeat
PASSIVE_MISSES = 3
HYBRID_MISSES = 1


@dataclass(frozen=True, slots=True, repr=False)
class Standby:
    """The standby of one unit. ``none``, ``active``, ``passive`` and ``hybrid`` make one."""

    mode: Mode
    heartbeat: Duration = HEARTBEAT
    give_up: Duration = GIVE_UP
    refresh: Duration = REFRESH
    share: int = 1
    timing: Timing = "sweeping"

    @property
    def guards(self) -> bool:
        """Is there a second copy, or the state for one?"""
        return self.mode != "none"

    @property
    def refreshes(self) -> bool:
        """Is the second copy brought up to date by refreshes (H2), and not by getting every epoch?"""
        return self.mode in ("passive", "hybrid")

    @property
    def misses(self) -> int | None:
        """After how many missed heartbeats the second copy takes over; None: it never waits for that."""
        return {"passive": PASSIVE_MISSES, "hybrid": HYBRID_MISSES}.get(self.mode)

    def __repr__(self) -> str:
        default = Standby(self.mode)
        given = [f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)]
        return f"{self.mode}({', '.join(f'{name}={getattr(self, name)!r}' for name in given)})"


def none() -> Standby:
    """No second copy: what is lost comes back from the last checkpoint. The default.

    >>> none()
    none()
    """
    return Standby("none")


def active(*, heartbeat: Duration | float = HEARTBEAT, give_up: Duration | float = GIVE_UP, share: int = 1) -> Standby:
    """Two copies get every epoch, and the first answer counts (H4). Costs twice the work and twice the traffic.

    A copy that is silent for longer than ``give_up`` is replaced. One host carries the copies of at most ``share`` others.

    >>> active(give_up=every(seconds=5))
    active(give_up=every(seconds=5))
    """
    return _checked(Standby("active", *_times("active", heartbeat, give_up, REFRESH), share))


def passive(*, heartbeat: Duration | float = HEARTBEAT, refresh: Duration | float = REFRESH, share: int = 1) -> Standby:
    """The state is kept on a second machine, and a copy is launched from it after three missed heartbeats (H3).

    The state is refreshed about every ``refresh``. One host keeps the state of at most ``share`` others.

    >>> passive().misses
    3
    """
    return _checked(Standby("passive", *_times("passive", heartbeat, GIVE_UP, refresh), share))


def hybrid(
    *,
    heartbeat: Duration | float = HEARTBEAT,
    give_up: Duration | float = GIVE_UP,
    refresh: Duration | float = REFRESH,
    share: int = 1,
) -> Standby:
    """A suspended copy takes over at the first missed heartbeat, and gives back when the primary answers again (H5).

    The copy is refreshed in memory about every ``refresh``. A primary that is silent for longer than ``give_up`` is replaced by
    its copy for good. One host carries the copies of at most ``share`` others. Where both copies are lost, the usual recovery
    brings the shards back from the last checkpoint, without losing a row.

    >>> hybrid(share=3)
    hybrid(share=3)
    """
    return _checked(Standby("hybrid", *_times("hybrid", heartbeat, give_up, refresh), share))


_MODES = {"none": none, "active": active, "passive": passive, "hybrid": hybrid}


def standby_mode(mode: Standby | str) -> Standby:
    """A standby as users write it: a mode's name, or what one of the functions returned.

    >>> standby_mode("hybrid") == hybrid()
    True
    """
    if isinstance(mode, Standby):
        return mode
    known = _MODES.get(mode) if isinstance(mode, str) else None
    if known is None:
        near = get_close_matches(mode, _MODES, n=1) if isinstance(mode, str) else []
        advice = f"did you mean {near[0]!r}?" if near else "or one of perseid.standby's functions"
        raise SettingsError(f"standby={mode!r}: expected 'none', 'active', 'passive' or 'hybrid'; {advice}")
    return known()


def _times(
    mode: Mode, heartbeat: Duration | float, give_up: Duration | float, refresh: Duration | float
) -> tuple[Duration, Duration, Duration]:
    return (
        _duration(mode, "heartbeat", heartbeat),
        _duration(mode, "give_up", give_up),
        _duration(mode, "refresh", refresh),
    )


def _duration(mode: Mode, name: str, given: Duration | float) -> Duration:
    if isinstance(given, Duration):
        return given
    if isinstance(given, int | float) and not isinstance(given, bool) and given > 0:
        return every(seconds=given)
    raise SettingsError(f"{mode}({name}={given!r}): expected every(...) or a number of seconds above zero")


def _checked(standby: Standby) -> Standby:
    mode, heartbeat, give_up, share = standby.mode, standby.heartbeat, standby.give_up, standby.share
    if heartbeat.ms < SHORTEST_HEARTBEAT_MS:
        raise SettingsError(
            f"{mode}(heartbeat={heartbeat!r}): expected at least {SHORTEST_HEARTBEAT_MS} ms, got"
            f" {heartbeat.seconds * 1000:g} ms; a busy machine would look dead all the time"
        )
    if standby.mode != "passive" and give_up.ms < 2 * heartbeat.ms:
        raise SettingsError(
            f"{mode}(give_up={give_up!r}): expected at least two heartbeats of {heartbeat}, so that an outage can end"
        )
    if isinstance(share, bool) or not isinstance(share, int) or share < 1:
        raise SettingsError(f"{mode}(share={share!r}): expected a whole number of at least 1")
    return standby
