"""``perseid export`` and ``perseid import``: the state of an operator, out of a root and into a new one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from perseid.cli.figures import count, counted, size
from perseid.cli.loading import load_app
from perseid.cli.report import reporting
from perseid.cli.roots import existing_root
from perseid.errors import SettingsError


def export(
    root: Annotated[str, typer.Argument(metavar="ROOT", help="Checkpoint root: a folder or URI.")],
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="A stateful operator.")],
    to: Annotated[tuple[str, Path], typer.Option(metavar="parquet FOLDER", help="The format, and a new folder.")],
    checkpoint: Annotated[int | None, typer.Option(help="Its id. Default: the newest.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Write this field as JSON text, whatever it is declared as.")
    ] = None,
    without: Annotated[list[str] | None, typer.Option(help="Leave this field out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Write an operator's state, as a checkpoint has it, to Parquet files: one for each shard and table.

    Needs no Spark and changes nothing in the root, also while the application runs. Reads the root's key.json.

    Example: [bold]perseid export words-root count --to parquet words-state/[/bold]
    """
    from perseid.transfer.export_state import export_state
    from perseid.transfer.read_state import SavedOperator

    with reporting(debug=debug, as_json=as_json):
        kind, folder = to
        _require_format(kind, ("parquet",), "--to")
        done = export_state(
            SavedOperator.of(existing_root(root), operator, checkpoint), folder, text=text or (), without=without or ()
        )
        if as_json:
            print(json.dumps(asdict(done)))
            return
        rows = ", ".join(f"{table} {count(n)}" for table, n in done.rows.items())
        shards = counted(done.shards, "shard")
        Console().print(
            f"operator '{operator}', checkpoint {done.checkpoint} at epoch {done.epoch}: {shards}, rows: {rows}",
            highlight=False,
            markup=False,
        )


def import_(
    file: Annotated[Path, typer.Argument(metavar="APP.py", help="A Python file with one App at its top level.")],
    operator: Annotated[str, typer.Argument(metavar="OPERATOR", help="A stateful operator of the App.")],
    source: Annotated[
        tuple[str, str],
        typer.Option(
            "--from",
            metavar="parquet FOLDER | spark CHECKPOINT",
            help="What [bold]perseid export[/bold] wrote, or the checkpoint of a Spark query with transformWithState.",
        ),
    ],
    root: Annotated[str, typer.Option(help="A new checkpoint root, or one with nothing but imported state.")],
    app: Annotated[str | None, typer.Option(help="Which variable holds the App, if there are several.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Begin a new root with an operator's state from elsewhere. Run it once for each operator, before the first start.

    Sources of the new root begin at their beginning: give them only what the imported state has not seen.

    Example: [bold]perseid import words.py count --from parquet words-state/ --root new-root[/bold]
    """
    from perseid.transfer.begin_root import begin_root, stateful_node
    from perseid.transfer.import_state import exported_beginning

    with reporting(debug=debug, as_json=as_json):
        kind, where = source
        _require_format(kind, ("parquet", "spark"), "--from")
        graph = load_app(file, app).graph
        node = stateful_node(graph, operator)
        if kind == "spark":
            from perseid.spark.session import spark_session
            from perseid.transfer.spark_checkpoint import spark_beginning

            beginning = spark_beginning(spark_session(hosts=0, spares=0, app_name="perseid import"), where, graph, node)
        else:
            beginning = exported_beginning(Path(where), node)
        done = begin_root(root, graph, beginning)
        if as_json:
            print(json.dumps(asdict(done)))
            return
        shards = counted(done.shards, "shard")
        Console().print(
            f"operator '{operator}' begins with {shards}, {size(done.bytes)}: {root} is ready for the first start",
            highlight=False,
            markup=False,
        )


def _require_format(kind: str, known: tuple[str, ...], option: str) -> None:
    if kind not in known:
        raise SettingsError(f"{option} {kind}: expected {' or '.join(known)}")
