"""Whoever reads a page or asks a command for help sees an example, and the example is true."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *(page for page in sorted((TOP / "docs").glob("*.md")) if page.name != "index.md")]
COMMANDS = (
    "app", "back", "bench", "chaos", "check", "dashboard", "demo", "export", "import", "inspect",
    "linear-road check", "linear-road generate", "linear-road run", "metrics", "release", "replay", "run", "scale",
    "simulate", "standby", "top",
)  # fmt: skip
FENCED = re.compile(r"^```\n(.*?)^```", re.MULTILINE | re.DOTALL)


@cache
def help_of(command: str) -> str:
    done = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "240", "TERM": "dumb"})
    assert done.exit_code == 0, f"no command {command!r}"
    return done.output


def shown(text: str) -> list[str]:
    """The command lines in blocks of code."""
    lines = (line.removeprefix("$ ") for block in FENCED.findall(text) for line in block.splitlines())
    return [line for line in lines if line.startswith("perseid ")]


def check(line: str) -> None:
    """The command exists and has these options. Nothing is run."""
    arguments = shlex.split(line, comments=True)[1:]
    command = " ".join(arguments[:2]) if arguments[0] == "linear-road" else arguments[0]
    options = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    known = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_of("" if command.startswith("-") else command)))
    assert options <= known, f"{line}: {options - known} is no option"


def test_every_command_is_looked_at() -> None:
    listed = re.findall(r"^\W+([a-z][a-z-]+) {2,}", help_of("").partition("Commands")[2], re.MULTILINE)
    assert {command.split()[0] for command in COMMANDS} == set(listed)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_shows_an_example(command: str) -> None:
    examples = re.findall(r"Example: (perseid .+?)(?: *│| *$)", help_of(command), re.MULTILINE)
    assert examples and all(example.startswith(f"perseid {command}") for example in examples)
    for example in examples:
        check(example)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_an_example_that_is_tested(page: Path) -> None:
    """A piece of ``examples/``, which ``tests/spark`` runs and ``tests/unit/cli/test_docs.py`` compares; or a command, which exists."""
    text = page.read_text()
    assert "<!-- example: " in text or shown(text)


@pytest.mark.parametrize("page", [*PAGES, *sorted((TOP / "docs" / "design").glob("*.md"))], ids=lambda page: page.name)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for line in shown(page.read_text()):
        check(line)
