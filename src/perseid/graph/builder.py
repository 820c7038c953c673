"""Building a graph: a name, and method calls that add sources, operators and sinks. Nothing runs, and no mistake shows before ``graph``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from perseid.graph.graph import Graph
from perseid.graph.nodes import Declared, Node, SourceNode, StatefulNode
from perseid.graph.stream import Stream, describe
from perseid.graph.validation import validated
from perseid.operators.event_time import EventTime
from perseid.vocabulary import Preservation

if TYPE_CHECKING:
    from perseid.checkpoint.schemes import Scheme
    from perseid.operators.operator import Operator
    from perseid.sources.source import Source
    from perseid.standby.modes import Mode, Standby

MAIN = "main"
"""The unit of sources that name none."""


class GraphBuilder:
    """What ``App`` builds its graph with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._declared: list[Declared] = []
        self._preservations: list[tuple[Stream, Preservation]] = []
        self._graph: Graph | None = None

    def source(self, name: str, source: Source, *, unit: str = MAIN) -> Stream:
        """Read rows from a source: ``app.source("lines", perseid.sources.files("in/", schema="line string"))``."""
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
        checkpoint: Scheme | Literal["application"] = "application",
        standby: Standby | Mode = "none",
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
            checkpoint=checkpoint,
            standby=standby,
            unit=unit,
        )

    @property
    def graph(self) -> Graph:
        """The graph, validated: raises ``GraphError`` with every mistake."""
        if self._graph is None:
            self._graph = validated(self, self._declared, self._preservations)
        return self._graph

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
        self, name: str, operator: Operator, inputs: Any, *, key: Any, output: str | None, shards: int,
        event_time: EventTime | None, combine: Mapping[str, str] | None,
        checkpoint: Scheme | Literal["application"], standby: Standby | Mode, unit: str | None,
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
            checkpoint,
            standby,
        )
        return self._add(node, [*mistakes, *wrong])


def _columns(key: Any) -> tuple[str, ...]:
    """Key columns as a tuple; validation looks at what is in it."""
    if isinstance(key, str):
        return (key,)
    return tuple(key) if isinstance(key, Iterable) else (key,)
