"""An application as users write it: a graph of streams, and the methods that run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from perseid.checkpoint.schemes import Scheme, adaptive
from perseid.duration import Duration, every
from perseid.errors import ScaleFailed
from perseid.graph.builder import GraphBuilder
from perseid.scaling.bottleneck import AutoScaling
from perseid.unknown_settings import refuses_unknown_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.driver.running import Running
    from perseid.driver.scale_requests import Scaled


class App(GraphBuilder):
    """A streaming application.

        app = App("words")
        lines = app.source("lines", perseid.sources.files("in/", schema="line string"))
        words = lines.transform("split", split)
        counts = words.stateful("count", WordCount(), key="word", output="word string, n long")
        counts.sink("out", perseid.sinks.parquet("out/"))
        app.run(spark, root="root/")

    Mistakes do not show while it is built: ``graph`` (and so ``run``) names all of them at once.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._running: Running | None = None

    @refuses_unknown_settings
    def run(
        self,
        spark: SparkSession | None = None,
        *,
        root: str | None = None,
        checkpoint: Scheme = adaptive(),
        keep: int = 3,
        hosts: int | None = None,
        spares: int | None = None,
        trigger: Duration | None = None,
        max_rows_per_epoch: int | None = 1_000_000,
        available_now: bool = False,
        close_windows_at_end: bool | None = None,
        align: Duration | None = None,
        queue: int = 2,
        operator_retries: int = 2,
        dead_letters: bool = False,
        scaling: AutoScaling | None = None,
        keep_input: bool = True,
        allow_removed: Sequence[str] = (),
        parallel_recovery: int = 1,
        heartbeat: Duration = every(milliseconds=100),
        start_timeout: Duration = every(seconds=60),
        lease_timeout: Duration = every(seconds=10),
        journal_size: str | int = "64 MB",
        journal_age: Duration = every(hours=168),
        dashboard: bool = False,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """Run until every source is finished, or for good. ``start`` says what the settings mean.

            app.run(spark, root="root/", hosts=2, checkpoint=perseid.checkpoints.adaptive(every(seconds=30)))

        Raises ``ApplicationFailed`` if it cannot go on, and ``CheckpointFailed`` if all output is committed but the last checkpoint
        could not be written. Raises ``GraphError`` or ``SettingsError``, before anything starts, for an application or a setting
        that cannot work.
        """
        from perseid.driver.notebook import STOPPED, STOPPING

        running = self.start(
            spark, root=root,
            checkpoint=checkpoint, keep=keep, hosts=hosts, spares=spares, trigger=trigger,
            max_rows_per_epoch=max_rows_per_epoch, available_now=available_now,
            close_windows_at_end=close_windows_at_end, align=align, queue=queue,
            operator_retries=operator_retries, dead_letters=dead_letters, scaling=scaling,
            keep_input=keep_input, allow_removed=allow_removed, parallel_recovery=parallel_recovery, heartbeat=heartbeat,
            start_timeout=start_timeout, lease_timeout=lease_timeout, journal_size=journal_size,
            journal_age=journal_age, dashboard=dashboard, on_progress=on_progress, clock=clock,
        )  # fmt: skip
        try:
            running.wait()
        except KeyboardInterrupt as interrupt:  # in a notebook the session lives on: its task slots must be free again
            print(STOPPING, flush=True)
            running.stop()
            interrupt.__notes__ = [STOPPED]  # it does not go on
            raise

    @refuses_unknown_settings
    def start(
        self,
        spark: SparkSession | None = None,
        *,
        root: str | None = None,
        checkpoint: Scheme = adaptive(),
        keep: int = 3,
        hosts: int | None = None,
        spares: int | None = None,
        trigger: Duration | None = None,
        max_rows_per_epoch: int | None = 1_000_000,
        available_now: bool = False,
        close_windows_at_end: bool | None = None,
        align: Duration | None = None,
        queue: int = 2,
        operator_retries: int = 2,
        dead_letters: bool = False,
        scaling: AutoScaling | None = None,
        keep_input: bool = True,
        allow_removed: Sequence[str] = (),
        parallel_recovery: int = 1,
        heartbeat: Duration = every(milliseconds=100),
        start_timeout: Duration = every(seconds=60),
        lease_timeout: Duration = every(seconds=10),
        journal_size: str | int = "64 MB",
        journal_age: Duration = every(hours=168),
        dashboard: bool = False,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Running:
        """Start the application and return at once. The result shows progress, waits, scales and stops.

            running = app.start(spark, root="root/", hosts=2)
            print(running.progress().epoch)
            running.stop()

        ``spark``               the session to run in; without one a local session is made
        ``root``                the checkpoint root: a path or URI that the driver and all executors reach. Started
                                again on the same root, the application goes on where it was. Default ``.perseid/<name>``
        ``checkpoint``          the checkpoint scheme, one of ``perseid.checkpoints``; default ``adaptive(every(seconds=10))``
        ``keep``                how many checkpoints are kept; default 3
        ``hosts``               how many hosts hold the shards; default as many as shards and task slots allow
        ``spares``              how many further hosts wait to take over from a lost one; default 1, if there is a slot for it
        ``trigger``             the shortest time from one epoch to the next (a ``Duration``); None: as fast as it goes
        ``max_rows_per_epoch``  how many rows of each source one epoch takes at most; None: no limit
        ``available_now``       True: process what the sources have now, then stop
        ``close_windows_at_end``  True: at the end of the input the watermark goes to the end of time, so that the last windows
                                close; rows that come in a later run are late then. False: never. Default: where every source is
                                finished for good (``table``, ``generator`` with ``rows``), not where more may come
        ``align``               how far one source may run ahead of another in event time (a ``Duration``), where operators tell
                                their event times; None: no limit
        ``queue``               how many epochs may wait between two units; default 2
        ``operator_retries``    how often an epoch that made an operator raise is tried again; default 2
        ``dead_letters``        True: then put the rows that raise aside under the root and go on; False: stop the application
        ``scaling``             ``perseid.scaling.auto(…)``: operators are scaled by themselves; None: only when asked (``scale``)
        ``keep_input``          True: hosts write the rows they apply to their machine's disk, so that a killed host is back sooner
        ``allow_removed``       operators, sinks and sources that may be gone, or new, compared with the graph that wrote the root
        ``parallel_recovery``   how many shards, on as many hosts, take over from each that was lost; default 1
        ``heartbeat``           how often hosts are pinged; default ``every(milliseconds=100)``
        ``start_timeout``       how long hosts may take to come up; default ``every(seconds=60)``
        ``lease_timeout``       after how long a silent driver's root may be taken over; default ``every(seconds=10)``
        ``journal_size``        how much of the journal is kept under the root; default ``"64 MB"``
        ``journal_age``         and for how long; default ``every(hours=168)``, seven days
        ``dashboard``           True: show it in the browser, by a process of its own; prints its address (``Running.dashboard``)
        ``on_progress``         called after every epoch with its progress, named as in Spark's ``StreamingQueryProgress``
        ``clock``               for tests: gives the time of epochs in milliseconds, such as ``perseid.testing.Clock()``
        """
        from perseid.driver import running  # the graph needs no Spark; running it does
        from perseid.driver.settings import Settings

        graph = self.graph  # its mistakes come first
        settings = Settings(
            checkpoint=checkpoint, keep=keep, hosts=hosts, spares=spares, trigger=trigger,
            max_rows_per_epoch=max_rows_per_epoch, available_now=available_now,
            close_windows_at_end=close_windows_at_end, align=align, queue=queue,
            operator_retries=operator_retries, dead_letters=dead_letters, scaling=scaling,
            keep_input=keep_input, allow_removed=allow_removed, parallel_recovery=parallel_recovery, heartbeat=heartbeat,
            start_timeout=start_timeout, lease_timeout=lease_timeout, journal_size=journal_size,
            journal_age=journal_age, dashboard=dashboard, on_progress=on_progress, clock=clock,
        )  # fmt: skip
        self._running = running.start(graph, spark, root, settings.checked())
        return self._running

    def scale(self, operator: str, shards: int, *, timeout_s: float | None = 120.0) -> Scaled:
        """Divide an operator's keys among so many shards while the application runs; see ``Running.scale``."""
        if self._running is None:
            raise ScaleFailed(
                f"operator {operator!r}: the application does not run; write shards={shards} in stateful()"
            )
        return self._running.scale(operator, shards, timeout_s=timeout_s)
