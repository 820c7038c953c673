"""A running application: started from a graph, watched, waited for, stopped."""

from __future__ import annotations

import threading
import warnings

from pyspark.sql import SparkSession

from perseid.checkpoint.unit_schemes import unit_schemes
from perseid.driver.notebook import INTERRUPTED, progress_line, progress_table, watch
from perseid.driver.room import own_room, room_of, wanted_slots
from perseid.driver.scale_requests import Scaled
from perseid.driver.settings import Settings
from perseid.driver.shell import Shell
from perseid.driver.state_requests import TakenCheckpoint
from perseid.engine import events as on
from perseid.engine.progress import EpochStatus, Progress
from perseid.errors import (
    ApplicationFailed,
    CheckpointFailed,
    PerseidError,
    PerseidWarning,
    RequestFailed,
    ScaleFailed,
    headline,
)
from perseid.graph.graph import Graph
from perseid.metrics.dashboard_process import DashboardProcess
from perseid.spark.jobs import settled_slots
from perseid.spark.modules import ship_modules
from perseid.spark.session import spark_session
from perseid.spark.shape import topology_of
from perseid.spark.task_slots import await_slot
from perseid.standby.modes import Mode, Standby, standby_mode
from perseid.standby.of_graph import standby_of
from perseid.state.moved import moved_classes
from perseid.storage.root_key import own_key
from perseid.storage.snapshots import SnapshotFile
from perseid.storage.store import Store
from perseid.vocabulary import SourceName

SPARK_STOP_S = 30.0
READ_POLL_S = 0.01
BEFORE_ALL_MS = -(1 << 62)


def start(graph: Graph, spark: SparkSession | None, root: str | None, settings: Settings) -> Running:
    """Start an application, whose graph and settings were checked. What the cluster must have for it is checked here."""
    own = spark is None
    own_schemes = unit_schemes(graph, settings.checkpoint)
    standby_of(graph)  # raises for what cannot be
    topology = settings.checkpoint.preserved(topology_of(graph))
    shards = sum(topology.operators.values())
    if spark is None:
        wanted = own_room(settings, shards)
        spark = spark_session(hosts=wanted.hosts, spares=wanted.spares, app_name=graph.name)
    waiting = settings.start_timeout.seconds / 2
    slots = settled_slots(spark, wanted_slots(settings), exactly=settings.hosts is not None, timeout_s=waiting)
    room = room_of(settings, shards, slots, own=own)
    ship_modules(spark, graph)
    for node in graph.operators:
        node.operator._moved = moved_classes()
        node.operator.prepare(spark)
    store = Store.at(root if root is not None else f".perseid/{graph.name}")
    await_slot(spark, graph.name, settings.start_timeout.seconds)  # what reads the schemas needs one
    own_key(store)  # hosts get it with the store
    shell = Shell(graph.name, spark, store, settings, own_schemes, topology, graph, room)
    running = Running(shell, spark if own else None)
    shell.begin()
    if settings.dashboard:
        running.show()
    return running


