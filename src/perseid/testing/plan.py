"""A fault plan: what strikes when, as data.

    plan = at(epoch=7).kill(host=1) + at(recovery=1).kill(host="any") + at(seconds=20).pause(host=0, seconds=5)

``at(recovery=1)`` is the moment the first recovery begins, so what follows is a second fault within it. A plan does nothing by
itself: ``run(app, plan)`` carries it out, and complains about steps whose moment never came.

Invariant: plans are frozen and equal when their steps are; ``Plan.of_data(plan.as_data()) == plan``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from perseid.engine.progress import Progress
from perseid.errors import FaultError
from perseid.testing.faults import (
    KINDS,
    Corrupt,
    CrashDriver,
    FailStorage,
    Fault,
    Kill,
    Overload,
    Partition,
    Pause,
    Slow,
    Target,
    fault,
    kind_of,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """When something strikes. One of the four is given; the fault is what is called on it."""

    epoch: int | None = None  # that epoch is committed
    seconds: float | None = None  # since the first epoch is committed
    checkpoint: int | None = None  # so many checkpoints are committed since the start
    recovery: int | None = None  # the n-th recovery begins

    def __post_init__(self) -> None:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if len(given) != 1:
            came = ", ".join(f"{name}={value!r}" for name, value in given.items()) or "nothing"
            raise FaultError(f"at({came}): expected one of epoch=, seconds=, checkpoint=, recovery=")
        ((name, value),) = given.items()
        whole = name != "seconds"
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or value < (1 if whole else 0)
        ):
            raise FaultError(
                f"at({name}={value!r}): expected {'a whole number from 1' if whole else 'seconds from 0'} on"
            )

    def __str__(self) -> str:
        if self.seconds is not None:
            return f"after {self.seconds:g} s"
        if self.epoch is not None:
            return f"at epoch {self.epoch}"
        return f"at checkpoint {self.checkpoint}" if self.checkpoint is not None else f"in recovery {self.recovery}"

    def has_come(self, picture: Progress, running_s: float, recoveries: int, checkpoints: int) -> bool:
        """Whether the moment is there: ``running_s`` since its first epoch, ``recoveries`` begun, ``checkpoints`` committed."""
        if self.epoch is not None:
            return picture.epoch >= self.epoch
        if self.seconds is not None:
            return running_s >= self.seconds
        return checkpoints >= self.checkpoint if self.checkpoint is not None else recoveries >= (self.recovery or 0)

    def kill(self, host: Target | None = None, *, executor: Target | None = None) -> Plan:
        return self.strike(Kill(host, executor))

    def pause(self, host: Target | None = None, *, seconds: float = 3.0, executor: Target | None = None) -> Plan:
        return self.strike(Pause(host, seconds, executor))

    def slow(self, host: Target = "any", *, seconds: float = 5.0, percent: int = 80) -> Plan:
        return self.strike(Slow(host, seconds, percent))

    def overload(self, *, seconds: float = 5.0, processes: int | None = None) -> Plan:
        return self.strike(Overload(seconds, processes))

    def partition(self, one: Target = "any", other: Target = "driver", *, seconds: float = 3.0) -> Plan:
        return self.strike(Partition(one, other, seconds))

    def corrupt(self, how: Any = "flip", *, checkpoint: Any = "newest", shard: str | None = None) -> Plan:
        return self.strike(Corrupt(how, checkpoint, shard))

    def fail_storage(self, how: Any = "unreachable", *, seconds: float = 3.0) -> Plan:
        return self.strike(FailStorage(how, seconds))

    def crash_driver(self) -> Plan:
        return self.strike(CrashDriver())

    def strike(self, what: Fault) -> Plan:
        """A plan of this one fault."""
        return Plan((Step(self, what),))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise FaultError(f"at(…).{name}: no such fault; there are {', '.join(KINDS)}")


def at(
    *,
    epoch: int | None = None,
    seconds: float | None = None,
    checkpoint: int | None = None,
    recovery: int | None = None,
) -> Moment:
    """The moment of a fault: ``at(epoch=7).kill(host=1)``."""
    return Moment(epoch, seconds, checkpoint, recovery)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault at one moment."""

    at: Moment
    fault: Fault

    def __str__(self) -> str:
        return f"{self.at}: {self.fault}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, each of which strikes once."""

    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, given: Plan | Iterable[Plan] | None) -> Plan:
        """A plan, or several as one."""
        if given is None:
            return cls()
        if isinstance(given, Plan):
            return given
        plans = list(given)
        for plan in plans:
            if not isinstance(plan, Plan):
                raise FaultError(f"plan {plan!r:.80}: expected a plan such as at(epoch=7).kill(host=1)")
        return cls(tuple(step for plan in plans for step in plan))

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.steps + other.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "no faults"

    def as_data(self) -> list[dict[str, Any]]:
        """Plain data, for JSON: ``[{"at": {"epoch": 7}, "fault": "kill", "host": 1}]``."""
        return [
            {"at": _given(step.at), "fault": kind_of(step.fault), **_given(step.fault)} for step in self.steps
        ]  # fmt: skip

    @classmethod
    def of_data(cls, data: Iterable[Mapping[str, Any]]) -> Plan:
        """The plan that ``as_data`` was called on."""
        steps = []
        for entry in data:
            options = dict(entry)
            when, kind = options.pop("at", None), options.pop("fault", None)
            if not isinstance(when, Mapping) or when.keys() - {"epoch", "seconds", "checkpoint", "recovery"}:
                raise FaultError(f"plan entry {entry!r:.120}: at: expected epoch, seconds, checkpoint or recovery")
            steps.append(Step(Moment(**when), fault(str(kind), **options)))
        return cls(tuple(steps))


def _given(thing: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(thing).items() if value is not None}
