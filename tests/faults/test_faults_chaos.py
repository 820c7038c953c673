"""``perseid chaos`` on the example: random real faults on a cluster, and a verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[2] / "examples" / "chaos.py"


def chaos(folder: Path, *options: str) -> tuple[int, dict, str]:  # type: ignore[type-arg]
    file = folder / "outcome.json"
    command = [sys.executable, "-m", "perseid.cli.main", "chaos", str(EXAMPLE), "--json", str(file), *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=800)
    assert file.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    return done.returncode, json.loads(file.read_text()), done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_half_a_minute_of_chaos_is_survived(tmp_path: Path) -> None:
    code, outcome, said = chaos(tmp_path, "--minutes", "0.4", "--seed", "7", "--master", "local[6]")
    assert code == 0 and outcome["right"], said
    assert outcome["rows"] > 0 and len(outcome["faults"]) >= 3
    assert not (tmp_path / "balances").exists()  # its own sinks were not touched
    assert "RIGHT" in said and "longest outage" in said


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_minutes_of_chaos_on_a_cluster_are_survived(tmp_path: Path, seed: int) -> None:
    code, outcome, said = chaos(tmp_path, "--minutes", "2", "--seed", str(seed))
    assert code == 0 and outcome["right"], said
    assert len(outcome["faults"]) >= 15 and outcome["recoveries"] >= 5