class Running:
    """A running application, from ``App.start``: shows progress, waits, scales, checkpoints and stops.

    running = app.start(spark, root="root/")
    print(running.progress().rows_per_s)
    running.scale("count", shards=4)
    running.stop()
    """

    def __init__(self, shell: Shell, own: SparkSession | None) -> None:
        self._shell, self._own = shell, own
        self._dashboard: DashboardProcess | None = None

    def progress(self) -> Progress:
        """What the application does right now."""
        return self._shell.progress()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end. True when it has ended; raises ``ApplicationFailed`` if it failed.

        Raises ``CheckpointFailed`` if it has ended well but for its last checkpoint: all output is there, the newest state is not saved.
        """
        try:
            if not self._shell.ended.wait(timeout_s):
                return False
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(INTERRUPTED)
            raise
        if self._own is not None:
            own, self._own = self._own, None
            stopping = threading.Thread(target=own.stop, name="perseid-spark-stop", daemon=True)
            stopping.start()
            stopping.join(SPARK_STOP_S)  # a Spark that is stuck does not stop
        if self._shell.error is not None:
            raise ApplicationFailed(self._shell.error)
        if self._shell.unsaved is not None:
            raise CheckpointFailed(self._unsaved(self._shell.unsaved))
        return True

    def _unsaved(self, why: str) -> str:
        last = self.progress().last_checkpoint
        again = (
            f"the epochs after checkpoint {last.id}, at epoch {last.epoch},"
            if last
            else "everything from the first epoch"
        )
        return (
            f"every epoch up to {self.progress().epoch} is committed, but the last checkpoint failed:"
            f" {headline(why)}\n  The next start on {self.root} works through {again} once more; no output is lost or doubled."
        )

    def watch(self, every_s: float = 1.0) -> None:
        """Show what it does until it ends: in a notebook a table that redraws, elsewhere a line from time to time.

        When the cell is interrupted the application goes on. Raises what ``wait`` raises.
        """
        watch(self, self.root, every_s)

    def __repr__(self) -> str:
        return f"Running({progress_line(self.progress())})"

    def _repr_html_(self) -> str:
        return progress_table(self.progress(), self.root)

    def wait_until_read(self, source: str, offset: int) -> None:
        """Wait until every unit has committed what a source gives before this offset, and no timer is due by event time.

        Raises ``ApplicationFailed`` if it ends before that.
        """
        shell, epoch = self._shell, None
        while not shell.ended.wait(READ_POLL_S):
            if epoch is None and shell.ledger.offset(SourceName(source)) >= offset:
                epoch = shell.ledger.last_admitted
            if epoch is not None and all(shell.ledger.committed(unit.name) >= epoch for unit in shell.topology.units):
                if not shell.reports.timer_due(BEFORE_ALL_MS, shell.event_times.next_watermarks_ms()):
                    return
                epoch = None
        if shell.error is not None:
            raise ApplicationFailed(shell.error)

    def recent_epochs(self) -> tuple[EpochStatus, ...]:
        """The last epochs that were committed, the newest last; at most 100."""
        return self._shell.journal_writer.recent_epochs()

    def stop(self, timeout_s: float | None = 60.0) -> None:
        """Finish what has been admitted, take a last checkpoint, end. The next start goes on from there.

        Where that is not done within ``timeout_s`` it ends all the same, some seconds later, with its hosts given back; then
        ``ApplicationFailed`` says what it was waiting for. Nothing is lost: the next start does what was left.
        """
        shell = self._shell
        shell.post(on.StopRequested())
        try:
            ended = shell.ended.wait(timeout_s)
        except BaseException:  # Ctrl-C once more
            shell.abandon("it was interrupted while it stopped")
            raise
        if not ended:
            seen = self.progress()
            waits = seen.trouble or f"it was {seen.phase} at epoch {seen.epoch}"
            shell.abandon(f"it did not stop within {timeout_s:g} s and was ended: {waits}; start it again to go on")
        self.wait()

    def scale(self, operator: str, shards: int, *, timeout_s: float | None = 120.0) -> Scaled:
        """Divide a stateful operator's keys among so many shards while the stream runs; only the change itself pauses its input.

        Returns when it is done. Raises ``ScaleFailed`` if it cannot be done, or was not within ``timeout_s``: then it may still be
        on its way, and ``progress`` will show it.
        """
        if self._shell.ended.is_set():
            raise ScaleFailed(f"operator {operator!r}: the application has ended; start it again with shards={shards}")
        try:
            return self._shell.scale_requests.ask(operator, shards).result(timeout_s)
        except TimeoutError as error:
            raise ScaleFailed(
                f"operator {operator!r}: not scaled within {timeout_s:g} s; it is still being tried"
            ) from error

    def checkpoint_state(self, *, timeout_s: float | None = 120.0) -> TakenCheckpoint:
        """Make durable all that has been processed by now; the stream goes on meanwhile. Returns when it is.

        The checkpoint is like any other: recovery may go back to it, and newer ones let it go. Raises ``RequestFailed`` if there is
        none within ``timeout_s``.
        """
        self._require_alive("checkpoint")
        return self._shell.state_requests.checkpoint(timeout_s)

    def persist(self, operator: str, root: str, *, timeout_s: float | None = 120.0) -> list[SnapshotFile]:
        """Write an operator's state, as of now, to another place, where it stays: one file for each shard, read by
        ``perseid.primitives.persisted``."""
        return self.checkpoint_state(timeout_s=timeout_s).persist(operator, root)

    def standby(self, operator: str, mode: Standby | Mode, *, timeout_s: float | None = 120.0) -> None:
        """Give an operator another standby; returns when it holds.

            running.standby("count", "hybrid")

        One without state needs none: you are warned that it does nothing. Raises ``RequestFailed`` for an unknown operator, if there is
        no host for the copy, or if it does not hold within ``timeout_s``.
        """
        self._require_alive("standby")
        nothing = self._shell.state_requests.standby(operator, standby_mode(mode), timeout_s)
        if nothing:
            warnings.warn(nothing, PerseidWarning, stacklevel=2)

    def restore_state(self, operator: str, *, timeout_s: float | None = 120.0) -> None:
        """Make an operator's shards anew from the newest checkpoint and what came since, as after a loss; returns when they are.

        For state in memory that is not trusted any more, and for trying out what a recovery takes. Raises ``RequestFailed``
        for an unknown operator, or if it is not done within ``timeout_s``.
        """
        self._require_alive("restore")
        self._shell.state_requests.restore(operator, timeout_s)

    def _require_alive(self, what: str) -> None:
        if self._shell.ended.is_set():
            raise RequestFailed(f"{what}: the application has ended")

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        return self._shell.ended.is_set()

    @property
    def error(self) -> str | None:
        """Why it failed; None if it did not, or still runs."""
        return self._shell.error

    @property
    def dashboard(self) -> str | None:
        """The address of its dashboard, if it was started with one."""
        return self._dashboard.url if self._dashboard is not None else None

    def show(self) -> None:
        """Start its dashboard and print the address. It lives as long as this program, also after the application's end."""
        try:
            self._dashboard = DashboardProcess(self.root)
            print(f"dashboard of {self.progress().app}: {self.dashboard}", flush=True)
        except (PerseidError, OSError) as error:  # the application is worth more than its picture
            warnings.warn(str(error), PerseidWarning, stacklevel=3)

    @property
    def root(self) -> str:
        """The checkpoint root."""
        return self._shell.store.root
