"""Python modules that lie beside an application: Spark's workers get them, so that hosts and tasks import what the driver imports.

A module of the application is one that its operators, functions, sources and sinks come from, or that the file of the
application imports, and so on from there, wherever the import stands. Installed modules, and those that ``PYTHONPATH`` leads to,
are left to the machines that have them.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from perseid.graph.graph import Graph
from perseid.graph.nodes import SinkNode, SourceNode, StatefulNode, TransformNode

APP_MODULE = "perseid_app_"  # how the command line names the module of an application's file (perseid.cli.loading)
_NOT_SHIPPED = ("perseid", "pyspark")
_shipped: set[tuple[str, str]] = set()  # applications of Spark, and what they have got


def ship_modules(spark: SparkSession, graph: Graph) -> None:
    """Give Spark's workers the modules that lie beside the application."""
    files = modules_beside(graph)
    if not files:
        return
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{name}\0".encode() + file.read_bytes() + b"\0")
    key = (str(spark.conf.get("spark.app.id", "")), digest.hexdigest()[:16])
    if key in _shipped:
        return
    folder = tempfile.mkdtemp(prefix="perseid-modules-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = Path(folder, f"perseid-modules-{key[1]}.zip")
    with zipfile.ZipFile(archive, "w") as packed:
        for name, file in sorted(files.items()):
            packed.write(file, name)
    spark.addArtifacts(str(archive), pyfile=True)
    _shipped.add(key)


def modules_beside(graph: Graph) -> dict[str, Path]:
    """The files of the application's own modules, by their names below the folder they are imported from."""
    found: dict[str, Path] = {}
    waiting: list[tuple[Path, Path]] = []  # files to look for imports in, and the folder they import from
    for name in _modules_of(graph):
        file = getattr(sys.modules.get(name), "__file__", None)
        if not file or not file.endswith(".py") or name.split(".")[0] in _NOT_SHIPPED:
            continue
        path = Path(file).resolve()
        folder = path.parents[name.count(".") + (path.name == "__init__.py")]
        if _installed(folder):
            continue
        if name == "__main__" or name.startswith(APP_MODULE):  # these travel by value
            waiting.append((path, path.parent))
        else:
            _take(folder, name.split(".")[0], found, waiting)
    while waiting:
        file, folder = waiting.pop()
        for name in _imports(file):
            _take(folder, name, found, waiting)
    return found


def _modules_of(graph: Graph) -> set[str]:
    """The names of modules that the parts of the graph come from."""
    parts: list[object] = []
    for node in graph.nodes:
        match node:
            case SourceNode():
                parts.append(type(node.source))
            case SinkNode():
                parts.append(type(node.sink))
            case TransformNode():
                parts.append(node.function)
            case StatefulNode():
                given = vars(node.operator).values()  # what it was made with: also a class whose objects it makes
                classes = [type(node.operator), *(v if isinstance(v, type) else type(v) for v in given)]
                parts.extend(base for cls in classes for base in cls.__mro__)
    main = sys.modules.get("__main__")
    if not hasattr(main, "__file__"):  # a notebook: what it has imported
        parts.extend(vars(main).values())
    names = {getattr(part, "__module__", None) or getattr(part, "__name__", None) for part in parts}
    return {name for name in names if isinstance(name, str)} | {"__main__"}


def _take(folder: Path, name: str, found: dict[str, Path], waiting: list[tuple[Path, Path]]) -> None:
    """A module of this folder, or a package with all that is in it, if that is what this name means in the driver."""
    if name in _NOT_SHIPPED:
        return
    module, package = folder / f"{name}.py", folder / name
    places = _places(name)
    files = [module] if module in places else sorted(package.rglob("*.py")) if package in places else []
    for file in files:
        inside = str(file.relative_to(folder))
        if inside not in found:
            found[inside] = file
            waiting.append((file, folder))


def _places(name: str) -> set[Path]:
    """The file of a module, or the folders of a package, as the driver imports it."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # ValueError: a module that somebody made up
        return set()
    if spec is None:
        return set()
    places = spec.submodule_search_locations or filter(None, [spec.origin])
    return {Path(place).resolve() for place in places}


def _imports(file: Path) -> Iterator[str]:
    """The names that are imported anywhere in a file, up to their first dot."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _installed(folder: Path) -> bool:
    """Is this a folder that workers import from by themselves?"""
    paths = sysconfig.get_paths()
    installed = {Path(paths[kind]).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    if {"site-packages", "dist-packages"} & set(folder.parts):  # of whichever environment
        return True
    named = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    return folder in named or any(folder == place or place in folder.parents for place in installed)
