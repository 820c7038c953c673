"""The program of a ``Driver``: one application from a file, run as data says, its progress as JSON lines.

``python -m perseid.testing.driven '{"file": "app.py", "root": "…", …}'``. Beyond ``perseid run`` it can send all output below one folder
(``out``), and end each source at a place (``until``): what a verdict needs that compares two runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perseid.checkpoint import schemes
from perseid.duration import every
from perseid.errors import PerseidError, SettingsError
from perseid.testing.network import prepare
from perseid.vocabulary import Offset

if TYPE_CHECKING:
    from perseid.application import App
    from perseid.sources.source import Source

PICTURE_S = 0.05


@dataclass(frozen=True)
class Spec:
    """What to run, and how."""

    file: str
    root: str
    app: str | None = None
    out: str | None = None  # all sinks write below this folder
    until: dict[str, int] | None = None  # where each source ends
    master: str | None = None
    hosts: int = 2
    spares: int = 1
    checkpoint_seconds: float = 2.0
    scheme: str = "parallel"
    max_rows_per_epoch: int | None = None
    trigger_ms: int | None = None
    available_now: bool = False
    lease_seconds: float = 10.0


def run(spec: Spec) -> None:
    """Run it to its end, or until SIGINT or SIGTERM asks it to stop."""
    from perseid.spark.session import spark_session

    prepare()
    app = application(spec)
    _ = app.graph
    spark = spark_session(spec.master, hosts=spec.hosts, spares=spec.spares, app_name=f"perseid {app.name}")
    settings: dict[str, Any] = {
        "hosts": spec.hosts,
        "spares": spec.spares,
        "checkpoint": getattr(schemes, spec.scheme)(every(seconds=spec.checkpoint_seconds)),
        "available_now": spec.available_now,
        "lease_timeout": every(seconds=spec.lease_seconds),
    }
    if spec.max_rows_per_epoch is not None:
        settings["max_rows_per_epoch"] = spec.max_rows_per_epoch
    if spec.trigger_ms is not None:
        settings["trigger"] = every(milliseconds=spec.trigger_ms)
    try:
        running = app.start(spark, root=spec.root, **settings)
        asked = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):  # after pyspark has put its own, which cancels every job
            signal.signal(number, lambda *_: asked.set())
        stopping = threading.Thread(target=running.stop, args=(None,), daemon=True)
        while not running.wait(PICTURE_S):
            if asked.is_set() and stopping.ident is None:
                stopping.start()
            _say(running.progress().as_dict())
        _say(running.progress().as_dict())
    finally:
        spark.stop()


def application(spec: Spec) -> App:
    """The application of the file, with its output and its end where the spec has them."""
    from perseid.cli.loading import load_app
    from perseid.graph.redirected import redirected
    from perseid.sinks import parquet
    from perseid.sinks.epoch_folders import EpochFolders

    app = load_app(Path(spec.file), spec.app)
    sinks = {}
    for node in app.graph.sinks if spec.out is not None else ():
        path = str(Path(spec.out or "", node.name))
        sinks[node.name] = replace(node.sink, path=path) if isinstance(node.sink, EpochFolders) else parquet(path)
    until = spec.until
    if until is None:
        return redirected(app, sinks)
    return redirected(app, sinks, lambda node: Ending(node.source, Offset(until.get(node.name, 0))))


class Ending:
    """A source that ends where it is told."""

    def __init__(self, source: Source, limit: Offset) -> None:
        self._source, self._limit = source, limit
        self.kind = source.kind
        self.open, self.read, self.rows = source.open, source.read, source.rows
        self.trim, self.close = source.trim, source.close

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        if start >= self._limit:
            return start
        return min(self._limit, self._source.end(start, max_rows, now_ms))

    def finished(self, start: Offset) -> bool:
        return start >= self._limit


def _say(picture: dict[str, Any]) -> None:
    print(json.dumps(picture), flush=True)


def main() -> None:
    try:
        try:
            spec = Spec(**json.loads(sys.argv[1]))
        except (IndexError, ValueError, TypeError) as error:
            raise SettingsError(f"perseid.testing.driven: expected one JSON object: {error}") from error
        run(spec)
    except PerseidError as error:
        _say({"error": type(error).__name__, "message": str(error)})
        sys.stdout.flush()
        os._exit(1)


if __name__ == "__main__":
    main()
