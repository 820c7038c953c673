"""The state of a ``KeyedOperator``'s shard: each key's own field values, and which keys have been idle for too long.

Values are a plain dict, key → tuple of field values in the order of ``names``: quick to look up, pickle and split; or a spilled one.
Keys are Python scalars (one key column) or tuples (several).

Invariant: with a time to live, ``touched`` has the same keys as ``values``, in the order they were last touched; so
only its front can have expired. Time is the epoch's and never runs backwards here: a replay forgets the same keys.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, MutableMapping
from typing import Any

from perseid.duration import Duration
from perseid.errors import GraphChanged
from perseid.state.fields import StateField
from perseid.state.sizes import sampled, size_of
from perseid.state.spilled import Spilled
from perseid.state.timers import Timers


class KeyedState:
    """Field values by key."""

    __slots__ = (
        "_initials",
        "_next_expiry_ms",
        "_spill",
        "_ttl_ms",
        "clock_ms",
        "key_types",
        "names",
        "touched",
        "values",
    )

    def __init__(self, fields: dict[str, StateField], ttl: Duration | None, spill: str | int | None = None) -> None:
        self.names: tuple[str, ...] = tuple(fields)
        self._spill = spill
        self.values: MutableMapping[Hashable, tuple[Any, ...]] = {} if spill is None else Spilled(spill)
        self.touched: dict[Hashable, int] = {}  # key → time of the last touch, oldest touch first; empty without ttl
        self.clock_ms = 0  # the latest epoch's time, or an earlier one's if that was later
        self.key_types: tuple[str, ...] = ()  # Arrow's names of the key columns' types: slots depend on them
        self._ttl_ms = None if ttl is None else ttl.ms
        self._next_expiry_ms = 0  # no key can expire before
        self._initials: tuple[Callable[[], Any], ...] = tuple(field.initial for field in fields.values())

    def __len__(self) -> int:
        return len(self.values)

    @property
    def expires(self) -> bool:
        """Whether there is a time to live."""
        return self._ttl_ms is not None

    def initial(self) -> tuple[Any, ...]:
        """The values a new key starts with."""
        return tuple([initial() for initial in self._initials])

    def touch(self, key: Hashable) -> None:
        """The key is used in this epoch. Called only with a time to live."""
        self.touched.pop(key, None)
        self.touched[key] = self.clock_ms

    def forget(self, key: Hashable) -> None:
        """Drop the key's values."""
        self.values.pop(key, None)
        self.touched.pop(key, None)

    def expire(self, time_ms: int, timers: Timers) -> int:
        """Begin an epoch: forget keys idle for the time to live; returns how many.

        A pending timer keeps its key; the idle time of that key begins anew.
        """
        if self._ttl_ms is None:
            return 0
        if time_ms > self.clock_ms:
            self.clock_ms = time_ms
        if self.clock_ms < self._next_expiry_ms:
            return 0
        if len(self.touched) != len(self.values):  # restored from a snapshot taken without a time to live
            self.touched = dict.fromkeys(self.values, self.clock_ms)
        limit_ms = self.clock_ms - self._ttl_ms
        idle: list[Hashable] = []
        for key, touched_ms in self.touched.items():
            if touched_ms > limit_ms:
                break
            idle.append(key)
        forgotten = 0
        for key in idle:
            if timers.has(key):
                self.touch(key)
            else:
                self.forget(key)
                forgotten += 1
        self._next_expiry_ms = next(iter(self.touched.values()), self.clock_ms) + self._ttl_ms
        return forgotten

    def capture(self) -> dict[str, Any]:
        """What a snapshot holds: references, no copies."""
        return {
            "names": self.names,
            "values": self.values,
            "touched": self.touched,
            "clock_ms": self.clock_ms,
            "key_types": self.key_types,
        }

    def restore(self, captured: dict[str, Any]) -> None:
        """Take over a snapshot's values. The order of its fields may differ from the declaration's, the set may not."""
        names = tuple(captured["names"])
        if set(names) != set(self.names):
            raise GraphChanged(f"the snapshot has the state fields {names}, the operator declares {self.names}")
        self.values = captured["values"]
        if names != self.names:
            places = [names.index(name) for name in self.names]
            self._take_over((key, tuple([old[place] for place in places])) for key, old in self.values.items())
        elif isinstance(self.values, Spilled) != (self._spill is not None):
            self._take_over(self.values.items())  # it was taken before the operator spilled, or when it did
        if isinstance(self.values, Spilled) and self._spill is not None:
            self.values.set_limit(self._spill)
        self.touched = captured["touched"] if self.expires else {}
        self.clock_ms = captured["clock_ms"]
        self.key_types = tuple(captured["key_types"])
        self._next_expiry_ms = 0

    def _take_over(self, entries: Iterable[tuple[Hashable, tuple[Any, ...]]]) -> None:
        self.values = dict(entries) if self._spill is None else Spilled(self._spill, entries)

    def estimated_bytes(
        self, fields: Mapping[str, StateField], sizing: Callable[[Any, StateField], int] = size_of
    ) -> int:
        """From the values of a few keys, sized by the rules of their fields."""
        if not self.values:
            return 0
        if isinstance(self.values, Spilled):
            return self.values.nbytes + sys.getsizeof(self.touched)
        few = sampled(self.values, max((field.sample for field in fields.values()), default=3))
        size = sum(
            size_of(key) + sys.getsizeof(values) + sum(map(sizing, values, fields.values())) for key, values in few
        )
        return sys.getsizeof(self.values) + sys.getsizeof(self.touched) + len(self.values) * size // len(few)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.touched.keys() == (self.values.keys() if self.expires else set())
        times = list(self.touched.values())
        assert times == sorted(times), "touched is in the order of time"
        assert all(len(values) == len(self.names) for values in self.values.values())
