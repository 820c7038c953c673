"""What of a spilled dict is in memory, above the store that has the rest (S2, ``spill``).

Two generations of entries are in memory. A used entry is young; when the young ones take half of the memory, the old ones are
written back and let go, and the young ones are the old. Values that can be changed in place stay until the end of the epoch in which
they were looked at, and count as changed.

How many keys there are is known without a look into the store, but for keys that were put *blindly*, of which nobody had asked
before whether they are there: that is found out for many of them at once, when they are written.

Invariant: a key's value is that of the young, else of the old, else of the store; what is *changed* is in memory, and the store
does not know it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from typing import Any

from perseid.byte_size import byte_size
from perseid.errors import StorageFailed
from perseid.state.immutable import mutable_part
from perseid.state.sizes import size_of
from perseid.state.spill_codec import Key, Packed, ValueCodec
from perseid.state.spill_store import ROWS, Seal, SpillStore, in_order

GONE: Any = object()  # the value of a key that was deleted, and that the store may not know to be
NOWHERE: Any = object()  # no value in memory
_ENTRY_BYTES = 130  # of an entry in memory beside its key and value: places in a dict and in sets
_MISSES = 100_000  # so many keys are remembered that are known not to be there
FROZEN = frozenset({int, float, str, bytes, bool, type(None)})


class SpillCache:
    """Entries by packed key, at most so many bytes of them in memory."""

    def __init__(self, limit: str | int) -> None:
        self.set_limit(limit)
        self._store = SpillStore(cache_of(self.limit))
        self._codec = ValueCodec()
        self._young: dict[Key, Any] = {}
        self._old: dict[Key, Any] = {}
        self._young_bytes = 0.0
        self._changed: set[Key] = set()
        self._mutable: set[Key] = set()  # of those in memory, keys of values that can be changed in place
        self._looked_at: set[Key] = set()  # of these, in this epoch
        self._deleted: set[Key] = set()  # of those in memory
        self._count = 0  # keys, without those put blindly
        self._blind: set[Key] = set()  # put without a look whether the store has them
        self._misses: set[Key] = set()  # looked for and not found in this epoch
        self._weights = [0.0, 0.0]  # of entries weighed: bytes and number, the latest count most
        self._written = 0  # entries since the store was tidied

    # -- entries --------------------------------------------------------------------------------------------------------

    def _put_one(self, key: Key, value: Any) -> None:
        self._make_room()
        before = self._young.get(key, NOWHERE)
        if before is NOWHERE:
            before = self._old.pop(key, NOWHERE)
            self._young_bytes += self._weight()
        if before is NOWHERE:
            self._count_new(key)
            self._weigh(key, value)
        elif before is GONE:
            self._revive([key])
        self._young[key] = value
        self._changed.add(key)
        self._note_mutable(key, value)

    def _delete(self, key: Key) -> bool:
        """Whether it was there."""
        self._know([key])
        if self._brought([key])[0] is GONE:
            return False
        self._count -= 1
        self._young[key] = GONE
        self._deleted.add(key)
        self._changed.add(key)
        self._mutable.discard(key)
        self._looked_at.discard(key)
        return True

    def _put(self, keys: list[Key], values: list[Any]) -> None:
        self._make_room()
        young, old = self._young, self._old
        entering = [key for key in dict.fromkeys(keys) if key not in young]
        for key in entering:
            before = old.pop(key, NOWHERE)
            if before is NOWHERE:
                self._count_new(key)
        if self._deleted:
            self._revive(keys)
        for key, value in islice(zip(keys, values, strict=True), 0, None, max(1, len(keys) // 16)):
            self._weigh(key, value)
        self._young_bytes += len(entering) * self._weight()
        young.update(zip(keys, values, strict=True))
        self._changed.update(keys)
        if self._mutable or not set(map(type, values)) <= FROZEN:
            for key, value in zip(keys, values, strict=True):
                self._note_mutable(key, value)

    def _brought(self, keys: Sequence[Key]) -> list[Any]:
        """The values of keys, brought to the young; ``GONE`` for what is not there."""
        self._make_room()
        young, old = self._young, self._old
        found = list(map(young.get, keys, repeat(NOWHERE)))
        missing = [place for place, value in enumerate(found) if value is NOWHERE]
        if not missing:
            return found
        read: dict[Key, Any] = {}
        for key in {keys[place] for place in missing}:
            value = old.pop(key, NOWHERE)
            if value is not NOWHERE:
                read[key] = value
        entered = len(read)
        wanted = [key for key in dict.fromkeys(keys[place] for place in missing) if key not in read]
        if wanted and not self._store.empty:
            stored = self._unpacked(self._store.get_many(wanted))
            self._note_all(stored)
            read |= stored
            entered += len(stored)
        if len(self._misses) < _MISSES:
            self._misses.update(key for key in wanted if key not in read)
        for place in missing:
            found[place] = read.get(keys[place], GONE)
        young.update(read)
        self._young_bytes += entered * self._weight()
        return found

    def _unpacked(self, stored: Mapping[Key, Packed]) -> dict[Key, Any]:
        unpack = self._codec.unpack
        return {key: unpack(packed) for key, packed in stored.items()}

    def _note_all(self, entries: Mapping[Key, Any]) -> None:
        for key, value in islice(entries.items(), 0, None, max(1, len(entries) // 16)):
            self._weigh(key, value)
        if not set(map(type, entries.values())) <= FROZEN:
            for key, value in entries.items():
                self._note_mutable(key, value)

    # -- memory -------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """In memory and on disk."""
        return int(self._weight() * (len(self._young) + len(self._old))) + self._store.nbytes

    def set_limit(self, limit: str | int) -> None:
        """At most so much in memory from now on; what is too much goes at the end of the epoch."""
        self.limit = byte_size(limit)
        self._half = max(1, (self.limit - cache_of(self.limit)) // 2)
        self._room = float(self._half)  # beyond so many bytes of the young the old must go

    def shrink(self) -> None:
        """An epoch is over: nobody holds a value of it any more. What is too much in memory goes, and the store is tidied."""
        self._looked_at.clear()
        self._misses.clear()
        for key in islice(self._mutable, 16):  # they may have grown
            self._weigh(key, self._young.get(key, self._old.get(key)))
        self._young_bytes, self._room = self._weight() * len(self._young), float(self._half)
        for _ in range(2):  # either generation may be too large: of the young, by what was looked at
            if self._young_bytes > self._half or self._weight() * len(self._old) > self._half:
                self._rotate()
        written, self._written = self._written, 0
        self._store.tidy(ROWS + 2 * written)

    def seal(self) -> Seal:
        """For a snapshot by a forked child: the files stay as they are until it is released."""
        return self._store.seal()

    def _make_room(self) -> None:
        if self._young_bytes > self._room:
            self._rotate()

    def _rotate(self) -> None:
        """Write the old back and let them go; the young are the old now. Those looked at in this epoch stay."""
        self._write(self._changed.intersection(self._old).difference(self._looked_at))
        staying = {key: self._old[key] for key in self._changed.intersection(self._old)}
        if self._mutable or self._deleted:
            leaving = self._old.keys() - staying.keys()
            self._mutable -= leaving
            self._deleted -= leaving
        self._old, self._young = self._young, staying
        self._young_bytes = len(staying) * self._weight()
        self._room = max(self._half, 2 * self._young_bytes)  # what must stay is not looked through for every new entry

    def _write(self, keys: Iterable[Key], *, must: bool = False) -> None:
        """Write changed entries to the store; they stay in memory. Without room on the disk they stay changed, unless they must."""
        wanted = in_order(keys)
        self._know([key for key in wanted if key in self._blind])
        pack = self._codec.pack
        for start in range(0, len(wanted), ROWS):
            some = wanted[start : start + ROWS]
            entries: list[tuple[Key, Packed | None]] = []
            for key in some:
                value = self._young.get(key, NOWHERE)
                value = self._old[key] if value is NOWHERE else value
                entries.append((key, None if value is GONE else pack(value)))
            try:
                self._store.put_many(entries)
            except (sqlite3.OperationalError, StorageFailed) as error:
                if must:
                    raise StorageFailed(f"spilled state cannot be written: {error}; make room on the disk") from error
                return
            self._written += len(some)
            self._changed.difference_update(some)
            self._changed.update(self._looked_at.intersection(some))  # whoever looks at it may change it yet

    def _look_at(self, key: Key) -> None:
        self._looked_at.add(key)
        self._changed.add(key)

    def _note_mutable(self, key: Key, value: Any) -> None:
        if frozen(value):
            self._mutable.discard(key)
            self._looked_at.discard(key)
        else:
            self._mutable.add(key)
            if key in self._changed:
                self._looked_at.add(key)

    def _weigh(self, key: Key, value: Any) -> None:
        self._weights[0] = 0.98 * self._weights[0] + size_of(key) + size_of(value) + _ENTRY_BYTES
        self._weights[1] = 0.98 * self._weights[1] + 1

    def _weight(self) -> float:
        """Of one entry in memory, about."""
        return self._weights[0] / self._weights[1] if self._weights[1] else _ENTRY_BYTES

    # -- how many -----------------------------------------------------------------------------------------------------

    def _count_new(self, key: Key) -> None:
        """A key is put that is not in memory."""
        if self._store.empty or key in self._misses:
            self._misses.discard(key)
            self._count += 1
        else:
            self._blind.add(key)

    def _revive(self, keys: Iterable[Key]) -> None:
        """Keys are put, of which some may have been deleted."""
        revived = self._deleted.intersection(keys)
        self._count += len(revived)
        self._deleted -= revived

    def _know(self, keys: Sequence[Key]) -> None:
        """Find out which of the keys put blindly are new."""
        unknown = self._blind.intersection(keys)
        if unknown:
            self._count += len(unknown) - len(self._store.get_many(list(unknown)))
            self._blind -= unknown

    def check(self) -> None:
        """Assert the invariants."""
        assert not self._young.keys() & self._old.keys()
        assert self._changed <= self._young.keys() | self._old.keys()
        assert self._looked_at <= self._changed and self._mutable <= self._young.keys() | self._old.keys()
        assert self._blind <= self._changed and self._deleted <= self._changed | self._old.keys() | self._young.keys()


def cache_of(limit: int) -> int:
    """What of it SQLite has for itself."""
    return min(limit // 8, 16 << 20)


def frozen(value: Any) -> bool:
    return type(value) in FROZEN or value is GONE or mutable_part(value) is None
