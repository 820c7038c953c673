"""The controller is changed only by its events: no part of it can reach into it."""

from __future__ import annotations

import ast
from pathlib import Path

import perseid.engine.changes as changes
from perseid.engine import controller

ENGINE = Path(controller.__file__).parent


def test_no_part_of_the_engine_knows_the_controller() -> None:
    knowing = {path.name for path in ENGINE.glob("*.py") if "engine.controller" in path.read_text()}
    assert knowing == {"event_log.py", "rerun.py"}, "those write down a whole controller, and run one again"


def test_every_change_is_made_by_the_controller_in_one_place() -> None:
    tree = ast.parse((ENGINE / "controller.py").read_text())
    (make,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "_make"]
    made = {n.cls.attr for n in ast.walk(make) if isinstance(n, ast.MatchClass) and isinstance(n.cls, ast.Attribute)}
    assert made == {kind.__name__ for kind in changes.Change.__args__}
