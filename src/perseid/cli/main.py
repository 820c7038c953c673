"""The command ``perseid``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from perseid.cli.app import app as application
from perseid.cli.bench import bench
from perseid.cli.chaos import chaos
from perseid.cli.check import back, check, release
from perseid.cli.dashboard import dashboard
from perseid.cli.demo import demo
from perseid.cli.inspect import inspect
from perseid.cli.linear_road import linear_road
from perseid.cli.metrics import metrics
from perseid.cli.replay import replay
from perseid.cli.run import run
from perseid.cli.scale import scale
from perseid.cli.simulate import simulate
from perseid.cli.standby import standby
from perseid.cli.state_files import export, import_
from perseid.cli.top import top

app = typer.Typer(
    name="perseid",
    help="Stateful PySpark streams that survive everything. Start with: [bold]perseid demo[/bold]",
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command()(demo)
app.command()(run)
app.command()(scale)
app.command()(standby)
app.command()(check)
app.command()(release)
app.command()(back)
app.command()(export)
app.command(name="import")(import_)
app.command()(inspect)
app.command()(replay)
app.command()(dashboard)
app.command()(top)
app.command()(metrics)
app.command()(simulate)
app.command()(bench)
app.command()(chaos)
app.command(name="app")(application)
app.add_typer(linear_road)

if __name__ == "__main__":
    app()
