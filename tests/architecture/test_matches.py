"""A new event, command or message cannot be forgotten: who tells them apart by ``match`` lists all of them, or says that it picks some."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "perseid"
UNIONS = re.compile(r"(events|commands|notices|messages|size_reports)\.py$")

PICKS_SOME = {
    "engine/notices/__init__.py:noticed": "not every command is told to people",
    "engine/controller.py:handle": "the rest are rare events, whose own match is exhaustive",
    "checkpoint/adaptive.py:take_in": "an answer to an old question, or a report outside alert mode, changes nothing",
    "driver/journal_writer.py": "says to people what they want to know",
    "driver/scale_requests.py": "answers requests, and is shown every command",
    "driver/storage_worker.py": "asks which of its commands may wait",
    "simulation/checkers.py": "watches some commands, and is shown all of them",
    "simulation/journal.py": "says to people what they want to know",
    "simulation/keeper.py": "asks which of its commands may wait",
    "engine/unit_ends.py": "is given three kinds of event by the controller's exhaustive match",
    "channel/size_messages.py": "is a union of two",
}


def classes_of_unions() -> set[str]:
    return {
        node.name
        for path in SOURCES.rglob("*.py")
        if UNIONS.search(path.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }


def classes_in(pattern: ast.AST) -> set[str]:
    return {ast.unparse(node.cls).split(".")[-1] for node in ast.walk(pattern) if isinstance(node, ast.MatchClass)}


def matches() -> Iterator[tuple[str, ast.Match]]:
    """Every match over classes of the unions, with the name of its module and function."""
    unions = classes_of_unions()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Match) and any(classes_in(case.pattern) & unions for case in node.cases):
                        yield f"{name}:{function.name}", node


def is_exhaustive(node: ast.Match) -> bool:
    return "assert_never" in ast.unparse(node.cases[-1])


def test_a_match_over_events_commands_and_messages_is_exhaustive() -> None:
    forgetful = {
        f"{name}, line {node.lineno}"
        for name, node in matches()
        if not is_exhaustive(node) and not PICKS_SOME.keys() & {name, name.partition(":")[0]}
    }
    assert not forgetful, "end it with `case _ as never: assert_never(never)`, or say in PICKS_SOME why it picks some"


def test_the_controller_and_both_shells_are_exhaustive() -> None:
    """What carries out commands and what handles events: at least these."""
    found = {name.partition(":")[0] for name, node in matches() if is_exhaustive(node)}
    assert {"engine/controller.py", "driver/shell.py", "simulation/driver.py"} <= found
