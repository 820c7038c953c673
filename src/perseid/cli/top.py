"""``perseid top``: an application on the terminal, from its journal, also from another machine and after its end."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from perseid.cli import figures
from perseid.cli.live import PHASE_STYLES
from perseid.cli.placement import SwitchFacts
from perseid.cli.report import reporting
from perseid.cli.roots import existing_root
from perseid.dashboard import views
from perseid.dashboard.watched import LOCAL_S, WatchedRoot

BARS = 40
PAIRS = {"unguarded": "bold red", "deploying": "yellow", "guarded": "green", "switched": "bold magenta"}
TONES = {
    "fault": "red",
    "failure": "red",
    "takeover": "red",
    "scale": "cyan",
    "standby": "magenta",
    "checkpoint": "yellow",
    "dead letters": "yellow",
}


def top(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root: a folder or URI.")],
    once: Annotated[bool, typer.Option("--once", help="Show it once and end.")] = False,
    rows: Annotated[
        bool, typer.Option("--rows", help="Show values from rows, too: hot keys, errors of your code.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The picture as one JSON object; implies --once.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Watch an application on the terminal: operators, hosts, latency, checkpoints and the newest incidents. Ctrl-C ends it.

    The same numbers as the dashboard's, from the journal alone; the application need not run here, or at all.

    Example: [bold]perseid top words-root[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        watched = WatchedRoot(existing_root(root), rows=rows)
        watched.look()
        if as_json:
            print(json.dumps(_picture(watched)))
            return
        console = Console()
        if once or not console.is_terminal:
            console.print(rendered(_picture(watched), _latencies(watched)))
            return
        try:
            with Live(console=console, screen=True, refresh_per_second=4) as live:
                while True:
                    live.update(rendered(_picture(watched), _latencies(watched)))
                    time.sleep(LOCAL_S)
                    watched.look()
        except KeyboardInterrupt:
            console.print(rendered(_picture(watched), _latencies(watched)))


def _picture(watched: WatchedRoot) -> dict[str, Any]:
    return watched.shown(lambda picture: views.overview(picture, watched.life))


def _latencies(watched: WatchedRoot) -> list[float]:
    return watched.shown(lambda picture: [row[2] + row[3] for row in picture.epochs.tail(BARS)])


def rendered(seen: dict[str, Any], latencies: list[float]) -> RenderableType:
    """The whole picture."""
    parts: list[RenderableType] = [_head(seen, latencies), _operators(seen), _hosts(seen)]
    hot_keys = ((hot["operator"], hot["key"], hot["share"]) for hot in seen["hot_keys"])
    parts += [Text(f"hot key   {on}: key {key} has {share:.0%} of the rows", "yellow") for on, key, share in hot_keys]
    if seen["standby"]["pairs"]:
        parts += [Text(""), _standby(seen)]
    if seen["incidents"]:
        parts += [Text(""), _incidents(seen)]
    phase = seen["phase"]
    title = Text.assemble((seen["app"] or "nothing yet", "bold not dim"), " ", (phase, f"not dim {_style(phase)}"))
    return Panel(Group(*parts), title=title, title_align="left", border_style="dim", padding=(0, 1))


def _style(phase: str) -> str:
    return "bold red" if phase == "crashed" else PHASE_STYLES.get(phase, "")


def _head(seen: dict[str, Any], latencies: list[float]) -> RenderableType:
    grid = Table.grid(padding=(0, 3))
    for _ in range(4):
        grid.add_column()
    last = seen["last_checkpoint"]
    checkpoint = "none yet"
    if last is not None:
        checkpoint = (
            f"{last['id']}, {figures.size(last['bytes'])}, {figures.duration(seen['at_ms'] - last['at_ms'])} old"
        )
    grid.add_row(
        _told("epoch", figures.count(seen["epoch"])), _told("rows/s", figures.count(seen["rows_in_s"])),
        _told("state", figures.size(seen["state"] or 0)), _told("checkpoint", checkpoint),
    )  # fmt: skip
    waits = f", {figures.count(seen['rows_wait'])} rows wait" if seen["rows_wait"] else ""
    p50, p99 = (figures.duration(seen[name]) if seen[name] is not None else "-" for name in ("p50", "p99"))
    grid.add_row(
        _told("median", p50), _told("99 %", p99), _told("in flight", figures.count(seen["backlog"]) + waits),
        _told("longest outage", figures.duration(seen["totals"]["longest_outage_ms"])),
    )  # fmt: skip
    bars = Text.assemble(("latency  ", "dim"), (figures.bars(latencies, BARS), "green"))
    return Group(grid, bars, Text(""))


def _told(label: str, value: str) -> Text:
    return Text.assemble((f"{label} ", "dim"), (value, "bold"))


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for column in columns:
        table.add_column(
            column, justify="left" if column in ("operator", "host", "standby", "shards", "address") else "right"
        )
    return table


def _operators(seen: dict[str, Any]) -> RenderableType:
    table = _table("operator", "busy", "rows/s out", "state", "shards")
    out = {edge["from"]: edge["rows_s"] for edge in seen["graph"]["edges"]}
    for node in seen["graph"]["nodes"]:
        if node["kind"] == "operator":
            busy = node["busy"]
            style = "bold red" if busy > 0.8 else "yellow" if busy > 0.5 else ""
            shards = " ".join(
                f"{s['name'].rpartition('/')[2]}→{s['host'] if s['host'] is not None else '✗'}" for s in node["shards"]
            )
            rate = out.get(node["name"])
            table.add_row(
                node["name"], Text(f"{busy:.1%}", style), figures.count(rate) if rate is not None else "-",
                figures.size(node["state"] or 0), shards,
            )  # fmt: skip
    return table


def _hosts(seen: dict[str, Any]) -> RenderableType:
    table = _table("host", "cpu", "memory", "address", "shards")
    for host in seen["hosts"]:
        cpu = f"{host['cpu']:.0%}" if host["cpu"] is not None else "-"
        memory = figures.size(host["memory"]) if host["memory"] else "-"
        copies = [f"copy of host {figures.listed(host['copies_of'])}"] if host["copies_of"] else []
        held = " ".join([*host["shards"], *copies]) or "spare"
        table.add_row(str(host["id"]), cpu, memory, host["address"], held)
    return Group(Text(""), table)


def _standby(seen: dict[str, Any]) -> RenderableType:
    table = _table("standby", "copy", "behind", "refreshed", "newest refresh")
    for pair in seen["standby"]["pairs"]:
        phase, copy = pair["phase"], f"host {pair['copy']}" if pair["copy"] is not None else "none"
        behind = figures.counted(pair["behind"], "epoch") if pair["behind"] is not None else "-"
        age = f"{figures.duration(pair['age_ms'])} ago" if pair["age_ms"] is not None else "-"
        table.add_row(
            Text.assemble(f"host {pair['primary']} ", (phase, PAIRS.get(phase, ""))),
            copy, behind, age, figures.size(pair["bytes"]) if pair["bytes"] else "-",
        )  # fmt: skip
    if (last := seen["standby"]["last_switch"]) is None:
        return table
    totals = seen["totals"]
    told = SwitchFacts(totals["switches"], totals["roll_backs"], totals["promotions"], last["text"], last["at_ms"])
    return Group(table, _told("switches", str(told)))


def _incidents(seen: dict[str, Any]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    for incident in seen["incidents"]:
        at = time.strftime("%H:%M:%S", time.localtime(incident["began_ms"] / 1000))
        outage = f"no epoch for {figures.duration(incident['outage_ms'])}" if incident["outage_ms"] is not None else ""
        going = "" if incident["ended_ms"] else "goes on"
        table.add_row(
            Text(at, "dim"),
            Text(incident["title"], TONES.get(incident["kind"], "")),
            outage,
            Text(going, "bold yellow"),
        )
    return table
