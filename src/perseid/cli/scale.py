"""``perseid scale``: divide an operator of a running application among more or fewer shards (S3)."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from perseid.cli.report import reporting
from perseid.cli.root_facts import LeaseFacts, gather
from perseid.cli.roots import existing_root
from perseid.clocks import wall_ms
from perseid.errors import NoAnswer, ScaleFailed
from perseid.storage import requests

SILENT_S = 15


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
        store = existing_root(root)
        _require_driver(root, gather(store, verify=False).lease, operator, shards)
        name = requests.ask(store, {"scale": operator, "shards": shards})
        try:
            said = requests.wait(store, name, seconds)
        except NoAnswer as error:
            raise NoAnswer(
                f"{root}: {error} from the application; if it began, it goes on: perseid replay {root} tells"
            ) from error
        if "error" in said:
            raise ScaleFailed(said["error"])
        if as_json:
            print(json.dumps(said["scaled"]))
            return
        done = said["scaled"]
        Console(highlight=False).print(
            f"[bold]{done['operator']}[/bold] has {done['shards']} shards instead of {done['before']}; its input paused for"
            f" {done['pause_ms']} ms, all took {done['duration_ms'] / 1000:.1f} s"
        )


def _require_driver(root: str, lease: LeaseFacts | None, operator: str, shards: int) -> None:
    """Somebody must be there to do it."""
    silent_s = (wall_ms() - lease.renewed_ms) / 1000 if lease is not None else 0.0
    if lease is None or lease.status != "held" or silent_s > SILENT_S:
        raise ScaleFailed(
            f"{root}: no application runs there; start it with shards={shards} for operator {operator!r} instead:"
            " it goes on from what it has saved"
        )
