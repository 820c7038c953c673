"""Who may import whom: the map of CONTRIBUTING.md as a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "perseid"

LAYERS = [  # a package imports from its own layer and from those before it
    {"errors", "vocabulary", "codec", "duration", "byte_size", "clocks", "unknown_settings"},
    {"state", "operators"},
    {"ready", "agg"},
    {"graph", "storage", "scaling"},
    {"checkpoint", "recovery", "standby"},
    {"engine"},
    {"channel", "checkpoints", "primitives", "metrics"},
    {"host", "processor", "sources", "sinks"},
    {"spark", "driver"},
    {"application", "transfer"},
    {"query"},
    {"simulation"},
    {"apps", "testing", "cli", "bench", "dashboard", "datasource"},
]
LAYER = {package: number for number, packages in enumerate(LAYERS) for package in packages}
PUBLIC = {"App", "Operator", "every", "state", "checkpoints"}  # names of the root that applications use

UPWARD = {  # at run time, inside a function; each with its reason
    ("state", "storage"): "spilled state is typed with its file",
}
PURE = (
    "engine",
    "checkpoint",
    "recovery",
    "scaling",
    "standby",
    "graph",
    "state",
    "operators",
    "ready",
    "channel",
    "host",
    "storage",
    "simulation",
)
ALLOWED_SPARK = {"codec.py": "PySpark brings cloudpickle, which is loaded where a class cannot be named"}
DECIDES = ("engine", "checkpoint", "recovery", "scaling", "standby")
IMPURE = {
    "threading",
    "socket",
    "subprocess",
    "time",
    "os",
    "shutil",
    "tempfile",
    "queue",
    "asyncio",
    "pyarrow",
    "numpy",
}


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """What a module imports, and whether only for types."""
    tree = ast.parse(path.read_text())
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    types = {id(node) for block in blocks for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module] if node.module != "perseid" else [f"perseid.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) in types


def modules(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((SOURCES / package).rglob("*.py"))]


def package_of(path: Path) -> str:
    inside = path.relative_to(SOURCES)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def test_every_package_has_a_layer() -> None:
    found = {package_of(path) for path in SOURCES.rglob("*.py")} - {"__init__"}
    assert found == LAYER.keys(), "give a new package its place in LAYERS and in CONTRIBUTING.md"


def test_imports_go_down() -> None:
    wrong = []
    for path in SOURCES.rglob("*.py"):
        mine = package_of(path)
        if mine == "__init__":
            continue
        for name, for_types in imports(path):
            parts = name.split(".")
            if parts[0] != "perseid" or len(parts) < 2 or for_types or (mine, parts[1]) in UPWARD:
                continue
            if parts[1] in PUBLIC and LAYER[mine] == len(LAYERS) - 1:
                continue
            if LAYER.get(parts[1], -1 if parts[1] not in LAYER else 0) > LAYER[mine]:
                wrong.append(f"{path.relative_to(SOURCES)} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", PURE)
def test_spark_is_imported_only_by_what_touches_spark(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCES)} imports {name}"
        for path in modules(package)
        for name, for_types in imports(path)
        if name.split(".")[0] in ("pyspark", "py4j") and not for_types and path.name not in ALLOWED_SPARK
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", DECIDES)
def test_what_decides_has_no_clock_thread_socket_or_file(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCES)} imports {name}"
        for path in modules(package)
        for name, _ in imports(path)
        if name.split(".")[0] in IMPURE
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", ["perseid", "perseid.simulation.runs", "perseid.cli.main"])
def test_pyspark_is_not_loaded_where_it_is_not_needed(module: str) -> None:
    code = f"import sys, {module}; print(sorted(name for name in sys.modules if name.split('.')[0] == 'pyspark')[:3])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
