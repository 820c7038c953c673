"""Notices: all that people and dashboards are told of a run, under Spark and in the simulation.

The controller returns notices beside its commands; ``noticed`` says what the events and commands themselves tell; shells add what only
they know (sizes of files, times, rows). The journal keeps a notice as one line, ``kind`` and ``record()``. Nothing decides by them.

This package is the whole vocabulary: import notices from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from perseid.checkpoint.notices import AlertBegan as AlertBegan
from perseid.checkpoint.notices import MomentPassed as MomentPassed
from perseid.checkpoint.notices import Notice as Notice
from perseid.checkpoint.notices import PeriodTooShort as PeriodTooShort
from perseid.checkpoint.notices import Profiled as Profiled
from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.notices.application import AppStarted as AppStarted
from perseid.engine.notices.application import AppStopped as AppStopped
from perseid.engine.notices.application import Fault as Fault
from perseid.engine.notices.application import HostLoad as HostLoad
from perseid.engine.notices.application import HostLost as HostLost
from perseid.engine.notices.application import HostReady as HostReady
from perseid.engine.notices.application import HostReleased as HostReleased
from perseid.engine.notices.application import HotKey as HotKey
from perseid.engine.notices.application import JournalContinues as JournalContinues
from perseid.engine.notices.application import StorageFailed as StorageFailed
from perseid.engine.notices.application import Warning as Warning
from perseid.engine.notices.checkpoints import BackedUp as BackedUp
from perseid.engine.notices.checkpoints import CheckpointCommitted as CheckpointCommitted
from perseid.engine.notices.checkpoints import CheckpointDecided as CheckpointDecided
from perseid.engine.notices.checkpoints import CheckpointFailed as CheckpointFailed
from perseid.engine.notices.checkpoints import CheckpointStarted as CheckpointStarted
from perseid.engine.notices.checkpoints import InflightSaved as InflightSaved
from perseid.engine.notices.checkpoints import SnapshotAwaited as SnapshotAwaited
from perseid.engine.notices.checkpoints import SnapshotsForked as SnapshotsForked
from perseid.engine.notices.checkpoints import SnapshotsOrdered as SnapshotsOrdered
from perseid.engine.notices.checkpoints import SnapshotWritten as SnapshotWritten
from perseid.engine.notices.checkpoints import Trimmed as Trimmed
from perseid.engine.notices.epochs import DeadLetters as DeadLetters
from perseid.engine.notices.epochs import EpochAdmitted as EpochAdmitted
from perseid.engine.notices.epochs import EpochCommitted as EpochCommitted
from perseid.engine.notices.epochs import EpochFailed as EpochFailed
from perseid.engine.notices.epochs import MalformedLines as MalformedLines
from perseid.engine.notices.epochs import OperatorFailed as OperatorFailed
from perseid.engine.notices.shards import RecoveryFinished as RecoveryFinished
from perseid.engine.notices.shards import RecoveryStarted as RecoveryStarted
from perseid.engine.notices.shards import RestoreFailed as RestoreFailed
from perseid.engine.notices.shards import Scaled as Scaled
from perseid.engine.notices.shards import ScaleGivenUp as ScaleGivenUp
from perseid.engine.notices.shards import ScaleStarted as ScaleStarted
from perseid.engine.notices.shards import ShardsAssigned as ShardsAssigned
from perseid.engine.notices.shards import ShardsRestored as ShardsRestored
from perseid.engine.notices.standby import CopyDeployed as CopyDeployed
from perseid.engine.notices.standby import CopyDeploying as CopyDeploying
from perseid.engine.notices.standby import CopyLost as CopyLost
from perseid.engine.notices.standby import CopyRefreshed as CopyRefreshed
from perseid.engine.notices.standby import CopyWanted as CopyWanted
from perseid.engine.notices.standby import GivenUp as GivenUp
from perseid.engine.notices.standby import RolledBack as RolledBack
from perseid.engine.notices.standby import StandbyChanged as StandbyChanged
from perseid.engine.notices.standby import Swapped as Swapped
from perseid.engine.notices.standby import Switched as Switched

Outcome = do.Command | Notice
"""What the controller returns."""


def noticed(said: on.Event | Outcome) -> Iterator[Notice]:
    """What people are told of an event or of what the controller returned."""
    match said:
        case Notice():
            yield said
        case do.DropHost(host, reason):
            yield HostLost(host, reason)
        case do.ReleaseHost(host):
            yield HostReleased(host)
        case do.RestoreShards(host, _, shards):
            yield ShardsAssigned(host, tuple(route.shard for route, _, _ in shards))
        case do.TakeSnapshots(host, checkpoint, unit, epoch, synchronous=synchronous):
            yield SnapshotsOrdered(checkpoint, host, unit, epoch, synchronous)
        case do.AbortCheckpoint(checkpoint, reason):
            yield CheckpointFailed(checkpoint, reason)
        case do.Trim(_, oldest):
            yield Trimmed(min(oldest.cuts.values()))
        case on.UnitFailed(kind="cancelled"):
            pass
        case on.UnitFailed(unit, epoch, attempt, kind, message, _, shards):
            yield EpochFailed(epoch, unit, attempt, message)
            for shard in shards if kind in ("operator", "mistake") else ():
                yield OperatorFailed(shard.operator, shard.index, epoch, message)
        case on.SnapshotsForked(host, checkpoint, unit):
            yield SnapshotsForked(checkpoint, host, unit)
        case on.CheckpointFailed(checkpoint, message):
            yield CheckpointFailed(checkpoint, message)
        case on.RestoreFailed(host, _, message):
            yield RestoreFailed(host, message)
