"""What Prometheus reads is well-formed whatever names and numbers there are; the dashboard and alerts use metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perseid.dashboard.exposition import _families
from perseid.metrics.prometheus import Family, text

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"
NAMES = {family.name for family in _families()}


def test_labels_are_escaped_and_unknown_numbers_left_out() -> None:
    family = Family("rows_total", "counter", "Rows")
    family.add(3, {"app": 'a"b\\c\nd'})
    family.add(None, {"app": "x"})
    family.add(float("nan"), {"app": "y"})
    family.add(0.25, {})
    assert text([family, Family("none", "gauge", "Nothing")]) == (
        '# HELP rows_total Rows\n# TYPE rows_total counter\nrows_total{app="a\\"b\\\\c\\nd"} 3\nrows_total 0.25\n'
    )


def test_counters_are_named_as_counters() -> None:
    assert all((family.kind == "counter") == family.name.endswith("_total") for family in _families())


def test_the_grafana_dashboard_and_the_alerts_use_metrics_that_there_are() -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    asked = " ".join(target["expr"] for panel in board["panels"] for target in panel["targets"])
    asked += (DEPLOY / "prometheus-alerts.yml").read_text().replace("name: perseid", "")
    assert set(re.findall(r"perseid_[a-z_]+", asked)) <= NAMES
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_page_has_every_metric() -> None:
    assert set(re.findall(r"^\| `(perseid_\w+)", DOCS.read_text(), re.MULTILINE)) == NAMES
