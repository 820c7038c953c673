"""An application: a name and a graph of streams, built by method calls that run nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perseid.errors import ScaleFailed
from perseid.graph.graph import Graph
from perseid.graph.nodes import Declared, Node, SourceNode, StatefulNode
from perseid.graph.stream import Stream, describe
from perseid.graph.validation import validated
from perseid.operators.event_time import EventTime
from perseid.vocabulary import Preservation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from perseid.driver.running import Running
    from perseid.driver.scale_requests import Scaled
    from perseid.operators.operator import Operator
    from perseid.sources.source import Source

MAIN = "main"
"""The unit of sources that name none."""


class App:
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
        self.name = name
        self._declared: list[Declared] = []
        self._preservations: list[tuple[Stream, Preservation]] = []
        self._graph: Graph | None = None
        self._running: Running | None = None

    def source(self, name: str, source: Source, *, unit: str = MAIN) -> Stream:
        """Read rows from a source."""
        return self._add(SourceNode(name, unit, source), ())

    def stateful(
        self,
        name: str,
        operator: Operator,
        inputs: Mapping[str, Stream],
        *,
        key: str | Sequence[str] | Mapping[str, str | Sequence[str]],
        output: str,
        shards: int = 1,
        event_time: EventTime | None = None,
        combine: Mapping[str, str] | None = None,
        unit: str | None = None,
    ) -> Stream:
        """Apply a stateful operator to several inputs; ``process`` gets them as keyword arguments.

            app.stateful("join", Join(), inputs={"left": a, "right": b}, key={"left": "id", "right": "order"}, output=…)

        ``key`` is the same for all inputs, or given per input. ``event_time`` applies to the inputs that have its
        column. The rest is as for ``Stream.stateful``.
        """
        return self._stateful(
            name,
            operator,
            inputs,
            key=key,
            output=output,
            shards=shards,
            event_time=event_time,
            combine=combine,
            unit=unit,
        )

    @property
    def graph(self) -> Graph:
        """The graph, validated: raises ``GraphError`` with every mistake."""
        if self._graph is None:
            self._graph = validated(self, self._declared, self._preservations)
        return self._graph

    def run(self, spark: SparkSession | None = None, *, root: str | None = None, **settings: Any) -> None:
        """Run until every source is finished, or for good; the settings are those of ``start``.

        Raises ``ApplicationFailed`` if it cannot go on, and ``CheckpointFailed`` if all output is committed but the last checkpoint
        could not be written.
        """
        running = self.start(spark, root=root, **settings)
        try:
            running.wait()
        except KeyboardInterrupt:  # in a notebook the session lives on: its task slots must be free again
            running.stop()
            raise

    def start(self, spark: SparkSession | None = None, *, root: str | None = None, **settings: Any) -> Running:
        """Start the application and return at once; the result shows progress, waits and stops.

        ``spark``               the session to run in; without one a local session is made
        ``root``                the checkpoint root: a path or URI that the driver and all executors reach. Started
                                again on the same root, the application goes on where it was. Default ``.perseid/<name>``
        ``checkpoint``          the scheme: ``perseid.adaptive(every(seconds=10))`` (default), ``perseid.parallel(…)``,
                                ``perseid.source(…)``; to compare with: ``perseid.baseline(…)``, ``perseid.oracle(…)``,
                                ``perseid.upstream_backup()``, ``perseid.source_replay()``
        ``hosts``               how many hosts hold the shards
        ``spares``              how many further hosts wait to take over from a lost one
        ``trigger``             the shortest time from one epoch to the next (a ``Duration``); None: as fast as it goes
        ``max_rows_per_epoch``  how much of each source one epoch takes at most; default 1,000,000
        ``available_now``       True: process what the sources have now, then stop
        ``close_windows_at_end``  True: at the end of the input the watermark goes to the end of time, so that the last windows
                                close; rows that come in a later run are late then. False: never. Default: where every source is
                                finished for good (``table``, ``generator`` with ``rows``), not where more may come
        ``align``               how far one source may run ahead of another in event time (a ``Duration``), where operators tell
                                their event times; None: as far as it comes
        ``heartbeat``           how often hosts are pinged; default ``every(milliseconds=100)``
        ``queue``               how many epochs may wait between two units; default 2
        ``keep``                how many checkpoints are kept; default 3
        ``operator_retries``    how often an epoch that made an operator raise is tried again; default 2
        ``dead_letters``        True: then put the rows that raise aside under the root and go on; False: stop the application
        ``scaling``             ``perseid.auto(…)``: operators are scaled by themselves; None: only when asked (``scale``)
        ``parallel_recovery``   how many shards, on as many hosts, take over from each that was lost; default 1
        ``start_timeout``       how long hosts may take to come up; default ``every(seconds=60)``
        ``lease_timeout``       after how long a silent driver's root may be taken over; default ``every(seconds=10)``
        ``journal_size``        how much of the journal is kept under the root; default ``"64 MB"``
        ``journal_age``         and for how long; default ``every(hours=168)``, seven days
        ``clock``               for tests: gives the time of epochs in milliseconds, such as ``perseid.testing.Clock()``
        """
        from perseid.driver import running  # the graph needs no Spark; running it does

        self._running = running.start(self, spark, root, **settings)
        return self._running

    def scale(self, operator: str, shards: int, *, timeout_s: float | None = 120.0) -> Scaled:
        """Divide an operator's keys among so many shards while the application runs; see ``Running.scale``."""
        if self._running is None:
            raise ScaleFailed(
                f"operator {operator!r}: the application does not run; write shards={shards} in stateful()"
            )
        return self._running.scale(operator, shards, timeout_s=timeout_s)

    # What Stream builds with.

    def _add(self, node: Node, mistakes: Iterable[str]) -> Stream:
        self._graph = None
        self._declared.append(Declared(node, tuple(mistakes)))
        return Stream(self, node.name, node.unit)

    def _preserve(self, stream: Stream, how: Preservation) -> None:
        self._graph = None
        self._preservations.append((stream, how))

    def _inputs(self, name: str, streams: Sequence[Any]) -> tuple[tuple[str, ...], list[str]]:
        """The names of the input nodes, and what is wrong with them."""
        names, mistakes = [], []
        for stream in streams:
            if not isinstance(stream, Stream):
                mistakes.append(f"'{name}': expected a stream as input, got {describe(stream)}")
            elif stream.app is not self:
                mistakes.append(
                    f"'{name}': its input '{stream.name}' is a stream of the App '{stream.app.name}',"
                    f" not of '{self.name}'"
                )
            else:
                names.append(stream.name)
        return tuple(names), mistakes

    def _free_name(self, stem: str) -> str:
        taken = {declared.node.name for declared in self._declared}
        return next(name for n in range(1, len(taken) + 2) if (name := f"{stem}-{n}") not in taken)

    def _stateful(
        self, name: str, operator: Operator, inputs: Any, *, key: Any, output: str, shards: int,
        event_time: EventTime | None, combine: Mapping[str, str] | None, unit: str | None,
    ) -> Stream:  # fmt: skip
        mistakes: list[str] = []
        if not isinstance(inputs, Mapping):
            streams = inputs if isinstance(inputs, (list, tuple)) else [inputs]
            mistakes.append(
                f"operator '{name}': its inputs need names, which process() uses as its parameters:"
                ' write inputs={"left": …, "right": …}'
            )
            inputs = {f"input_{n}": stream for n, stream in enumerate(streams)}
            if isinstance(key, Mapping):
                key = next(iter(key.values()), ())
        if not inputs:
            mistakes.append(f"operator '{name}': it has no inputs")
        names, wrong = self._inputs(name, list(inputs.values()))
        keys = {
            input_name: _columns(key.get(input_name, ()) if isinstance(key, Mapping) else key) for input_name in inputs
        }
        if isinstance(key, Mapping):
            mistakes += [
                f"operator '{name}': key= names the input '{stray}'; its inputs are {tuple(inputs)}"
                for stray in key
                if stray not in inputs
            ]
        first = next((stream.unit for stream in inputs.values() if isinstance(stream, Stream)), MAIN)
        node = StatefulNode(
            name,
            unit or first,
            names,
            tuple(inputs),
            operator,
            MappingProxyType(keys),
            output,
            shards,
            event_time,
            combine,
        )
        return self._add(node, [*mistakes, *wrong])


def _columns(key: Any) -> tuple[str, ...]:
    """Key columns as a tuple; validation looks at what is in it."""
    if isinstance(key, str):
        return (key,)
    return tuple(key) if isinstance(key, Iterable) else (key,)
