"""The dashboard beside an application is a process of its own, and ends with it."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

import pytest

from perseid.errors import PerseidError
from perseid.metrics.dashboard_process import DashboardProcess

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))

from recorded import lines, root_with


def test_it_tells_its_address_serves_and_ends(tmp_path: Path) -> None:
    shown = DashboardProcess(root_with(tmp_path / "root", lines("units")))
    try:
        with urllib.request.urlopen(shown.url + "api/roots", timeout=60) as answer:
            assert json.load(answer)["control"] is False
    finally:
        shown.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(shown.url, timeout=5)


def test_why_it_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(PerseidError, match="is not a checkpoint root"):
        DashboardProcess(str(tmp_path))
