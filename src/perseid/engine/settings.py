"""What the controller is given at its start: the user's settings as far as they concern it, and what the root tells of earlier runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perseid.checkpoint.lifecycle import CompletedCheckpoint
from perseid.checkpoint.schemes import Scheme
from perseid.scaling.bottleneck import AutoScaling
from perseid.scaling.routing import Shards
from perseid.standby.modes import Standby
from perseid.vocabulary import CheckpointId, Epoch, OperatorName, UnitName


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the controller needs to know of the user's settings."""

    scheme: Scheme  # the application's
    hosts: int
    spares: int = 1
    most_hosts: int | None = (
        None  # spares among them, while an operator is scaled or after; None: no more than at the start
    )
    start_timeout_ms: int | None = 60_000  # hosts may take so long to come; None: as long as they take
    slots: int | None = None  # for tasks of the cluster, where that is known
    queue: int = 2
    keep: int = 3
    heartbeat_ms: int = 100
    operator_retries: int = 2
    epoch_retries: int = 8
    storage_retries: int = 17  # with the pauses between them about a minute: a full disk may be freed
    dead_letters: bool = False
    scaling: AutoScaling | None = None
    scalable: frozenset[OperatorName] = frozenset()  # operators that may be divided without being asked for
    parallel_recovery: int = 1  # so many shards take over from one that is lost (S4)
    final_checkpoint: bool = True
    unit_schemes: Mapping[UnitName, Scheme] = field(default_factory=dict)  # of units that have one of their own
    standby: Mapping[OperatorName, Standby] = field(default_factory=dict)  # of operators that have any


@dataclass(frozen=True, slots=True)
class RootHistory:
    """What the checkpoint root tells of earlier runs."""

    checkpoints: Sequence[CompletedCheckpoint] = ()  # newest first
    admitted: Epoch = Epoch(0)
    oldest_epoch: Epoch = Epoch(1)  # the first one whose slices the ledger still has
    next_checkpoint: CheckpointId = CheckpointId(1)
    set_aside: Mapping[tuple[UnitName, Epoch], frozenset[OperatorName]] = field(default_factory=dict)
    shards: Mapping[OperatorName, Shards] = field(default_factory=dict)  # where they are not as declared
