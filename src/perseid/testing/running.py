"""Run an application to its end while a plan strikes it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perseid.errors import ApplicationFailed, PerseidError, SettingsError
from perseid.testing.attack import Attack, Report
from perseid.testing.driver import Driver
from perseid.testing.network import prepare
from perseid.testing.plan import Plan
from perseid.testing.subject import InProcess, Subject

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.application import App

LOOK_S = 0.01


def run(
    app: App | str | Path,
    plan: Plan | Iterable[Plan] | None = None,
    *,
    root: str | Path | None = None,
    spark: SparkSession | None = None,
    seed: int = 0,
    timeout_s: float = 300.0,
    **settings: Any,
) -> Report:
    """Run ``app`` to its end, injecting the faults of ``plan`` at their moments; what happened.

        report = run(app, at(epoch=7).kill(host=1), root=tmp_path, hosts=2)

    ``app`` is an ``App``, run in this process on ``spark`` with the settings of ``app.start``; or a Python file with one, run in a
    process of its own, which a plan may crash, with the settings of ``perseid.testing.driven.Spec``. ``seed`` decides who
    ``"any"`` is. Raises ``FaultError`` if a step of the plan never struck, and ``ApplicationFailed`` if the application failed or
    has not ended within ``timeout_s``.
    """
    plan = Plan.of(plan)
    if isinstance(app, (str, Path)):
        if spark is not None:
            raise SettingsError(
                "run: an application in a file gets a session of its own; give master= instead of spark="
            )
        folder = Path(tempfile.mkdtemp(prefix="perseid-run-"))
        driver = Driver.of(app, root=str(root or folder / "root"), log=folder / "driver.log", **settings)
        try:
            return _until_the_end(driver, plan, seed, timeout_s)
        finally:
            driver.kill()
    running = app.start(spark, root=None if root is None else str(root), **settings)
    try:
        return _until_the_end(InProcess(running), plan, seed, timeout_s)
    finally:
        with contextlib.suppress(PerseidError):
            running.stop()


def _until_the_end(subject: Subject, plan: Plan, seed: int, timeout_s: float) -> Report:
    attack = Attack(plan, subject, seed)
    until_s = time.monotonic() + timeout_s
    try:
        while not subject.ended():
            attack.look()
            if time.monotonic() > until_s:
                picture = subject.progress()
                raise ApplicationFailed(f"the application has not ended within {timeout_s:g} s: {picture}")
            time.sleep(LOOK_S)
    finally:
        attack.heal()
    attack.watch.saw(subject.progress(), time.monotonic())
    return attack.finish()


def session(master: str | None = None, *, hosts: int = 2, spares: int = 1, **config: str) -> SparkSession:
    """A Spark session as ``perseid.spark_session`` makes one, for tests.

    Its workers import what the test can import, and its processes can be cut off from each other.
    """
    from perseid.spark.session import spark_session

    prepare()
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, [*known, *filter(os.path.isdir, sys.path)])))
    return spark_session(master, hosts=hosts, spares=spares, app_name="perseid-tests", config=config)
