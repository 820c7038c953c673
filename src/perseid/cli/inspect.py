"""``perseid inspect``: what a checkpoint root holds, without Spark, also while the application runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.pretty import pretty_repr
from rich.table import Table
from rich.text import Text

from perseid.cli import placement
from perseid.cli.figures import count, counted, duration, size
from perseid.cli.key_state import KeyState, look_up
from perseid.cli.report import reporting
from perseid.cli.root_facts import CheckpointFacts, RootFacts, gather, manifests
from perseid.cli.roots import existing_root
from perseid.cli.top import PAIRS
from perseid.clocks import wall_ms
from perseid.errors import CorruptData, RootError
from perseid.state.codec import decode
from perseid.storage.manifest import Manifest
from perseid.storage.snapshots import read_snapshot
from perseid.storage.store import Store


def inspect(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root: a folder or URI.")],
    key: Annotated[str | None, typer.Option(help="Show the state of this key in the newest good checkpoint.")] = None,
    operator: Annotated[str | None, typer.Option(help="Look for the key in this operator only.")] = None,
    verify: Annotated[bool, typer.Option(help="Read every snapshot and check its hash.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Show what is in a checkpoint root: epochs, checkpoints, sizes, the state of a key.

    Needs no Spark, and changes nothing. Snapshots are pickles: look for keys only in roots you trust. Reads the root's key.json.

    Example: [bold]perseid inspect words-root --key the --operator count[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        store = existing_root(root)
        if key is not None:
            _show_key(store, key, operator, as_json)
            return
        if operator is not None:
            raise RootError("--operator needs --key: which key of the operator?")
        facts = gather(store, verify=verify)
        if as_json:
            print(json.dumps(facts.as_dict()))
        else:
            _show(facts, Console(highlight=False), wall_ms())


def _show(facts: RootFacts, console: Console, now_ms: int) -> None:
    about = Table.grid(padding=(0, 2))
    about.add_column(style="dim", min_width=11)
    about.add_column()
    about.add_row("application", Text(facts.app or "unknown", "bold"))
    about.add_row("root", facts.root)
    if (lease := facts.lease) is not None:
        about.add_row("generation", str(lease.generation))
        ago = duration(max(0, now_ms - lease.renewed_ms))
        told = {
            "held": f"held by {lease.owner} (pid {lease.pid} on {lease.machine}), renewed {ago} ago",
            "released": f"released: {lease.owner} stopped cleanly {ago} ago",
            "dead": f"its process (pid {lease.pid}) is dead, last renewed {ago} ago; the next start takes over",
        }[lease.status]
        about.add_row("lease", told)
    committed = ", ".join(f"{unit} to {epoch}" for unit, epoch in facts.committed.items())
    trimmed = f", trimmed to {facts.trimmed_to}" if facts.trimmed_to else ""
    about.add_row("epochs", f"admitted to {count(facts.admitted)}, committed: {committed or 'none'}{trimmed}")
    about.add_row("sizes", ", ".join(f"{name} {size(total)}" for name, total in facts.bytes.items()) or "nothing yet")
    if facts.shards:
        about.add_row("shards", ", ".join(f"{operator} {number}" for operator, number in facts.shards.items()))
    for hot in facts.hot_keys:
        about.add_row("hot key", Text(hot, "yellow"))
    for letters in facts.dead_letters:
        timers = f" and {counted(letters.timers, 'timer')}" if letters.timers else ""
        told = f"{letters.operator}: {counted(letters.rows, 'row')}{timers} of {counted(letters.epochs, 'epoch')};"
        about.add_row("dead letters", Text(f"{told} epoch {letters.last_epoch}: {letters.error}", "yellow"))
    if facts.checkpoint_error:
        failed = f"{counted(facts.failed_checkpoints, 'checkpoint')} failed since the newest good one; "
        about.add_row("not saved", Text(failed + facts.checkpoint_error, "bold red"))
    console.print(about)
    for problem in facts.problems:
        console.print(Text(f"problem      {problem}", "bold red"))
    console.print()
    if facts.hosts:
        _show_hosts(facts, console, now_ms)
    if not facts.checkpoints:
        console.print(Text("no checkpoints yet", "dim"))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("checkpoint", "age", "scheme", "epoch", "shards", "in flight", "size"):
        table.add_column(column, justify="left" if column == "scheme" else "right")
    table.add_column("", overflow="fold")
    for checkpoint in facts.checkpoints:
        table.add_row(*_cells(checkpoint, now_ms))
    console.print(table)


def _show_hosts(facts: RootFacts, console: Console, now_ms: int) -> None:
    """Hosts with their shards and copies; of standby nothing where there is none."""
    guarded = any(host.standby for host in facts.hosts)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    columns = ("host", "shards", "copy on", "standby", "behind", "refreshed", "switches")
    for column in columns if guarded else columns[:2]:
        table.add_column(column, justify="right" if column in ("host", "switches") else "left")
    for host in facts.hosts:
        cells = [str(host.id), placement.contents(host)]
        table.add_row(*cells, *(_standby_cells(host, now_ms) if guarded else ()))
    if facts.lease is None or facts.lease.status != "held":
        console.print(Text("hosts, as they were when the application ended:", "dim"))
    console.print(table)
    if facts.switches is not None:
        console.print(Text.assemble(("switches     ", "dim"), str(facts.switches)))
    console.print()


def _standby_cells(host: placement.HostFacts, now_ms: int) -> tuple[str | Text, ...]:
    if not host.standby:
        return ("",) * 5
    told = f"host {host.answering} answers" if host.standby == "switched" else host.standby
    why = f": {host.reason}" if host.reason else ""
    return (
        "none" if host.copy is None else f"host {host.copy}",
        Text(told + why, PAIRS.get(host.standby, "")),
        "" if host.behind is None else counted(host.behind, "epoch"),
        "" if host.refreshed_ms is None else f"{duration(max(0, now_ms - host.refreshed_ms))} ago",
        count(host.switches),
    )


def _cells(checkpoint: CheckpointFacts, now_ms: int) -> tuple[str | Text, ...]:
    if not checkpoint.scheme:
        return (str(checkpoint.id), "", "", "", "", "", "", Text(f"✗ {checkpoint.problem}", "red"))
    verdict = Text(f"✗ {checkpoint.problem}", "bold red") if checkpoint.problem else Text("✓ good", "green")
    return (
        str(checkpoint.id),
        duration(max(0, now_ms - checkpoint.created_ms)),
        checkpoint.scheme,
        _epochs(checkpoint.units),
        str(checkpoint.shards),
        str(checkpoint.inflight),
        size(checkpoint.bytes),
        verdict,
    )


def _epochs(units: dict[str, int]) -> str:
    if len(set(units.values())) == 1:
        return str(next(iter(units.values())))
    return " ".join(f"{unit}:{epoch}" for unit, epoch in units.items())


def _show_key(store: Store, key: str, operator: str | None, as_json: bool) -> None:
    manifest, states = _newest_readable(store, key, operator)
    found = [state for state in states if state]
    if not found:
        where = f"operator {operator}" if operator else f"any of {counted(len(states), 'shard')}"
        raise RootError(f"{store.root}: checkpoint {manifest.id} has no key {key!r} in {where}")
    if as_json:
        print(json.dumps({"checkpoint": manifest.id, "key": key, "found": [asdict(s) for s in found]}, default=_plain))
        return
    console = Console(highlight=True)
    console.print(Text.assemble(("key ", "dim"), (key, "bold"), (f" in checkpoint {manifest.id}", "dim")))
    for state in found:
        console.print(Text(f"{state.operator}/{state.shard} at epoch {state.epoch}", "cyan"))
        for name, value in state.values.items():
            shown = pretty_repr(value, max_width=console.width - 4, max_length=20, max_string=200)
            console.print(f"  {name} = " + shown.replace("\n", "\n  "), markup=False, soft_wrap=True)
        for timer in state.timers:
            console.print(f"  {timer}", highlight=False)


def _newest_readable(store: Store, key: str, operator: str | None) -> tuple[Manifest, list[KeyState]]:
    """The newest checkpoint whose snapshots are intact, and what each of its shards knows of the key."""
    for _, manifest in manifests(store):
        if isinstance(manifest, str):
            continue
        operators = {str(shard.operator) for shard in manifest.shards}
        if operator is not None and operator not in operators:
            raise RootError(f"{store.root}: no operator {operator!r}; there is: {', '.join(sorted(operators)) or '-'}")
        try:
            return manifest, list(_states(store, manifest, key, operator))
        except CorruptData:
            continue
    raise RootError(f"{store.root}: there is no good checkpoint to look into")


def _states(store: Store, manifest: Manifest, key: str, operator: str | None) -> Iterator[KeyState]:
    for shard in manifest.shards:
        if operator in (None, shard.operator):
            _, buffers, _ = read_snapshot(store, shard.file, local=None)
            captured = decode(buffers)
            yield look_up(captured, key, operator=str(shard.operator), shard=shard.index, epoch=shard.epoch)


def _plain(value: Any) -> Any:
    """A value of the user's, as JSON can have it."""
    for method in ("tolist", "to_pylist", "isoformat"):
        if hasattr(value, method):
            return getattr(value, method)()
    return repr(value)
