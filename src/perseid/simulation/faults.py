"""Faults as data: what goes wrong, whom it hits, when. Plans are frozen, comparable, printable, and can be read from JSON.

Kill      processes die; ``down_ms``: the machine is away for so long, with what its disk and memory held
Pause     processes stand still and go on later, zombies that know nothing of what happened meanwhile
Slow      everything there takes ``factor`` times as long
CutOff    the network between these machines and all others is gone; processes go on
Storage   writes to the root fail, tear, or take long; or a file that was written well is damaged
Driver    the driver is killed, or (``pause_ms``) stands still and wakes when another has taken over

Invariant: a plan names only targets of its site and moments within its run (``check``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Literal, get_args

from perseid.errors import FaultBeyondRun, UnknownFault
from perseid.simulation.site import TARGETS, Site, Target

Trouble = Literal["failing", "torn", "slow", "corrupt"]


@dataclass(frozen=True, slots=True)
class Kill:
    target: Target
    down_ms: int = 0


@dataclass(frozen=True, slots=True)
class Pause:
    target: Target
    for_ms: int


@dataclass(frozen=True, slots=True)
class Slow:
    target: Target
    for_ms: int
    factor: float = 5.0


@dataclass(frozen=True, slots=True)
class CutOff:
    target: Target
    for_ms: int


@dataclass(frozen=True, slots=True)
class Storage:
    trouble: Trouble
    for_ms: int = 0


@dataclass(frozen=True, slots=True)
class Driver:
    down_ms: int
    pause_ms: int = 0


Fault = Kill | Pause | Slow | CutOff | Storage | Driver
KINDS: Mapping[str, type[Fault]] = {
    "kill": Kill, "pause": Pause, "slow": Slow, "cut_off": CutOff, "storage": Storage, "driver": Driver,
}  # fmt: skip
NAMES = {kind: name for name, kind in KINDS.items()}


def name_of(fault: Fault) -> str:
    """The kind of a fault as reports count it: a kill of more than one machine is a burst."""
    if isinstance(fault, Storage):
        return f"storage {fault.trouble}"
    if isinstance(fault, Driver):
        return "driver paused" if fault.pause_ms else "driver killed"
    name = NAMES[type(fault)].replace("_", " ")
    return name if fault.target.kind == "machine" else f"{name} {fault.target.kind}"


def told(fault: Fault) -> str:
    """A fault in words, with what a plan would say of it."""
    given = {field.name: getattr(fault, field.name) for field in fields(fault)}
    whom = str(given.pop("target", given.pop("trouble", "")))
    numbers = [f"{name} {value:g}" for name, value in given.items() if value]
    return " ".join([NAMES[type(fault)], *([whom] if whom else [])]) + "".join(f", {number}" for number in numbers)


def lasts_ms(fault: Fault) -> int:
    """How long it goes on by itself."""
    match fault:
        case Kill(_, down_ms) | Driver(down_ms, 0):
            return down_ms
        case Driver(down_ms, pause_ms):
            return max(down_ms, pause_ms)
        case Pause(_, for_ms) | Slow(_, for_ms) | CutOff(_, for_ms) | Storage(_, for_ms):
            return for_ms


@dataclass(frozen=True, slots=True)
class Planned:
    """A fault, at a moment or as soon as an epoch is committed by every unit."""

    fault: Fault
    at_ms: int | None = None
    at_epoch: int | None = None

    def __str__(self) -> str:
        when = f"at epoch {self.at_epoch}" if self.at_epoch is not None else f"at {self.at_ms} ms"
        return f"{when}: {told(self.fault)}"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of a run."""

    faults: tuple[Planned, ...] = ()

    def check(self, site: Site, *, epochs: int, limit_ms: int) -> None:
        """Raise ``UnknownFault`` or ``FaultBeyondRun`` for what cannot happen in this run."""
        for planned in self.faults:
            if planned.at_epoch is not None and not 1 <= planned.at_epoch <= epochs:
                raise FaultBeyondRun(f"{planned}: the run has epochs 1 to {epochs}; name one of them")
            if planned.at_ms is not None and not 0 <= planned.at_ms < limit_ms:
                raise FaultBeyondRun(f"{planned}: the run ends after {limit_ms} ms; choose an earlier moment")
            if not isinstance(planned.fault, Storage | Driver):
                try:
                    site.hit(planned.fault.target)
                except UnknownFault as error:
                    raise UnknownFault(f"{planned}: {error}") from error


def to_json(plan: FaultPlan) -> list[dict[str, Any]]:
    found = []
    for planned in plan.faults:
        entry: dict[str, Any] = {"fault": NAMES[type(planned.fault)], **asdict(planned.fault)}
        when = ("at_ms", planned.at_ms) if planned.at_epoch is None else ("at_epoch", planned.at_epoch)
        found.append({when[0]: when[1], **entry})
    return found


def from_json(entries: Sequence[Mapping[str, Any]]) -> FaultPlan:
    """A plan from data. Raises ``UnknownFault`` that says which entry is wrong, and how."""
    return FaultPlan(tuple(_planned(number, entry) for number, entry in enumerate(entries, start=1)))


def _planned(number: int, entry: Mapping[str, Any]) -> Planned:
    where = f"fault {number} of the plan"
    given = dict(entry) if isinstance(entry, Mapping) else {}
    name = given.pop("fault", None)
    kind = KINDS.get(str(name))
    if kind is None:
        raise UnknownFault(f"{where}: no fault {name!r}: expected one of {', '.join(KINDS)}")
    at_ms, at_epoch = given.pop("at_ms", None), given.pop("at_epoch", None)
    if (at_ms is None) == (at_epoch is None):
        raise UnknownFault(f"{where} ({name}): say when, with either at_ms or at_epoch")
    known = {f.name: f.default is MISSING for f in fields(kind)}
    if unknown := sorted(given.keys() - known.keys()):
        raise UnknownFault(f"{where} ({name}): no field {unknown[0]!r}: expected {', '.join(sorted(known))}")
    if missing := [field for field, needed in known.items() if needed and field not in given]:
        raise UnknownFault(f"{where} ({name}): {missing[0]} is missing")
    for field, value in {**given, "at_ms": at_ms, "at_epoch": at_epoch}.items():
        _number(f"{where} ({name})", field, value)
    if "target" in given:
        given["target"] = _target(where, given["target"])
    if "trouble" in given and given["trouble"] not in get_args(Trouble):
        raise UnknownFault(f"{where}: no storage trouble {given['trouble']!r}: expected {', '.join(get_args(Trouble))}")
    return Planned(kind(**given), at_ms, at_epoch)


def _number(where: str, field: str, value: Any) -> None:
    """Times and epochs are whole numbers, a factor may be a broken one."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if (field.endswith("_ms") or field == "at_epoch") and value is not None and not whole:
        raise UnknownFault(f"{where}: {field} is {value!r}: expected a whole number of at least 0")
    if field == "factor" and not (isinstance(value, int | float) and value >= 1):
        raise UnknownFault(f"{where}: factor is {value!r}: expected a number of at least 1")


def _target(where: str, data: Any) -> Target:
    if isinstance(data, str) and data == "everything":
        return Target("everything")
    if isinstance(data, Mapping) and data.get("kind") in TARGETS and isinstance(data.get("number", 0), int):
        return Target(str(data["kind"]), data.get("number", 0))
    raise UnknownFault(f"{where}: no target {data!r}: expected {{'kind': …, 'number': …}} of {', '.join(TARGETS)}")
