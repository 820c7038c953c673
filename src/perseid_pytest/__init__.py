"""Perseid's pytest plugin: fixtures for tests of your own application.

A package of its own, and everything imported inside the fixtures, so that a test session which needs none of this
pays nothing for it: importing ``perseid`` alone takes Arrow and NumPy along.

    operator_harness      makes an OperatorHarness whose epochs are each run twice and compared
    perseid_clock         a clock that the test moves
    perseid_spark         a Spark session with room for hosts, for the whole test session
    perseid_root          a fresh checkpoint root
    perseid_small_root    one on a small filesystem of its own, which may be filled
    perseid_start         starts an application, and ends it after the test
    perseid_run           runs an application to its end under a fault plan
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.driver.running import Running
    from perseid.testing import Clock, OperatorHarness, Report

FAULT_LOG = "PERSEID_FAULT_LOG"  # perseid.testing.counter
_log: Path | None = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("perseid_master", "Spark master of the fixture perseid_spark; by default local, sized for the hosts")
    parser.addini("perseid_hosts", "How many hosts perseid_spark has room for, besides one spare", default="2")


def pytest_configure(config: pytest.Config) -> None:
    global _log
    if FAULT_LOG not in os.environ:  # else the session that started this one counts
        handle, name = tempfile.mkstemp(prefix="perseid-faults-", suffix=".log")
        os.close(handle)
        _log, os.environ[FAULT_LOG] = Path(name), name


def pytest_unconfigure(config: pytest.Config) -> None:
    global _log
    if _log is not None:
        _log.unlink(missing_ok=True)
        if os.environ.get(FAULT_LOG) == str(_log):
            del os.environ[FAULT_LOG]
        _log = None


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many real faults the session has injected; nothing if there were none."""
    if _log is None or not _log.exists() or not _log.stat().st_size:
        return
    from perseid.testing import injected

    faults = injected()
    kinds = ", ".join(f"{count} {kind}" for kind, count in faults.most_common())
    terminalreporter.write_line(f"perseid: {faults.total()} real fault{'s' * (faults.total() != 1)} injected: {kinds}")


@pytest.fixture
def operator_harness() -> Callable[..., OperatorHarness]:
    """``operator_harness(MyOperator(), key="user")``: an ``OperatorHarness`` that runs every epoch twice and compares."""
    from perseid.testing import OperatorHarness

    return lambda operator, **options: OperatorHarness(operator, **{"replay": True, **options})


@pytest.fixture
def perseid_clock() -> Clock:
    """A clock at 0 that only the test moves: ``app.start(spark, clock=perseid_clock)``."""
    from perseid.testing import Clock

    return Clock()


@pytest.fixture(scope="session")
def perseid_spark(pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A Spark session whose processes can be struck in every way that ``perseid.testing`` knows."""
    from perseid.testing import session

    spark = session(pytestconfig.getini("perseid_master") or None, hosts=int(pytestconfig.getini("perseid_hosts")))
    yield spark
    spark.stop()


@pytest.fixture
def perseid_root(tmp_path: Path) -> str:
    """A checkpoint root that nobody has used."""
    return str(tmp_path / "root")


@pytest.fixture
def perseid_small_root(tmp_path: Path) -> Iterator[str]:
    """A checkpoint root on a filesystem of 64 MB, which ``fail_storage("full")`` may fill. Skips where none can be mounted."""
    from perseid.testing.storage import small_filesystem

    with small_filesystem(tmp_path / "small") as mounted:
        if not mounted:
            pytest.skip("a small filesystem cannot be mounted here: that needs root")
        yield str(tmp_path / "small" / "root")


@pytest.fixture
def perseid_start(perseid_spark: SparkSession, perseid_root: str) -> Iterator[Callable[..., Running]]:
    """``perseid_start(app, hosts=2, …)``: ``app.start`` on the fixtures' session and root; ended after the test."""
    import contextlib

    from perseid.errors import PerseidError
    from perseid.testing import heal_everything

    started: list[Running] = []

    def start(app: Any, **settings: Any) -> Running:
        started.append(app.start(perseid_spark, **{"root": perseid_root, **settings}))
        return started[-1]

    yield start
    heal_everything()
    for running in started:
        with contextlib.suppress(PerseidError):
            running.stop()


@pytest.fixture
def perseid_run(perseid_spark: SparkSession, perseid_root: str) -> Iterator[Callable[..., Report]]:
    """``perseid_run(app, at(epoch=7).kill(host=1), …)``: ``perseid.testing.run`` on the fixtures' session and root."""
    from perseid.testing import heal_everything, run

    yield lambda app, plan=None, **options: run(app, plan, **{"spark": perseid_spark, "root": perseid_root, **options})
    heal_everything()
