"""The controller is changed only by its events: no part of it can reach into it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import perseid.engine.changes as changes
from perseid.engine import controller

ENGINE = Path(controller.__file__).parent


def test_no_part_of_the_engine_knows_the_controller() -> None:
    knowing = {path.name for path in ENGINE.rglob("*.py") if re.search(r"engine\.controller\b", path.read_text())}
    assert knowing == {"event_log.py", "rerun.py"}, "those write down a whole controller, and run one again"


def test_every_change_is_made_in_one_place_and_only_the_controller_has_it_made() -> None:
    users = {path.name for path in ENGINE.rglob("*.py") if "engine.make_changes" in path.read_text()}
    assert users == {"controller.py"}
    knowing = {path.name for path in ENGINE.rglob("*.py") if "engine.controller_state" in path.read_text()}
    assert knowing == {"controller.py", "make_changes.py"}, "parts are shown a view"
    tree = ast.parse((ENGINE / "make_changes.py").read_text())
    (make,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_make"]
    made = {n.cls.attr for n in ast.walk(make) if isinstance(n, ast.MatchClass) and isinstance(n.cls, ast.Attribute)}
    assert made == {kind.__name__ for kind in changes.Change.__args__}
