"""Which scheme every unit is checkpointed by: what operators say, worked out for the units of a graph.

A unit is checkpointed as a whole. So what one of its operators says holds for all of them, and two must not say different things; and the
application's scheme must allow it.
"""

from __future__ import annotations

from typing import Any

from perseid.checkpoint.schemes import Scheme
from perseid.duration import Duration
from perseid.errors import GraphError
from perseid.graph.graph import Graph
from perseid.vocabulary import UnitName


def unit_schemes(graph: Graph, application: Scheme) -> dict[UnitName, Scheme]:
    """The schemes of units that have one of their own. Raises ``GraphError`` for what cannot be."""
    found: dict[UnitName, tuple[str, Scheme]] = {}
    mistakes: list[str] = []
    for node in graph.operators:
        given: Any = node.checkpoint
        if isinstance(given, str) and given == "application":
            continue
        mistake = _mistake(given) or application.refuses(given)
        if mistake is not None:
            mistakes.append(f"operator '{node.name}': checkpoint={given!r}: {mistake}")
            continue
        first, known = found.setdefault(UnitName(node.unit), (node.name, given))
        if known != given:
            mistakes.append(
                f"operators '{first}' and '{node.name}' are in unit '{node.unit}', which is checkpointed as a whole, and have"
                f" checkpoint={known!r} and {given!r}: give one of them a unit of its own (unit=…), or both the same scheme"
            )
    if mistakes:
        raise GraphError(*mistakes)
    return {unit: scheme for unit, (_, scheme) in found.items()}


def _mistake(given: Any) -> str | None:
    if given is None:
        return "an operator without checkpoints is not supported yet; leave checkpoint= out"
    if isinstance(given, Duration):
        return "an operator that is saved alone, at its own times, is not supported yet; give a scheme or leave it out"
    if not isinstance(given, Scheme):
        return "expected a scheme such as perseid.checkpoints.source()"
    return None
