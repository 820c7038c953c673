"""``perseid bench``: find a benchmark in ``perseid.bench`` by name and run it."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import perseid.bench
from perseid.cli.report import reporting
from perseid.errors import SettingsError


def bench(
    name: Annotated[str | None, typer.Argument(help="Which benchmark; without it, they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less data and fewer runs: about three minutes.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers here.")] = None,
    plot_path: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw the figure here.")] = None,
    app: Annotated[str | None, typer.Option(metavar="NAME", help="Only this application (meteor).")] = None,
    part: Annotated[str | None, typer.Option(metavar="NAME", help="Only this part (engine, scale, standby).")] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="KIND", help="disk, or paper: as slow as the paper's storage, needs root (meteor)."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Run a benchmark. Without a name, list the benchmarks.

    Example: [bold]perseid bench engine --quick --json engine.json[/bold]

    Example: [bold]perseid bench engine --part processors[/bold]

    Example: [bold]perseid bench meteor --quick[/bold]

    Example: [bold]perseid bench scale --part recovery[/bold]

    Example: [bold]perseid bench standby --quick[/bold]
    """
    with reporting(debug=debug):
        there = available()
        if name is None:
            _list(there)
            return
        if name not in there:
            raise SettingsError(f"no benchmark {name!r}; there {_are(list(there))}")
        for path in (json_path, plot_path):
            if path is not None and not path.resolve().parent.is_dir():
                raise SettingsError(f"{path}: the folder {path.parent} does not exist; make it first")
        try:
            module = importlib.import_module(f"perseid.bench.{name}")
        except ModuleNotFoundError as error:
            raise SettingsError(f"benchmark {name!r} needs {error.name}: pip install 'perseid[bench]'") from error
        chosen = {
            option: value for option, value in (("app", app), ("part", part), ("storage", storage)) if value is not None
        }
        for option in chosen.keys() - inspect.signature(module.run).parameters.keys():
            raise SettingsError(f"--{option} {chosen[option]}: benchmark {name!r} has no {option} to choose")
        module.run(quick, json_path, plot_path, **chosen)


def available() -> dict[str, str]:
    """Name and first docstring line of every benchmark, without importing any."""
    found = {}
    for module in pkgutil.iter_modules(perseid.bench.__path__):
        spec = importlib.util.find_spec(f"perseid.bench.{module.name}")
        if module.name.startswith("_") or spec is None or spec.origin is None:
            continue
        tree = ast.parse(Path(spec.origin).read_text())
        has_run = any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)
        if has_run:
            found[module.name] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def _are(names: list[str]) -> str:
    if not names:
        return "are none"
    return f"is: {names[0]}" if len(names) == 1 else f"are: {', '.join(names)}"


def _list(there: dict[str, str]) -> None:
    if not there:
        print("there are no benchmarks")
        return
    table = Table(box=None, show_header=False, padding=(0, 2))
    for name, about in there.items():
        table.add_row(f"[bold]{name}[/bold]", about)
    Console().print(table)
