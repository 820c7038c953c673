"""A running application: started from a graph, watched, waited for, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from perseid.engine import events as on
from perseid.engine.progress import Progress
from perseid.errors import ApplicationFailed
from perseid.spark import session
from perseid.spark.jobs import settled_slots
from perseid.spark.settings import Settings, hosts_and_spares
from perseid.spark.shape import topology_of
from perseid.spark.shell import Shell
from perseid.storage.store import Store

if TYPE_CHECKING:
    from perseid.graph.app import App


def start(app: App, spark: SparkSession | None, root: str | None, **given: Any) -> Running:
    """Start an application. Everything that can be checked is checked before anything runs."""
    graph = app.graph
    settings = Settings.of(**given)
    own = spark is None
    topology = settings.checkpoint.preserved(topology_of(graph))
    if spark is None:
        count = settings.hosts or max(1, min(2, len(topology.shards)))
        spares = 1 if settings.spares is None else settings.spares
        spark = session.build(hosts=count, spares=spares, app_name=graph.name)
    wanted = (settings.hosts or 1) + (settings.spares or 0) + 1
    waiting = settings.start_timeout.seconds / 2
    slots = settled_slots(spark, wanted, exactly=settings.hosts is not None, timeout_s=waiting)
    hosts, spares = hosts_and_spares(settings, len(topology.shards), slots)
    store = Store.at(root if root is not None else f".perseid/{graph.name}")
    shell = Shell(graph.name, spark, store, settings, topology, graph, hosts, spares)
    running = Running(shell, spark if own else None)
    shell.begin()
    return running


class Running:
    """A running application."""

    def __init__(self, shell: Shell, own: SparkSession | None) -> None:
        self._shell, self._own = shell, own

    def progress(self) -> Progress:
        """What it does right now."""
        return self._shell.progress()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end. True when it has ended; raises ``ApplicationFailed`` if it failed."""
        if not self._shell.ended.wait(timeout_s):
            return False
        if self._own is not None:
            self._own.stop()
            self._own = None
        if self._shell.error is not None:
            raise ApplicationFailed(self._shell.error)
        return True

    def stop(self, timeout_s: float | None = 60.0) -> None:
        """Finish what has been admitted, take a last checkpoint, end. The next start goes on from there."""
        self._shell.post(on.StopRequested())
        self.wait(timeout_s)

    @property
    def root(self) -> str:
        """The checkpoint root."""
        return self._shell.store.root
