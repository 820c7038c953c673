"""What a graph and its checkpoints must agree on: classes, keys, state fields, outputs, kinds, units.

The number of shards, the functions of transforms and the settings may change from one start to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perseid.graph.nodes import Node, SinkNode, SourceNode, StatefulNode
from perseid.state.fields import fields_of

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
                "fields": list(fields_of(node.operator)),
                "output": " ".join(node.output.split()),
            }
    for unit in units:
        for stream in unit.outputs:
            found["streams"][stream] = {"unit": unit.name}
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """How two fingerprints differ, one sentence each; empty if checkpoints of the old serve the new."""
    found: list[str] = []
    for section, word in _SECTIONS.items():
        before, after = old.get(section, {}), new.get(section, {})
        found += [f"{word} '{name}' is gone" for name in before if name not in after]
        found += [f"{word} '{name}' is new" for name in after if name not in before]
        for name, then in before.items():
            if name in after:
                found += [f"{word} '{name}': {difference}" for difference in _changes(then, after[name])]
    return found


def _changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found = []
    for aspect in dict.fromkeys([*then, *now]):
        was, is_now = then.get(aspect), now.get(aspect)
        if aspect == "fields":
            found += _field_changes(was or [], is_now or [])
        elif was != is_now:
            found.append(f"{aspect} was {_shown(was)}, now {_shown(is_now)}")
    return found


def _field_changes(was: list[str], is_now: list[str]) -> list[str]:
    gone = [name for name in was if name not in is_now]
    added = [name for name in is_now if name not in was]
    if len(gone) == len(added) == 1:
        return [f"state field '{gone[0]}' was renamed to '{added[0]}', or removed and another added"]
    return [f"state field '{name}' was removed" for name in gone] + [
        f"state field '{name}' was added" for name in added
    ]


def _shown(value: Any) -> str:
    """As the user wrote it: key columns as a tuple, by input only if there are several."""
    if isinstance(value, Mapping):
        if len(value) == 1:
            return _shown(next(iter(value.values())))
        return "{" + ", ".join(f"{name!r}: {_shown(part)}" for name, part in value.items()) + "}"
    return repr(tuple(value)) if isinstance(value, list) else repr(value)
