"""What examples and docs import is public: nobody who learns from them depends on an internal module."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest
from public_modules import PUBLIC_MODULES

TOP = Path(__file__).parents[3]
EXAMPLES = sorted((TOP / "examples").glob("*.py"))
PAGES = [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]
APPLICATIONS = "perseid.apps"
EXPLAINED = (APPLICATIONS, "perseid.bench", "perseid.simulation", "perseid.spark.daemon")
"""Pages explain the benchmarks and the simulation; the daemon is a value of one of Spark's settings."""
IMPORT = re.compile(r"^\s*(?:from (perseid[\w.]*) import|import (perseid[\w.]*))", re.MULTILINE)
DOTTED = re.compile(r"\bperseid(?:\.[a-z_]+)*\.\w+")


def is_public(module: str) -> bool:
    return module in PUBLIC_MODULES or module.startswith(APPLICATIONS)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_imports_only_public_names(example: Path) -> None:
    for node in ast.walk(ast.parse(example.read_text())):
        if isinstance(node, ast.Import):
            found: list[tuple[str, str | None]] = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(node.module or "", alias.name) for alias in node.names]
        else:
            continue
        for module, name in found:
            if module.partition(".")[0] != "perseid":
                continue
            assert is_public(module), f"line {node.lineno}: {module} is internal"
            if name is not None and module in PUBLIC_MODULES:
                assert name in importlib.import_module(module).__all__, (
                    f"line {node.lineno}: {module}.{name} is internal"
                )


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_what_an_example_reaches_through_perseid_is_public(example: Path) -> None:
    for node in ast.walk(ast.parse(example.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("perseid."):
            assert_public(ast.unparse(node))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_names_only_public_modules(page: Path) -> None:
    text = page.read_text()
    for module in {first or second for first, second in IMPORT.findall(text)}:
        assert is_public(module), f"{module} is internal"
    for name in set(DOTTED.findall(" ".join(re.findall(r"`[^`\n]+`", text)))):
        if not name.startswith(EXPLAINED):
            assert_public(name)


def assert_public(dotted: str) -> None:
    """Each step of ``perseid.sinks.parquet`` is public where it is looked up, up to the first thing that is no module."""
    module = "perseid"
    for step in dotted.split(".")[1:]:
        if module not in PUBLIC_MODULES:
            return
        assert step in importlib.import_module(module).__all__, f"{dotted}: {module} has no public {step!r}"
        module = f"{module}.{step}"
