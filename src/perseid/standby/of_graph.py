"""Which standby the operators of a graph have: what users wrote, checked."""

from __future__ import annotations

from perseid.errors import GraphError, SettingsError
from perseid.graph.graph import Graph
from perseid.standby.modes import Standby, standby_mode
from perseid.vocabulary import OperatorName


def standby_of(graph: Graph) -> dict[OperatorName, Standby]:
    """Of the operators that have any. Raises ``GraphError`` for what cannot be."""
    found: dict[OperatorName, Standby] = {}
    mistakes: list[str] = []
    for node in graph.operators:
        try:
            standby = standby_mode(node.standby)
        except SettingsError as error:
            mistakes.append(f"operator '{node.name}': {error}")
            continue
        if standby.guards:
            found[OperatorName(node.name)] = standby
    if mistakes:
        raise GraphError(*mistakes)
    return found
