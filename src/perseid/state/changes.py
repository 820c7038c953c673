"""What changed in a shard's state since it was last sent: the entries of dicts and lists that are other objects now (H2).

A dict or list is compared with a shallow copy of itself: an entry that is the same object has not changed. That is exact for the values of
a ``KeyedOperator``, of which every visit to a key makes new ones, and for values that cannot be changed in place; what has any other
values is sent whole, as everything else is. A list is taken for a window: it loses entries in front and gets others behind.

Invariant: applied to the state that was sent before, the changes make a state equal to this one. A key that was deleted and came back since
may stand at another place of its dict.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from perseid.state.operator_state import capture
from perseid.state.timers import Timers

if TYPE_CHECKING:
    from perseid.operators.operator import Operator

SMALL = 1_000
"""Entries; a smaller dict is sent whole."""

_UNCHANGING = frozenset(
    {int, float, str, bytes, bool, type(None), decimal.Decimal, datetime.date, datetime.datetime, datetime.timedelta}
)


@dataclass(slots=True)
class Sent:
    """What a shard's state was when it was last sent: shallow copies of its large dicts, and of its lists, by their place."""

    dicts: dict[str, dict[Any, Any]] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changed:
    """A dict, as changes to the one that was sent before."""

    put: dict[Any, Any]
    gone: list[Any]
    at_the_end: bool = False  # those that are put come behind all others


@dataclass(frozen=True, slots=True)
class Slid:
    """A list, as changes to the one that was sent before: so many entries are gone in front, so many of the next ones stay."""

    gone: int
    kept: int
    new: list[Any]


def changes(operator: Operator, before: Sent | None) -> tuple[dict[str, Any], Sent]:
    """The state as ``capture`` has it, with ``Changed`` in place of dicts that the receiver has; and what is to be remembered of it.
    ``before``: None to send all of it."""
    captured, now = capture(operator), Sent()
    last = before if before is not None else Sent()
    known = last.dicts
    keyed = captured["keyed"]
    if keyed is not None:
        captured["keyed"] = dict(keyed)
        captured["keyed"]["values"] = _compared("values", keyed["values"], known, now, by_visit=True)
        captured["keyed"]["touched"] = _suffix(keyed["touched"], known, now)
    captured["fields"] = {
        name: _slid(name, value, last, now) if type(value) is list else _compared(f".{name}", value, known, now)
        for name, value in captured["fields"].items()
    }
    return captured, now


def apply(operator: Operator, captured: Mapping[str, Any]) -> None:
    """Make the state of an operator, which is what was sent before, what it is now. It takes the objects over."""
    keyed = captured["keyed"]
    if keyed is not None:
        mine = operator._keyed.capture()
        operator._keyed.restore(
            {**keyed, **{name: _applied(mine[name], keyed[name]) for name in ("values", "touched")}}
        )
    own = operator.__dict__
    own.update({name: _applied(own.get(name), value) for name, value in captured["fields"].items()})
    own["_timers"] = Timers.restored(captured["timers"])


def _compared(place: str, value: Any, known: Mapping[str, dict[Any, Any]], now: Sent, *, by_visit: bool = False) -> Any:
    if type(value) is not dict or len(value) < SMALL:
        return value
    if not by_visit and not _UNCHANGING.issuperset(map(type, value.values())):
        return value
    now.dicts[place] = value.copy()
    last = known.get(place)
    if last is None:
        return value
    missing = object()
    put = {key: entry for key, entry in value.items() if last.get(key, missing) is not entry}
    gone = list(last.keys() - value.keys()) if len(last) + len(put) > len(value) else []
    return Changed(put, gone)


def _slid(place: str, value: list[Any], before: Sent, now: Sent) -> Any:
    if not _UNCHANGING.issuperset(map(type, value)):
        return value
    now.lists[place] = value.copy()
    last = before.lists.get(place)
    if last is None or not value:
        return value
    gone = next((number for number, entry in enumerate(last) if entry is value[0]), len(last))
    same = takewhile(lambda pair: pair[0] is pair[1], zip(islice(last, gone, None), value, strict=False))
    kept = sum(1 for _ in same)
    return Slid(gone, kept, value[kept:])


def _suffix(touched: dict[Any, int], known: Mapping[str, dict[Any, Any]], now: Sent) -> Any:
    """When keys were last touched, the oldest first: those since then are at the end, in their order."""
    if len(touched) < SMALL:
        return touched
    now.dicts["touched"] = touched.copy()
    last = known.get("touched")
    if last is None:
        return touched
    newest, put = next(reversed(last.values()), -1), {}
    for key in reversed(touched):
        if touched[key] < newest:
            break
        put[key] = touched[key]
    return Changed(dict(reversed(put.items())), list(last.keys() - touched.keys()), at_the_end=True)


def _applied(mine: Any, value: Any) -> Any:
    if isinstance(value, Slid):
        return mine[value.gone : value.gone + value.kept] + value.new
    if not isinstance(value, Changed):
        return value
    for key in (*value.gone, *(value.put if value.at_the_end else ())):
        mine.pop(key, None)
    mine.update(value.put)
    return mine
