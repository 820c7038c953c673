"""``perseid standby``: give an operator of a running application another standby (H1)."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from perseid.cli.report import reporting
from perseid.cli.root_requests import ask_application
from perseid.errors import RequestFailed
from perseid.standby.modes import standby_mode


def standby(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root of the running application.")],
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="Which stateful operator.")],
    mode: Annotated[str, typer.Argument(metavar="MODE", help="none, active, passive or hybrid.")],
    seconds: Annotated[float, typer.Option(min=1, help="How long to wait.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Give an operator of a running application another standby: none, active, passive or hybrid.

    The stream goes on. The command ends when every shard of the operator has its copy; if no host is free for one, it says so,
    and the copy is made as soon as there is one.

    Example: [bold]perseid standby words-root count hybrid[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        standby_mode(mode)
        instead = f'start it with standby="{mode}" for operator {operator!r} instead'
        request = {"standby": operator, "mode": mode}
        done = ask_application(root, request, seconds, failed=RequestFailed, instead=instead)["standby"]
        if as_json:
            print(json.dumps(done))
            return
        told = done["nothing"] or f"[bold]{done['operator']}[/bold] has standby [bold]{done['mode']}[/bold]"
        Console(highlight=False).print(told)
