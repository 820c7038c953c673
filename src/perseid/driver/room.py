"""How many hosts an application has, from what its user wants and its cluster has room for. Every host holds a task slot for good.

Invariant: hosts and spares leave at least one slot to the tasks of epochs, where the number of slots is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from perseid.checkpoint.schemes import Scheme
from perseid.driver.settings import Settings
from perseid.engine.settings import EngineSettings
from perseid.errors import SettingsError
from perseid.scaling.bottleneck import AutoScaling
from perseid.standby.modes import Standby
from perseid.vocabulary import OperatorName, UnitName

SCALE_ROOM = 4  # hosts that an application's own session has room for beyond those it starts with
EPOCH_SLOTS = 2  # that a scale leaves to the tasks of epochs
OWN_HOSTS = 2  # at most, in a session of the application's own


@dataclass(frozen=True, slots=True)
class Room:
    """The hosts of an application."""

    hosts: int
    spares: int
    most_hosts: int | None = None  # of both, while an operator is scaled or after; None: no more than at the start
    slots: int | None = None  # for tasks of the cluster, where that is known

    def bounded(self, scaling: AutoScaling | None) -> AutoScaling | None:
        """With no more shards than there can be hosts to hold them."""
        if scaling is None:
            return None
        room = self.hosts if self.most_hosts is None else max(self.hosts, self.most_hosts - self.spares)
        return replace(scaling, most=max(scaling.least, min(scaling.most, room)))


def own_room(settings: Settings, shards: int) -> Room:
    """For which a session of the application's own is made: with slots for hosts that a scale may need."""
    hosts = settings.hosts or max(1, min(OWN_HOSTS, shards))
    return Room(hosts, (1 if settings.spares is None else settings.spares) + SCALE_ROOM)


def wanted_slots(settings: Settings) -> int:
    """So many slots are waited for while a cluster's executors come up."""
    return (settings.hosts or 1) + (settings.spares or 0) + 1


def room_of(settings: Settings, shards: int, slots: int | None, *, own: bool) -> Room:
    """The hosts and spares that a cluster with so many slots can carry. Raises if it is too small. ``own``: its session was made for the
    application."""
    if slots is None:
        return Room(settings.hosts or 1, settings.spares or 0)
    hosts, spares = _hosts_and_spares(settings, shards, slots - (SCALE_ROOM if own else 0))
    return Room(hosts, spares, max(hosts + spares, slots - EPOCH_SLOTS), slots)


def _hosts_and_spares(settings: Settings, shards: int, slots: int) -> tuple[int, int]:
    hosts = settings.hosts or max(1, min(shards, slots // 2))
    spares = settings.spares if settings.spares is not None else int(slots >= hosts + 1 + max(1, min(2, shards)))
    needed = hosts + spares + 1
    if needed > slots:
        raise SettingsError(
            f"too few task slots: {hosts} hosts and {spares} spares hold a slot each for good, and epochs need at least one"
            f" more: {needed}, the cluster has {slots}; use a master with {needed - slots} more (for instance"
            f" local[{needed}]), or fewer hosts or spares"
        )
    return hosts, spares


def engine_settings(
    settings: Settings,
    room: Room,
    unit_schemes: Mapping[UnitName, Scheme],
    scalable: frozenset[OperatorName],
    standby: Mapping[OperatorName, Standby],
) -> EngineSettings:
    """What the controller needs to know of the user's settings."""
    return EngineSettings(
        scheme=settings.checkpoint,
        hosts=room.hosts,
        spares=room.spares,
        most_hosts=room.most_hosts,
        start_timeout_ms=settings.start_timeout.ms,
        slots=room.slots,
        queue=settings.queue,
        keep=settings.keep,
        heartbeat_ms=settings.heartbeat.ms,
        operator_retries=settings.operator_retries,
        dead_letters=settings.dead_letters,
        scaling=room.bounded(settings.scaling),
        scalable=scalable,
        parallel_recovery=settings.parallel_recovery,
        unit_schemes=unit_schemes,
        standby=standby,
    )
