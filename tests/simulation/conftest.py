"""What no test names is drawn anew for every commit, so that over time all combinations are tried.

``PERSEID_TEST_SEED`` overrides the number that the commit gives; without git it is fixed. pytest's header shows it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

WITHOUT_GIT = 20_000


def test_seed() -> int:
    """The first seed of this commit's runs."""
    given = os.environ.get("PERSEID_TEST_SEED")
    if given is not None:
        return int(given)
    try:
        here = Path(__file__).parent
        told = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=10, check=True
        )
        return int(told.stdout.strip()[:8], 16)
    except (OSError, subprocess.SubprocessError, ValueError):
        return WITHOUT_GIT


def pytest_report_header() -> str:
    return f"perseid simulation: seeds from {test_seed()} on (PERSEID_TEST_SEED repeats them)"


@pytest.fixture(scope="session")
def first_seed() -> int:
    return test_seed()
