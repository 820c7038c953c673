"""The command ``perseid``. Each command is a module of its own, which is imported when it is called: it begins at once."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

COMMANDS = {
    "demo": "demo:demo",
    "run": "run:run",
    "scale": "scale:scale",
    "standby": "standby:standby",
    "check": "check:check",
    "release": "check:release",
    "back": "check:back",
    "export": "state_files:export",
    "import": "state_files:import_",
    "inspect": "inspect:inspect",
    "replay": "replay:replay",
    "dashboard": "dashboard:dashboard",
    "top": "top:top",
    "metrics": "metrics:metrics",
    "simulate": "simulate:simulate",
    "bench": "bench:bench",
    "chaos": "chaos:chaos",
    "app": "app:app",
    "linear-road": "linear_road:linear_road",
}
"""In the order of the help: a command's module and its function, or the group of its commands."""
SETTINGS: dict[str, Any] = {
    "rich_markup_mode": "rich",
    "add_completion": False,
    "pretty_exceptions_show_locals": False,
}


class Commands(TyperGroup):
    """Commands that are imported when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            self.commands.update({name: _loaded(name) for name in COMMANDS})  # for what may have been meant
        elif cmd_name not in self.commands:
            self.commands[cmd_name] = _loaded(cmd_name)
        return self.commands.get(cmd_name)


def _loaded(name: str) -> Any:
    module, _, function = COMMANDS[name].partition(":")
    found = getattr(import_module(f"perseid.cli.{module}"), function)
    if isinstance(found, typer.Typer):
        return get_group(found)
    alone = typer.Typer(**SETTINGS)
    alone.command(name)(found)
    return get_command(alone)


app = typer.Typer(
    name="perseid",
    cls=Commands,
    help="Stateful PySpark streams that survive everything. Start with: [bold]perseid demo[/bold]",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **SETTINGS,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"perseid {version('perseid')}")
        raise typer.Exit


@app.callback()
def _perseid(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


if __name__ == "__main__":
    app()
