"""Changes: what parts of the controller want to be otherwise. Frozen; they are made in one place (``make_changes``).

A part returns commands and changes in the order in which they take effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perseid.checkpoint.policy import Decision
from perseid.engine.notices import Outcome
from perseid.engine.pipeline import UnitState
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import Attempt, CheckpointId, Epoch, HostId, OperatorName, ShardId, UnitName


@dataclass(frozen=True, slots=True)
class Failed:
    """The application cannot go on."""

    message: str


@dataclass(frozen=True, slots=True)
class Routed:
    """From now on this table says where shards are."""

    table: RoutingTable


@dataclass(frozen=True, slots=True)
class ShardsGuarded:
    """From now on these shards live on this host, and others stand by for them."""

    shards: tuple[ShardId, ...]
    host: HostId
    standbys: tuple[HostId, ...] = ()
    patience_ms: int = 0  # after so much silence of one the next is asked, too; 0: at once


@dataclass(frozen=True, slots=True)
class ShardsNumbered:
    """This is the highest number ever given to a shard of the operator."""

    operator: OperatorName
    highest: int


@dataclass(frozen=True, slots=True)
class PoolGrown:
    """So many hosts for new shards are wanted on top."""

    hosts: int


@dataclass(frozen=True, slots=True)
class PoolSettled:
    """The pool is as large as the shards of now need it."""


@dataclass(frozen=True, slots=True)
class ShardsLost:
    """These shards must come back; ``everything``: and all others with them."""

    shards: frozenset[ShardId]
    reason: str
    everything: bool = False


@dataclass(frozen=True, slots=True)
class EverythingBack:
    """A recovery is over; ``divided``: lost shards came back as several each."""

    divided: bool


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """An operator has other shards: policies that look at sizes must know."""


@dataclass(frozen=True, slots=True)
class HostSuspected:
    """A task could not reach it."""

    host: HostId


@dataclass(frozen=True, slots=True)
class HostUnreachable:
    """No task gets through to it: it counts as dead."""

    host: HostId
    reason: str


@dataclass(frozen=True, slots=True)
class HostWorks:
    """It was told to do something with so much state, which may keep its heart from beating."""

    host: HostId
    state_bytes: int | None


@dataclass(frozen=True, slots=True)
class HostReleased:
    """It has nothing to do any more."""

    host: HostId


@dataclass(frozen=True, slots=True)
class UnitCancelled:
    """Its job is taken back, so that the unit comes to rest."""

    unit: UnitName


@dataclass(frozen=True, slots=True)
class UnitStands:
    """A unit's job ended without an epoch; or what it is blamed for was not its fault."""

    unit: UnitName
    state: UnitState


@dataclass(frozen=True, slots=True)
class UnitsPutBack:
    """The whole application goes back to a checkpoint: units stand at these epochs."""

    base: Mapping[UnitName, Epoch]


@dataclass(frozen=True, slots=True)
class ReplayBegan:
    """A unit's job feeds restored shards up to an epoch."""

    unit: UnitName
    last: Epoch
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ReplayFailed:
    """Restored shards of a unit are half fed."""

    unit: UnitName
    message: str
    cancelled: bool


@dataclass(frozen=True, slots=True)
class AttemptTaken:
    """A job beside those of the units has this number: no other has."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class RowsSetAside:
    """These operators may have rows of an epoch in the dead letters: every replay leaves them out, too."""

    unit: UnitName
    epoch: Epoch
    operators: frozenset[OperatorName]


@dataclass(frozen=True, slots=True)
class CheckpointWanted:
    """A checkpoint is to be taken now."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class CheckpointGivenUp:
    """What is on its way is not finished any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointCorrupt:
    """A completed checkpoint cannot be used."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class InflightCorrupt:
    """The checkpoint that was restored has a damaged in-flight epoch: it cannot be used, and was not restored."""

    checkpoint: CheckpointId


Change = (
    Failed
    | Routed
    | ShardsGuarded
    | ShardsNumbered
    | PoolGrown
    | PoolSettled
    | ShardsLost
    | EverythingBack
    | Repartitioned
    | HostSuspected
    | HostUnreachable
    | HostWorks
    | HostReleased
    | UnitCancelled
    | UnitStands
    | UnitsPutBack
    | ReplayBegan
    | ReplayFailed
    | AttemptTaken
    | RowsSetAside
    | CheckpointWanted
    | CheckpointGivenUp
    | CheckpointCorrupt
    | InflightCorrupt
)

Step = Outcome | Change
