"""Every example runs as a user runs it: in a process of its own."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.spark


def ran(*command, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_word_count_runs_from_the_command_line(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("to be or not to be\n" * 50)
    command = (
        "-m",
        "perseid.cli.main",
        "run",
        EXAMPLES / "word_count.py",
        "--root",
        "root",
        "--hosts",
        "1",
        "--available-now",
    )
    ran(*command, cwd=tmp_path)
    ran(*command, cwd=tmp_path)  # once more, from the root: nothing is counted again
    import pyarrow.parquet as pq

    rows = [
        row for file in (tmp_path / "out").rglob("[!._]*.parquet") for row in pq.ParquetFile(file).read().to_pylist()
    ]
    assert {row["word"]: row["n"] for row in sorted(rows, key=lambda row: row["n"])} == {
        "to": 100,
        "be": 100,
        "or": 50,
        "not": 50,
    }
    assert "application words starts" in ran("-m", "perseid.cli.main", "replay", "root", cwd=tmp_path)


ONE_AFTER_ANOTHER = """
import runpy, sys
for file in sys.argv[1:]:
    print("---", flush=True)
    runpy.run_path(file, run_name="__main__")
"""


def test_examples_that_start_spark_themselves(tmp_path):
    """Each in a session of its own, but all in one process: what costs most is to start a JVM."""
    names = ("sources_and_sinks", "own_source_and_sink", "orders_and_payments", "spark_processor")
    _, *said = ran("-c", ONE_AFTER_ANOTHER, *(EXAMPLES / f"{name}.py" for name in names), cwd=tmp_path).split("---\n")
    sources_and_sinks, own, orders, processor = said
    assert "coffee 65.00" in sources_and_sinks
    assert own.splitlines() == ["ada 500.00, grace 250.00", "ada 750.00, grace 375.00"], "nothing twice"
    settled, aside = orders.splitlines()
    assert settled == "settled: [(1, 'paid'), (2, 'unpaid'), (4, 'paid'), (5, 'paid')]"
    assert aside == "put aside: [(3, 'ValueError: order 3 has the amount -5.0')]"
    assert "violations: {0: 90, 1: 90, 2: 90}" in processor


@pytest.mark.slow
def test_sessions(tmp_path):
    assert ran(EXAMPLES / "sessions.py", cwd=tmp_path).strip() == "[('ada', 3), ('edsger', 3), ('grace', 3)]"


@pytest.mark.slow
def test_checkpoint_schemes(tmp_path):
    said = ran(EXAMPLES / "checkpoint_schemes.py", cwd=tmp_path)
    assert "parallel: " in said and "source: " in said


@pytest.mark.slow
def test_adaptive_checkpoints(tmp_path):
    said = ran(EXAMPLES / "adaptive_checkpoints.py", cwd=tmp_path)
    assert "parallel: period: " in said and "minimum: " in said and "recorded: " in said


@pytest.mark.slow
def test_survive_a_kill(tmp_path):
    assert "every line counted exactly once" in ran(EXAMPLES / "survive_a_kill.py", cwd=tmp_path)


@pytest.mark.slow
def test_standby(tmp_path):
    said = ran(EXAMPLES / "standby.py", cwd=tmp_path)
    assert "the copy answers" in said and "every row counted exactly once" in said


@pytest.mark.slow
def test_on_a_cluster(tmp_path):
    assert "ffffff" in ran(EXAMPLES / "on_a_cluster.py", cwd=tmp_path)


@pytest.mark.slow
def test_tests_of_an_application(tmp_path):
    plugin = ("-p", "perseid_pytest") if not entry_points(group="pytest11", name="perseid") else ()
    said = ran("-m", "pytest", "-q", "-c", "/dev/null", *plugin, EXAMPLES / "test_clicks.py", cwd=tmp_path)
    assert "4 passed" in said


@pytest.mark.slow
def test_top_languages(tmp_path):
    assert "edits were counted" in ran(EXAMPLES / "top_languages.py", cwd=tmp_path)


@pytest.mark.slow
def test_scale_out(tmp_path):
    said = ran(EXAMPLES / "scale_out.py", cwd=tmp_path)
    assert "1 → 3 shards" in said and "3 → 1 shards" in said and "every click counted exactly once" in said


def test_state_primitives(tmp_path):
    assert "4 times 'to'" in ran(EXAMPLES / "state_primitives.py", cwd=tmp_path)


def test_larger_than_memory(tmp_path):
    assert "60,000 keys, spilled: " in ran(EXAMPLES / "larger_than_memory.py", cwd=tmp_path)


@pytest.mark.slow
def test_checkpoint_now(tmp_path):
    said = ran(EXAMPLES / "checkpoint_now.py", cwd=tmp_path)
    assert "checkpoint 1, " in said and "went on to the end" in said
