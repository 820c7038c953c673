"""What a graph and its checkpoints must agree on: classes, keys, kinds, units; and state fields, as far as state can follow them.

The number of shards, the functions of transforms and the settings may change from one start to the next. So may the fields of state
(``state.evolution``) and the columns of an operator whose rows do not lie between units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perseid.graph.nodes import Node, SinkNode, SourceNode, StatefulNode
from perseid.state.evolution import changes
from perseid.state.moved import paths_before
from perseid.state.shape import StateShape, shape_of

if TYPE_CHECKING:
    from perseid.graph.graph import Unit

_SECTIONS = {"sources": "source", "operators": "operator", "sinks": "sink", "streams": "stream between units"}


def fingerprint(nodes: tuple[Node, ...], units: tuple[Unit, ...]) -> dict[str, Any]:
    """JSON data: lists and dicts of strings only, so that it equals itself after being written and read."""
    found: dict[str, Any] = {section: {} for section in _SECTIONS}
    for node in nodes:
        if isinstance(node, SourceNode):
            found["sources"][node.name] = {"unit": node.unit, "kind": str(node.source.kind)}
        elif isinstance(node, SinkNode):
            found["sinks"][node.name] = {"unit": node.unit, "kind": str(node.sink.kind)}
        elif isinstance(node, StatefulNode):
            found["operators"][node.name] = {
                "unit": node.unit,
                "class": type(node.operator).__qualname__,
                "key": {name: list(columns) for name, columns in node.key.items()},
                "was": [path.partition(":")[2] for path in paths_before(type(node.operator))],
                "state": shape_of(type(node.operator)).to_json(),
                "output": " ".join((node.output or "").split()),  # of ready operators the variables say it
            }
            if variables := node.operator._variables():
                found["operators"][node.name]["variables"] = variables
    for unit in units:
        for stream in unit.outputs:
            found["streams"][stream] = {"unit": unit.name}
    return found


@dataclass(frozen=True, slots=True)
class Difference:
    """What is different about a part of the graph, as a sentence; ``refused``: checkpoints of the old graph do not serve the new one."""

    text: str
    refused: bool = True


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], allow_removed: Collection[str] = ()
) -> list[Difference]:
    """How two fingerprints differ. Checkpoints of the old serve the new if nothing is refused.

    Operators, sinks and sources that are gone, and those that are new, are accepted where ``allow_removed`` names them; new ones in a unit
    that there was, since checkpoints say nothing of another.
    """
    found: list[Difference] = []
    units = {node["unit"] for section in _SECTIONS for node in old.get(section, {}).values()}
    crossing = bool(old.get("streams") or new.get("streams"))
    for section, word in _SECTIONS.items():
        before, after = old.get(section, {}), new.get(section, {})
        gone, come = [n for n in before if n not in after], [n for n in after if n not in before]
        found += [Difference(f"{word} '{n}' is gone", n not in allow_removed) for n in gone]
        found += [
            Difference(f"{word} '{n}' is new", n not in allow_removed or after[n]["unit"] not in units) for n in come
        ]
        for name, then in before.items():
            if name in after:
                changed = _changes(then, after[name], crossing)
                found += [Difference(f"{word} '{name}': {text}", refused) for text, refused in changed]
    return found


def _changes(then: Mapping[str, Any], now: Mapping[str, Any], crossing: bool) -> list[tuple[str, bool]]:
    found = []
    for aspect in dict.fromkeys([*then, *now]):
        was, is_now = then.get(aspect), now.get(aspect)
        if was == is_now or aspect == "was":
            continue
        text = f"{aspect} was {_shown(was)}, now {_shown(is_now)}"
        match aspect:
            case "state" if was and is_now:
                told = changes(StateShape.from_json(was), StateShape.from_json(is_now))
                found += [(change.text, change.refused) for change in told]
            case "variables":  # whether its values can follow is seen when they are restored
                found += [(change, False) for change in _variables(was or {}, is_now or {})]
            case "class":
                found.append((text, was not in now.get("was", ())))
            case "output":  # rows of the old columns may lie between units
                found.append((text, crossing))
            case _:
                found.append((text, True))
    return found


def _variables(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is different about the state variables of a processor."""
    if not then:
        return []  # written before fingerprints had them
    told = [f"state variable '{name}' is new" for name in now if name not in then]
    told += [f"state variable '{name}' is not declared any more" for name in then if name not in now]
    changed = [name for name in now if name in then and then[name] != now[name]]
    return [*told, *(f"state variable '{name}' was {then[name]}, is now {now[name]}" for name in changed)]


def _shown(value: Any) -> str:
    """As the user wrote it: key columns as a tuple, by input only if there are several."""
    if isinstance(value, Mapping):
        if len(value) == 1:
            return _shown(next(iter(value.values())))
        return "{" + ", ".join(f"{name!r}: {_shown(part)}" for name, part in value.items()) + "}"
    return repr(tuple(value)) if isinstance(value, list) else repr(value)
