"""``perseid dashboard``: a page in the browser over the journals of one or several roots."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from typing import Annotated

import typer
from rich.console import Console

from perseid.cli.report import reporting
from perseid.cli.roots import existing_root
from perseid.errors import SettingsError

TOKEN = "PERSEID_DASHBOARD_TOKEN"


def dashboard(
    roots: Annotated[list[str], typer.Argument(metavar="ROOT…", help="Checkpoint roots: folders or URIs.")],
    host: Annotated[
        str, typer.Option(help="Address to listen on. Any but the loopback one needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; the next free one if it is in use.")] = 4848,
    control: Annotated[
        bool, typer.Option("--control", help="Let the page take checkpoints, scale and stop the application.")
    ] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Show values from rows, too: hot keys, lines put aside, errors of your code.")
    ] = False,
    token: Annotated[
        str | None, typer.Option(envvar=TOKEN, help="Token to ask for.", show_default="made up where one is needed")
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    lifeline: Annotated[bool, typer.Option("--lifeline", hidden=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Show applications in the browser, from their journals: live, and after the fact.

    Graph, state, checkpoints, latency, hosts, and every fault and recovery as a story. Works offline; changes nothing without --control.

    Example: [bold]perseid dashboard words-root[/bold]
    """
    with reporting(debug=debug):
        from perseid.dashboard.server import Dashboard
        from perseid.dashboard.watched import WatchedRoot

        if token is not None and len(token) < 8:
            raise SettingsError(f"--token: expected at least 8 characters, got {len(token)}")
        watched = [WatchedRoot(existing_root(root), rows=rows) for root in roots]
        shown = Dashboard(watched, host=host, port=port, token=token, may_control=control)
        shown.start()
        try:
            if lifeline:  # started by an application: it wants the address alone, and ends us by ending
                print(shown.url, flush=True)
                sys.stdin.read()
                return
            console = Console(highlight=False, soft_wrap=True)
            for busy in shown.busy_ports:
                console.print(f"port {busy} is in use", style="yellow")
            console.print(
                f"dashboard of {', '.join(w.store.root for w in watched)}: [bold]{shown.url}[/bold]  (Ctrl-C ends it)"
            )
            if open_browser:
                webbrowser.open(shown.url)
            threading.Event().wait()
        except KeyboardInterrupt:
            os.write(1, b"\n")
        finally:
            shown.close()
