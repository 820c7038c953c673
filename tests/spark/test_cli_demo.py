import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.spark
def test_the_demo_loses_and_doubles_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "perseid.cli.main", "demo"], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "KILLED host" in done.stdout and "KILLED EVERYTHING" in done.stdout
    assert "RIGHT" in done.stdout
