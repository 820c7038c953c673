"""No traceback tells that Spark has closed a pipe; every other one is shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

DAEMON = """
import sys
import pyspark.daemon
from perseid.host.broken_pipes import quietly
quietly()
try:
    raise {error}
except BaseException:
    pyspark.daemon.print("failed to flush:", pyspark.daemon.traceback.format_exc(), file=sys.stderr)
    pyspark.daemon.traceback.print_exc()
"""


@pytest.mark.parametrize(
    ("error", "told"), [("BrokenPipeError(32, 'x')", 0), ("ConnectionResetError()", 0), ("ValueError('bad')", 2)]
)
def test_only_a_closed_pipe_is_not_worth_a_traceback(error: str, told: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DAEMON.format(error=error)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr.count("Traceback") == told
