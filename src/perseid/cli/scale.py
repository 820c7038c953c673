"""``perseid scale``: divide an operator of a running application among more or fewer shards (S3)."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from perseid.cli.report import reporting
from perseid.cli.root_requests import ask_application
from perseid.errors import ScaleFailed


def scale(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root of the running application.")],
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Which stateful operator.")],
    shards: Annotated[int, typer.Argument(metavar="SHARDS", help="How many shards it should have.")],
    seconds: Annotated[float, typer.Option(min=1, help="How long to wait.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Give an operator of a running application more or fewer shards.

    The stream goes on; its input pauses only for the switch. If the request fails, the shards stay as they were.

    Example: [bold]perseid scale words-root count 4[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        instead = f"start it with shards={shards} for operator {operator!r} instead: it goes on from what it has saved"
        request = {"scale": operator, "shards": shards}
        done = ask_application(root, request, seconds, failed=ScaleFailed, instead=instead)["scaled"]
        if as_json:
            print(json.dumps(done))
            return
        Console(highlight=False).print(
            f"[bold]{done['operator']}[/bold] has {done['shards']} shards instead of {done['before']}; its input paused for"
            f" {done['pause_ms']} ms, all took {done['duration_ms'] / 1000:.1f} s"
        )
