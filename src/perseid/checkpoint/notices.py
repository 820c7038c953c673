"""Notices: what people and dashboards are told, beside what is done. The journal keeps them, no decision reads them.

A notice is a frozen dataclass. Its kind in the journal is the name of its class in lower case (``AlertBegan``: ``alert_began``), and its
fields there are ``record()``. Those of checkpoints are here; ``engine.notices`` has all others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from perseid.vocabulary import Epoch, ShardId, UnitName


class Notice:
    """Something that people should know."""

    __slots__ = ()
    kind: ClassVar[str]

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def record(self) -> dict[str, Any]:
        """Its fields as the journal has them."""
        return {field.name: plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


def plain(value: Any) -> Any:
    """A value as JSON has it: a shard is its name, sets are in order."""
    match value:
        case ShardId():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Set():
            return sorted(map(plain, value))
        case tuple() | list():
            return [plain(item) for item in value]
    return value


@dataclass(frozen=True, slots=True)
class Profiled(Notice):
    """How small the state becomes was worked out anew (M5b)."""

    dynamic: frozenset[ShardId]  # those whose size rises and falls
    shards: int
    periods: int
    lowest: int  # bytes of state, as all below
    threshold: int


@dataclass(frozen=True, slots=True)
class AlertBegan(Notice):
    """The state is small: the checkpoint waits for the best moment (M5c)."""

    bytes: int
    threshold: int
    low: int
    rate: int  # bytes a second


@dataclass(frozen=True, slots=True)
class MomentPassed(Notice):
    """The state was small, and is expected to be smaller once more in this period."""

    bytes: int
    threshold: int
    low: int
    rate: int


@dataclass(frozen=True, slots=True)
class PeriodTooShort(Notice):
    """A checkpoint waited longer for an epoch than its period."""

    unit: UnitName
    epoch: Epoch
    waited_ms: int
    period_ms: int
