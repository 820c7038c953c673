"""Every alert fires on the series that it is for, says Prometheus's own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[3] / "deploy"
ALERTS = re.findall(r"alert: (\w+)", (DEPLOY / "prometheus-alerts.yml").read_text())


def test_every_alert_has_a_series_that_it_fires_on() -> None:
    assert set(re.findall(r'alertname="(\w+)"', (DEPLOY / "prometheus-alerts-test.yml").read_text())) == set(ALERTS)


def test_promtool_sees_every_alert_fire() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool here: apt-get install prometheus")
    done = subprocess.run(
        [promtool, "test", "rules", "prometheus-alerts-test.yml"], cwd=DEPLOY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
