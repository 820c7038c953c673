"""Chaos: an application under random real faults, then its fault-free twin, then a verdict.

The application is a file, run in processes of its own, its sinks redirected. The twin works on the very epochs that the first run
admitted (``admissions``), so the two outputs must be equal row by row, whatever was hit when.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perseid.engine.progress import Progress
from perseid.errors import ApplicationFailed, FaultError, PerseidError, SettingsError
from perseid.testing.admissions import Admissions
from perseid.testing.attack import Attack, Report, Struck
from perseid.testing.driver import Driver
from perseid.testing.plan import Plan
from perseid.testing.verdict import Verdict, epochs_in, judge

STUCK_S = 240.0
"""So long without a committed epoch is taken for forever: more than any fault lasts, and than a start of Spark on a busy machine."""
END_S = 300.0
ADMISSIONS_S = 0.5
LOOK_S = 0.02

Say = Callable[[str], None]
Show = Callable[[Progress | None], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    report: Report
    sinks: dict[str, Verdict]
    epochs: int  # compared
    finished: bool  # all input was processed, not only what the time allowed
    problem: str | None = None  # it failed or stood still

    @property
    def verdict(self) -> Verdict:
        return sum(self.sinks.values(), Verdict())

    @property
    def right(self) -> bool:
        return self.problem is None and self.verdict.right


class Chaos:
    """One application, struck for a while and then judged."""

    def __init__(
        self,
        file: Path,
        folder: Path,
        *,
        app: str | None,
        root: Path | None = None,
        say: Say,
        show: Show,
        **options: Any,
    ) -> None:
        self._file, self._folder, self._say, self._show = file, folder, say, show
        self._options = {"app": app, **options}
        self._root = str(root or folder / "root")
        self._sinks = _judged_sinks(file, app)

    def play(self, plan: Plan, seconds: float, seed: int) -> Outcome:
        """Strike, compare."""
        driver = self._driver(self._root, "out", **self._options)
        admissions = Admissions(self._root)
        attack = Attack(plan, driver, seed)
        problem: str | None = None
        finished = False
        try:
            finished = self._strike(driver, attack, admissions, seconds)
        except PerseidError as error:
            problem = str(error)
        finally:
            attack.heal()
            driver.kill()
        admissions.look()
        report = attack.report()
        if problem is not None or not admissions.epochs:
            return Outcome(
                report, {}, report.epochs, False, problem or "no epoch was admitted: there is nothing to compare"
            )
        self._twin(admissions)
        last = max(admissions.epochs)
        sinks = {
            name: judge(self._expected(name, last), epochs_in(self._folder / "out" / name)) for name in self._sinks
        }
        return Outcome(report, sinks, last, finished)

    def _expected(self, sink: str, last: int) -> dict[int, Counter[str]]:
        """The twin may have gone on, for timers that came due only when the first run had been stopped."""
        found = epochs_in(self._folder / "twin-out" / sink)
        return {epoch: rows for epoch, rows in found.items() if epoch <= last}

    def _driver(self, root: str, out: str, **options: Any) -> Driver:
        return Driver.of(self._file, root=root, out=str(self._folder / out), log=self._folder / "driver.log", **options)

    def _strike(self, driver: Driver, attack: Attack, admissions: Admissions, seconds: float) -> bool:
        looked_s, last_s = 0.0, time.monotonic()
        asked = stopping = False
        epoch = 0
        while not driver.ended():
            now_s = time.monotonic()
            for struck in () if asked else self._look(attack):
                self._say(f"epoch {struck.epoch}: {struck.what}")
            if asked:
                attack.watch.saw(driver.progress(), now_s)
            self._show(driver.progress())
            if now_s - looked_s > ADMISSIONS_S:
                admissions.look()
                looked_s = now_s
            if attack.watch.epoch > epoch:
                epoch, last_s = attack.watch.epoch, now_s
            if now_s - last_s > STUCK_S:
                raise ApplicationFailed(
                    f"it stands still: no epoch was committed for {STUCK_S:g} s after epoch {epoch}"
                )
            if not asked and attack.watch.running_s(now_s) > seconds:
                asked = True
                attack.heal()
                self._say(f"no more faults after {seconds:.0f} s at epoch {epoch}; it ends what it has begun")
            if (
                asked and not stopping and driver.progress() is not None
            ):  # one that is just starting would only die of it
                stopping = True
                driver.stop()
            time.sleep(LOOK_S)
        return not asked

    def _look(self, attack: Attack) -> tuple[Struck, ...]:
        try:
            return attack.look()
        except FaultError as error:  # an executor that is not there while Spark starts others
            self._say(f"could not strike: {str(error).splitlines()[0]}")
            return ()

    def _twin(self, admissions: Admissions) -> None:
        self._say(f"the same {max(admissions.epochs)} epochs without faults, to compare")
        root = str(self._folder / "twin-root")
        admissions.twin(root)
        options = {**self._options, "master": None, "trigger_ms": None}
        twin = self._driver(root, "twin-out", **options, until=admissions.ends, available_now=True)
        try:
            until_s = time.monotonic() + END_S + 2 * max(admissions.epochs)
            while not twin.ended():
                self._show(twin.progress())
                if time.monotonic() > until_s:
                    raise ApplicationFailed(f"the run without faults has not come to its end: {twin.progress()}")
                time.sleep(0.1)
        finally:
            twin.kill()


def _judged_sinks(file: Path, name: str | None) -> list[str]:
    """The sinks of the application. Refuses one whose input cannot be read a second time."""
    from perseid.cli.loading import load_app

    graph = load_app(file, name).graph
    for node in graph.sources:
        if node.source.kind == "stream":
            raise SettingsError(
                f"{file}: source '{node.name}' is a streaming DataFrame, whose rows cannot be had again for the run without"
                " faults; chaos needs files, a table, a generator, or a source of your own that can be read again"
            )
    if not graph.sinks:
        raise SettingsError(f"{file}: there is no sink, so there is nothing to compare")
    return [node.name for node in graph.sinks]
