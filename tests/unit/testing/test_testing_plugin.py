"""The pytest plugin, in sessions of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from perseid.testing.counter import ENVIRONMENT


def session(folder: Path, test: str, *options: str) -> str:
    (folder / "test_something.py").write_text(test)
    plugin = [] if entry_points(group="pytest11", name="perseid") else ["-p", "perseid_pytest"]
    environment = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *plugin, *options, "test_something.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_session_that_needs_nothing_of_it_imports_nothing_of_it(tmp_path):
    said = session(
        tmp_path, "import sys\ndef test(): assert not {'perseid', 'pyspark', 'pyarrow'} & sys.modules.keys()\n"
    )
    assert "1 passed" in said and "perseid" not in said


def test_a_session_tells_how_many_real_faults_it_injected_also_in_processes_it_started(tmp_path):
    count = "from perseid.testing.counter import count_fault; count_fault('kill')"
    said = session(
        tmp_path,
        f"import subprocess, sys\ndef test():\n    {count}\n    subprocess.run([sys.executable, '-c', {count!r}], check=True)\n",
    )
    assert "perseid: 2 real faults injected: 2 kill" in said


def test_the_fixtures_without_spark(tmp_path):
    test = """
from pathlib import Path
from perseid import KeyedOperator, state

class Count(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key, rows):
        self.n += rows.num_rows
        return [{"key": key, "n": self.n}]

def test_harness(operator_harness, perseid_clock, perseid_root):
    harness = operator_harness(Count(), key="key", clock=perseid_clock)
    assert harness.epoch([{"key": "a"}]) == [{"key": "a", "n": 1}]
    assert perseid_clock.advance(seconds=1) == 1000
    assert not Path(perseid_root).exists()
"""
    assert "1 passed" in session(tmp_path, test)
    assert "perseid_small_root" in session(tmp_path, "def test(): ...\n", "--fixtures")
