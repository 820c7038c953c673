"""A plan carried out on a running application: each step strikes once, as soon as its moment has come.

Invariant: when ``finish`` returns, every step has struck; a step whose moment never came is an error that names it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from perseid.errors import FaultError
from perseid.testing.faults import CrashDriver, FailStorage, Kill, NotNow, Partition, Pause, Slow, Target
from perseid.testing.injection import Hit, inject
from perseid.testing.plan import Plan, Step
from perseid.testing.subject import InProcess, Subject, require_target
from perseid.testing.watch import Watch


@dataclass(frozen=True, slots=True)
class Struck:
    """A step that has struck."""

    step: Step
    what: str  # what was hit, as a sentence
    seconds: float  # since the application ran
    epoch: int  # the last one committed before

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, epoch {self.epoch}: {self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a run under a plan was like."""

    faults: tuple[Struck, ...]
    recoveries: int
    longest_outage_s: float
    epochs: int
    starts: int
    seconds: float

    def __str__(self) -> str:
        head = (
            f"{len(self.faults)} faults, {self.recoveries} recoveries, {self.starts} starts, {self.epochs} epochs in"
            f" {self.seconds:.1f} s, longest outage {self.longest_outage_s:.1f} s"
        )
        return "\n".join([head, *(f"  {struck}" for struck in self.faults)])


class Attack:
    """Watches an application and strikes."""

    def __init__(self, plan: Plan, subject: Subject, seed: int = 0) -> None:
        self.watch = Watch()
        self.struck: list[Struck] = []
        self._pending = list(plan)
        self._subject, self._chance = subject, random.Random(seed)
        self._hits: list[Hit] = []
        self._began_s = time.monotonic()
        self._checked = False
        _refuse_impossible(plan, subject)

    def add(self, plan: Plan) -> None:
        """More to come."""
        self._pending.extend(plan)

    @property
    def pending(self) -> tuple[Step, ...]:
        """Steps whose moment has not come."""
        return tuple(self._pending)

    def look(self) -> tuple[Struck, ...]:
        """Look at the application once, and do what is due; what struck now."""
        picture, now_s = self._subject.progress(), time.monotonic()
        self.watch.saw(picture, now_s)
        if picture is None:
            return ()
        if not self._checked and picture.phase == "running":
            self._checked = True
            for step in self._pending:
                for target in targets(step):
                    require_target(self._subject, target, str(step))
        struck = []
        running_s = self.watch.running_s(now_s)
        for step in list(self._pending):
            if not step.at.has_come(picture, running_s, self.watch.recoveries, self.watch.checkpoints):
                continue
            try:
                hit = inject(step.fault, self._subject, self._chance)
            except NotNow:
                continue  # later, then: the plan says at which moment at the earliest
            except FaultError:
                self._pending.remove(step)  # never, then
                raise
            self._pending.remove(step)
            self._hits.append(hit)
            struck.append(Struck(step, hit.what, running_s, picture.epoch))
            if isinstance(step.fault, CrashDriver):
                self.watch.crashed(now_s)
                break
        self.struck += struck
        return tuple(struck)

    def heal(self) -> None:
        """Undo what can be undone."""
        for hit in self._hits:
            hit.heal()

    def finish(self) -> Report:
        """After the end. Raises ``FaultError`` with every step that never struck."""
        self.heal()
        if self._pending:
            told = "\n".join(f"  - {step}" for step in self._pending)
            raise FaultError(
                f"the plan goes beyond the run, which ended at epoch {self.watch.epoch} after"
                f" {self.watch.running_s(time.monotonic()):.1f} s, {self.watch.checkpoints} checkpoints and"
                f" {self.watch.recoveries} recoveries; these never struck:\n{told}"
            )
        return self.report()

    def report(self) -> Report:
        watch = self.watch
        took_s = time.monotonic() - self._began_s
        return Report(
            tuple(self.struck), watch.recoveries, watch.longest_outage_s, watch.epoch, watch.starts, took_s
        )  # fmt: skip


def targets(step: Step) -> list[Target]:
    """The hosts a step names."""
    match step.fault:
        case Kill(host=target) if target is not None:
            return [target]
        case Pause(host=target) | Slow(host=target) if target is not None:
            return [target]
        case Partition(one, other):
            return [one, other]
    return []


def _refuse_impossible(plan: Plan, subject: Subject) -> None:
    for step in plan:
        if isinstance(step.fault, CrashDriver) and isinstance(subject, InProcess):
            subject.crash()
        if isinstance(step.fault, FailStorage) and "://" in subject.root and not subject.root.startswith("file:"):
            raise FaultError(f"{step}: root {subject.root}: faults of storage are for roots in a local folder")
