"""A module is a concept of 100 to 250 lines. Others get a warning: a short one may belong to its neighbour, a long one may be two."""

from __future__ import annotations

import warnings
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "perseid"
SHORT, LONG, TOO_LONG = 30, 250, 400


def test_module_sizes() -> None:
    lines = {
        path.relative_to(SOURCES).as_posix(): len(path.read_text().splitlines())
        for path in SOURCES.rglob("*.py")
        if path.name != "__init__.py"
    }
    assert lines
    groups = {
        f"shorter than {SHORT}": {name: n for name, n in lines.items() if n < SHORT},
        f"longer than {LONG}": {name: n for name, n in lines.items() if LONG < n <= TOO_LONG},
        f"longer than {TOO_LONG}": {name: n for name, n in lines.items() if n > TOO_LONG},
    }
    for kind, found in groups.items():
        if found:
            told = ", ".join(f"{name} ({n})" for name, n in sorted(found.items(), key=lambda item: item[1]))
            warnings.warn(f"modules {kind} lines: {told}", stacklevel=1)


def test_every_module_has_a_docstring() -> None:
    import ast

    bare = [
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not bare
