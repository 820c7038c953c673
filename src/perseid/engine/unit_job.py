"""A unit's job: what a replay asks of which shards, in which portions; whether every shard took part; how a failure is told.

Invariant: an epoch is finished only with a report of every shard of the unit, and a failure is told once, by ``unit_failed``, with the
kind from which the controller draws its conclusions.

``spark/unit_worker.py`` runs jobs in Spark, ``simulation/jobs.py`` in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from perseid.engine import commands as do
from perseid.engine import events as on
from perseid.engine.reports import NoReport
from perseid.engine.stream_store import StreamGone
from perseid.errors import CorruptData, Fenced, StorageFailed
from perseid.graph.topology import UnitShape
from perseid.storage.records import Admitted
from perseid.vocabulary import Epoch, HostId, OperatorName, ShardId

LEFT_OUT_MS = 300  # until a shard that has not reported an epoch is taken for one that was not asked
REPORT_LIMIT_MS = 10_000  # until its report is taken for lost
REPLAY_EPOCHS = 16
REPLAY_ROWS = 2_000_000

_KINDS: Mapping[str, on.FailureKind] = {
    "host": "host",
    "raised": "operator",
    "mistake": "mistake",
    "poisoned": "poisoned",
    "gap": "poisoned",
    "released": "released",
    "storage": "storage",
    "suspended": "cancelled",  # another host answers for the shard by now, or will in a moment
}


class TaskFailed(Exception):
    """A task could not get the answer of its shard: the host could not be reached (``host``), or refused (``engine.shard.Refusal``)."""

    def __init__(self, refusal: str, message: str, *, host: HostId | None, shard: ShardId) -> None:
        super().__init__(message)
        self.refusal, self.message, self.host, self.shard = refusal, message, host, shard


class Cancelled(Exception):
    """The controller took the job back."""


_KIND_OF: tuple[tuple[type[BaseException], on.FailureKind], ...] = (
    (Cancelled, "cancelled"),
    (Fenced, "fenced"),
    (StreamGone, "released"),
    (StorageFailed, "storage"),
    (CorruptData, "corrupt"),
    (NoReport, "unreported"),
)


def kind_of(error: BaseException) -> on.FailureKind:
    """What failed, if it was no task."""
    return next((kind for of, kind in _KIND_OF if isinstance(error, of)), "other")


def unit_failed(
    command: do.RunEpoch | do.ReplayShards,
    error: BaseException,
    *,
    cancelled: bool,
    taken_over: Callable[[], bool],
    kind: on.FailureKind | None = None,
    message: str | None = None,
) -> on.UnitFailed:
    """What the controller is told of a job that failed. ``kind``: if more is known than the exception's type says."""
    epoch = command.epoch if isinstance(command, do.RunEpoch) else command.last
    if isinstance(error, TaskFailed):
        kind = _KINDS.get(error.refusal, "other")
        hosts = (error.host,) if kind == "host" and error.host is not None else ()
        shards = (error.shard,) if kind in ("operator", "mistake", "poisoned") else ()
        return on.UnitFailed(command.unit, epoch, command.attempt, kind, error.message, hosts, shards)
    kind = kind_of(error) if kind is None else kind
    if cancelled:
        kind = "cancelled"
    elif kind in ("other", "storage") and taken_over():  # who has taken over removes what our tasks were writing
        kind = "fenced"
    return on.UnitFailed(command.unit, epoch, command.attempt, kind, str(error) if message is None else message)


def released(
    operators: Iterable[OperatorName], retaining: Collection[OperatorName], consumed: Epoch, covered: Epoch
) -> dict[OperatorName, Epoch]:
    """Up to where the shards of each operator may forget their answers: what others stand on is kept until a checkpoint covers it."""
    return {o: min(consumed, covered) if o in retaining else consumed for o in operators}


def left_out(missing: Iterable[ShardId]) -> list[OperatorName]:
    """Operators that were not run, or not all of, since nobody needed their output. Their state needs the epoch all the same.

    Behind them a transform keeps no row, a join has an empty side, a limit has enough, or a function of the user does not look.
    """
    return sorted({shard.operator for shard in missing})


def replay_again(missing: Collection[ShardId], fed: frozenset[ShardId]) -> frozenset[ShardId]:
    """Shards to be fed once more on their own. If all are missing they were asked, and a host that does not answer will be noticed."""
    operators = set(left_out(missing))
    some = frozenset(shard for shard in fed if shard.operator in operators)
    return some if operators < {shard.operator for shard in fed} else frozenset()


def replay_groups(epochs: Iterable[Admitted], rows: Callable[[Admitted], int]) -> Iterator[list[Admitted]]:
    """Epochs that are replayed in one job: so many that the job is worth it, so few that it can be taken back."""
    group: list[Admitted] = []
    held = 0
    for admitted in epochs:
        more = rows(admitted)
        if group and (len(group) == REPLAY_EPOCHS or held + more > REPLAY_ROWS):
            yield group
            group, held = [], 0
        group.append(admitted)
        held += more
    if group:
        yield group


@dataclass(frozen=True)
class Replay:
    """Which operators take part when lost shards are fed again: theirs, and those they stand on, which say again what they said."""

    shape: UnitShape
    lost: frozenset[ShardId]

    @cached_property
    def lost_operators(self) -> frozenset[OperatorName]:
        return frozenset(shard.operator for shard in self.lost)

    @cached_property
    def stood_on(self) -> frozenset[OperatorName]:
        """A lost operator stands on these: their answers are looked at."""
        return frozenset().union(*(self.shape.feeders.get(o, frozenset()) for o in self.lost_operators))

    @cached_property
    def operators(self) -> frozenset[OperatorName]:
        return self.lost_operators | self.stood_on

    @cached_property
    def lowest(self) -> frozenset[OperatorName]:
        """Lost operators that no other lost one stands on: to run these is to run them all."""
        return self.lost_operators - self.stood_on

    def feeds(self, shard: ShardId) -> bool:
        """Does this shard apply the epochs?"""
        return shard in self.lost

    def recalls(self, shard: ShardId) -> bool:
        """Does this shard give the answers it kept?"""
        return shard.operator in self.stood_on and shard not in self.lost
