"""``perseid check``: what new code would make of a root's state; ``release`` and ``back``: the checkpoint that is kept before a change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from perseid.cli.loading import load_app
from perseid.cli.report import reporting
from perseid.cli.roots import existing_root
from perseid.clocks import wall_ms
from perseid.duration import every
from perseid.errors import PerseidError, RootError
from perseid.graph.fingerprint import differences
from perseid.graph.graph import Graph
from perseid.state.codec import encode
from perseid.state.evolution import as_declared
from perseid.state.operator_state import capture
from perseid.state.shard_state import restore_state
from perseid.storage import layout
from perseid.storage.kept_state import go_back, let_go
from perseid.storage.lease import Lease
from perseid.storage.manifest import Checkpoints, Manifest
from perseid.storage.persisted import persisted
from perseid.storage.store import STAGING, Store

REFUSED = 1
"""The exit code where the new code cannot go on with the root's state."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One thing that was found."""

    text: str
    refused: bool


def check(
    file: Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one App at its top level.")],
    root: Annotated[str, typer.Option(help="Checkpoint root that an earlier version of the code wrote.")],
    allow_removed: Annotated[list[str] | None, typer.Option(help="As for [bold]perseid run[/bold].")] = None,
    app: Annotated[str | None, typer.Option(help="Which variable holds the App, if there are several.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Restore and encode every shard of the newest checkpoint with this code, and say what would happen. Nothing is written.

    The exit code is 0 if the application can go on, 1 if it cannot.

    Example: [bold]perseid check words.py --root words-root[/bold]
    """
    with reporting(debug=debug, as_json=as_json):
        found = checked(existing_root(root), load_app(file, app).graph, allow_removed or ())
        refused = any(one.refused for one in found)
        if as_json:
            said = [{"text": one.text, "refused": one.refused} for one in found]
            print(json.dumps({"goes_on": not refused, "found": said}))
        else:
            for one in found:
                Console().print(f"{'✗' if one.refused else '·'} {one.text}", highlight=False, markup=False)
            Console().print("the application cannot go on with this root" if refused else "the application can go on")
    if refused:
        raise typer.Exit(REFUSED)


def checked(store: Store, graph: Graph, allow_removed: Any = ()) -> list[Checked]:
    """What the code of this graph would make of a root."""
    if not store.exists(layout.APP):
        return [Checked("the root is new: it has no graph yet", False)]
    before = json.loads(store.read(layout.APP))
    found = [Checked(d.text, d.refused) for d in differences(before, graph.fingerprint, allow_removed)]
    if any(one.refused for one in found):
        return found
    unreadable: list[str] = []
    newest = next(Checkpoints(store, lambda id, error: unreadable.append(str(error))).newest_first(), None)
    found += [Checked(text, False) for text in unreadable]
    if newest is None:
        return found
    return [*found, *_shards(store, graph, newest, _other_variables(before, graph))]


def _other_variables(before: Mapping[str, Any], graph: Graph) -> set[str]:
    """Operators with other state variables than before, which are prepared: only Spark can read their schemas."""
    then = {name: operator.get("variables") for name, operator in before["operators"].items()}
    changed = [node for node in graph.operators if then.get(node.name) not in (None, node.operator._variables())]
    if changed:
        from perseid.spark.session import spark_session

        spark = spark_session(hosts=0, spares=0, app_name="perseid check")
        for node in changed:
            node.operator.prepare(spark)
    return {node.name for node in changed}


def _shards(store: Store, graph: Graph, newest: Manifest, other_variables: set[str]) -> list[Checked]:
    operators = {node.name: node.operator for node in graph.operators}
    found = []
    for snapshot in newest.shards:
        prototype = operators.get(snapshot.operator)
        if prototype is None:
            continue
        where = f"operator '{snapshot.operator}', shard {snapshot.index}, checkpoint {newest.id}"
        try:
            state = persisted(store, snapshot.file)[1]
            operator = restore_state(prototype, as_declared(state, prototype, snapshot.operator))
            if snapshot.operator in other_variables:
                operator._check_state()
            size = sum(len(buffer) for buffer in encode(capture(operator)))
        except PerseidError as error:
            found.append(Checked(f"{where}: {error}", True))
        else:
            found.append(
                Checked(f"{where}: {snapshot.file.bytes:,} bytes restored, {size:,} bytes with the new code", False)
            )
    return found


def release(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root.")],
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Let the checkpoint go that was kept before the code changed: from now on there is no way back to the old code.

    Example: [bold]perseid release words-root[/bold]
    """
    with reporting(debug=debug):
        kept = let_go(existing_root(root))
        if kept is None:
            raise RootError(f"{root}: no checkpoint is kept for an earlier version of the code")
        Console().print(f"checkpoint {kept.checkpoint} is kept no longer")


def back(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root; the application must not run.")],
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Give the root back to the code of before the change, at the checkpoint that was kept. Checkpoints after it are deleted.

    Epochs since then are worked through once more by the old code; what sinks hold of them stays.

    Example: [bold]perseid back words-root[/bold]
    """
    with reporting(debug=debug):
        store = existing_root(root)
        lease = Lease.acquire(store, owner="perseid back", now_ms=wall_ms, timeout=every(seconds=10))
        try:
            fenced = store.fenced(STAGING, lease.fence)
            kept = go_back(fenced, Checkpoints(fenced, lease=lease))
        finally:
            lease.release()
        if kept is None:
            raise RootError(f"{root}: no checkpoint is kept for an earlier version of the code")
        Console().print(f"the root is at checkpoint {kept.checkpoint} again: start the old code")
