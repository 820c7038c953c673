"""The state of a shard of a ready operator: its keys by number, and whatever belongs to them, which can be cut and joined by key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from perseid.ready.columns import Numbers
from perseid.ready.functions import Function
from perseid.ready.keys import Keys

Label = Literal["early", "final", "corrected"]
Holds = Callable[[Sequence[Hashable]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is worked out: the functions, and the type of the column of each."""

    functions: tuple[Function, ...]
    kinds: tuple[pa.DataType | None, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an epoch: the keys in them by number, ascending; which of these each row has; when each happened."""

    table: pa.Table
    numbers: Numbers
    codes: Numbers
    times_us: Numbers  # zeros without event time


@dataclass(frozen=True, slots=True)
class Clock:
    """How far event time has come, in microseconds."""

    closed_us: int | None  # windows that end there or before are out; None: none is
    late_us: int | None  # and for such a window no row may come any more
    early: bool  # results so far are wanted


@dataclass(frozen=True, slots=True)
class Found:
    """Results: the keys by number, the values, and where windows have one, their time."""

    label: Label
    numbers: Numbers
    values: list[pa.Array]
    start_us: Numbers | None = None
    end_us: Numbers | None = None


class Contents:
    """The state of a shard. ``about`` says what it was made for, ``kinds`` are the types of the columns it was made from."""

    def __init__(self, about: tuple[str, ...]) -> None:
        self.about = about
        self.kinds: dict[str, pa.DataType] = {}
        self.keys = Keys()

    def of_part(self, holds_many: Holds) -> Contents:
        """What of it belongs to a part of the keys."""
        return self._only(self.keys.of_part(holds_many))

    def _only(self, numbers: Numbers) -> Contents:
        """What of it belongs to the keys with these numbers, ascending."""
        raise NotImplementedError

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Contents:
        """The contents of several shards as those of one."""
        made = cls(parts[0].about)
        made.kinds = {name: kind for part in parts for name, kind in part.kinds.items()}
        made.keys = Keys.joined([part.keys for part in parts])
        made._join(parts, np.cumsum([0, *(len(part.keys) for part in parts)]).tolist())
        return made

    def _join(self, parts: Sequence[Any], first: Sequence[int]) -> None:
        """Take over the rest, where the keys of each part begin with the number in ``first``."""
        raise NotImplementedError

    def _like(self, keys: Keys) -> Any:
        made = type(self)(self.about)
        made.kinds, made.keys = dict(self.kinds), keys
        return made

    @property
    def nbytes(self) -> int:
        """In memory, about."""
        return self.keys.nbytes

    def without_unused(self, used: Callable[[], Numbers]) -> Any:
        """With only the keys that are used, if there are far fewer, else itself; ``used`` gives their numbers, ascending."""
        numbers = used()
        return self._only(numbers) if len(self.keys) > 2 * len(numbers) + 1024 else self


class Windows(Contents):
    """The state of a shard that aggregates. Each kind of window is a class of its own."""

    def epoch(self, plan: Plan, rows: Rows | None, clock: Clock) -> Iterator[Found]:
        """Take in the rows of an epoch; what is to be told."""
        raise NotImplementedError

    def next_end(self) -> tuple[int, int] | None:
        """When the next window is out, and the number of a key in it."""
        return None


def cut(contents: Any, part: Any) -> Any:
    """``state(split=…)``."""
    return None if contents is None else contents.of_part(part.holds_many)


def join(parts: Sequence[Any]) -> Any:
    """``state(merge=…)``."""
    some = [part for part in parts if part is not None]
    return type(some[0]).joined(some) if some else None
