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


ONE_AFTER_ANOTHER = """
import runpy, sys
for file in sys.argv[1:]:
    print("---", flush=True)
    runpy.run_path(file, run_name="__main__")
"""


def test_examples_that_start_spark_themselves(tmp_path):
    """Each in a session of its own, but all in one process: what costs most is to start a JVM."""
    names = ("own_source_and_sink", "orders_and_payments", "ready_operators")
    _, own, orders, ready = ran(
        "-c", ONE_AFTER_ANOTHER, *(EXAMPLES / f"{name}.py" for name in names), cwd=tmp_path
    ).split("---\n")
    assert own.splitlines() == ["ada 500.00, grace 250.00", "ada 750.00, grace 375.00"], "nothing twice"
    settled, aside = orders.splitlines()
    assert settled == "settled: [(1, 'paid'), (2, 'unpaid'), (4, 'paid'), (5, 'paid')]"
    assert aside == "put aside: [(3, 'ValueError: order 3 has the amount -5.0')]"
    sums, total, dearest, unpaid = ready.splitlines()
    assert (sums, total, unpaid) == ("orders: 120 in 12 windows", "total: 630.0", "unpaid: 80")
    assert dearest.startswith("dearest: [('coffee', 1, 69, 15.0), ('coffee', 2, 79, 15.0)")


@pytest.mark.slow
def test_sources_and_sinks(tmp_path):
    assert "coffee 65.00" in ran(EXAMPLES / "sources_and_sinks.py", cwd=tmp_path)


@pytest.mark.slow
def test_spark_processor(tmp_path):
    assert "violations: {0: 90, 1: 90, 2: 90}" in ran(EXAMPLES / "spark_processor.py", cwd=tmp_path)


@pytest.mark.slow
def test_upgrade(tmp_path):
    before, after = ran(EXAMPLES / "upgrade.py", cwd=tmp_path).strip().splitlines()
    assert before == "{0: '186.00 euros', 1: '187.50 euros'}"
    assert after == "{0: '37200 cents, largest 148', 1: '37500 cents, largest 149'}"


@pytest.mark.slow
def test_state_tables(tmp_path):
    said = ran(EXAMPLES / "state_tables.py", cwd=tmp_path)
    assert "|   2|200|    4|" in said and "|    2|    600|" in said


@pytest.mark.slow
def test_move_from_spark(tmp_path):
    said = ran(EXAMPLES / "move_from_spark.py", cwd=tmp_path)
    assert [line for line in said.splitlines() if line.startswith("{")] == [
        "{0: 100, 1: 100, 2: 100}",
        "{0: 110, 1: 110, 2: 110}",
    ]


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
