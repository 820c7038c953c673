"""A dict that is larger than the memory it may use (S2, ``spill``): what was used last is in memory, the rest on the machine's own disk.

    counts: dict[str, int] = state(spill="256 MB")

It behaves as a dict, with three differences. It is iterated in the order of its keys, so that the order does not depend on what
happens to be in memory. Keys are scalars or tuples of scalars, and keys of different types are different keys. A value that can
be changed in place stays in memory until the end of the epoch in which it was looked at, and is written back then.

Many keys at once (``get_many``, ``put_many``) cost a fraction of one at a time where they are not in memory.

Two generations of entries are in memory. A used entry is young; when the young ones take half of the memory, the old ones are written back
and let go, and the young ones are the old.

Invariant: a key's value is that of the young, else of the old, else of the store; what is *changed* is in memory, and the store
does not know it.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import (
    Callable,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from itertools import islice, repeat
from typing import Any, Generic, TypeVar

from perseid.byte_size import byte_size
from perseid.errors import StorageFailed
from perseid.state.immutable import mutable_part
from perseid.state.sizes import size_of
from perseid.state.spill_codec import Key, Packed, ValueCodec, pack_key, unpack_key
from perseid.state.spill_store import ROWS, Seal, SpillStore, in_order

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_GONE: Any = type(
    "_Gone", (), {"__repr__": lambda self: "gone"}
)()  # in memory: deleted, the store does not know it yet
_NOWHERE: Any = object()
_ENTRY_BYTES = 130  # of an entry in memory beside its key and value: places in a dict and in sets
_MISSES = 100_000  # so many keys are remembered that are known not to be there
_FROZEN = frozenset({int, float, str, bytes, bool, type(None)})


class Spilled(MutableMapping[K, V], Generic[K, V]):
    """A dict with at most so much of it in memory."""

    def __init__(self, limit: str | int, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self.limit = byte_size(limit)
        cache = min(self.limit // 8, 16 << 20)  # SQLite's own
        self._half = max(1, (self.limit - cache) // 2)
        self._store = SpillStore(cache)
        self._codec = ValueCodec()
        self._young: dict[Key, Any] = {}
        self._old: dict[Key, Any] = {}
        self._young_bytes = 0.0
        self._room = float(self._half)  # beyond so many of them the old must go
        self._changed: set[Key] = set()
        self._mutable: set[Key] = set()  # of those in memory, keys of values that can be changed in place
        self._looked_at: set[Key] = set()  # of these, in this epoch
        self._deleted: set[Key] = set()  # of those in memory
        self._count = 0  # keys, without those put blindly
        self._blind: set[Key] = set()  # put without a look whether the store has them
        self._misses: set[Key] = set()  # looked for and not found in this epoch
        self._weights = [0.0, 0.0]  # of entries weighed: bytes and number, the latest count most
        self._written = 0  # entries since the store was tidied
        self.update(entries)

    # -- one key ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        packed: Any = key if type(key) is int or type(key) is str else pack_key(key)
        found: Any = self._young.get(packed, _NOWHERE)
        if found is _NOWHERE:
            packed = pack_key(key)
            found = self._brought([packed])[0]
        if found is _GONE:
            raise KeyError(key)
        if packed in self._mutable:
            self._look_at(packed)
        return found  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        packed = pack_key(key)
        self._make_room()
        before = self._young.get(packed, _NOWHERE)
        if before is _NOWHERE:
            before = self._old.pop(packed, _NOWHERE)
            self._young_bytes += self._weight()
        if before is _NOWHERE:
            self._count_new(packed)
            self._weigh(packed, value)
        elif before is _GONE:
            self._revive([packed])
        self._young[packed] = value
        self._changed.add(packed)
        self._note_mutable(packed, value)

    def __delitem__(self, key: K) -> None:
        packed = pack_key(key)
        self._know([packed])
        if self._brought([packed])[0] is _GONE:
            raise KeyError(key)
        self._count -= 1
        self._young[packed] = _GONE
        self._deleted.add(packed)
        self._changed.add(packed)
        self._mutable.discard(packed)
        self._looked_at.discard(packed)

    def __contains__(self, key: object) -> bool:
        return self._brought([pack_key(key)])[0] is not _GONE

    def __len__(self) -> int:
        self._know(list(self._blind))
        return self._count

    def __bool__(self) -> bool:
        return bool(self._count or self._blind)

    def clear(self) -> None:
        """Forget everything. The files go, too."""
        self.__init__(self.limit)  # type: ignore[misc]

    # -- many keys ----------------------------------------------------------------------------------------------------

    def get_many(self, keys: Iterable[K], default: Any = None) -> list[V | Any]:
        """The value of each key, or the default: a list, an array or a column of keys at once."""
        packed = _packed_keys(keys)
        found = self._brought(packed)
        for key in self._mutable.intersection(packed) if self._mutable else ():
            self._look_at(key)
        return [default if value is _GONE else value for value in found]

    def put_many(self, keys: Iterable[K], values: Iterable[V]) -> None:
        """Set the value of each key. Of a key that comes twice the last one counts."""
        packed, plain = _packed_keys(keys), _listed(values)
        if len(packed) != len(plain):
            raise ValueError(f"put_many: {len(packed)} keys and {len(plain)} values")
        step = max(1, int(self._half // (2 * self._weight())) if self._weights[1] else ROWS)
        for start in range(0, len(packed), step):
            self._put(packed[start : start + step], plain[start : start + step])

    def update(self, other: Any = (), /, **named: V) -> None:
        """As of a dict."""
        pairs = list(other.items() if isinstance(other, Mapping) else other)
        self.put_many([key for key, _ in pairs], [value for _, value in pairs])
        self.put_many(list(named), list(named.values()))  # type: ignore[arg-type]

    def _put(self, keys: list[Key], values: list[Any]) -> None:
        self._make_room()
        young, old = self._young, self._old
        entering = [key for key in dict.fromkeys(keys) if key not in young]
        for key in entering:
            before = old.pop(key, _NOWHERE)
            if before is _NOWHERE:
                self._count_new(key)
        if self._deleted:
            self._revive(keys)
        for key, value in islice(zip(keys, values, strict=True), 0, None, max(1, len(keys) // 16)):
            self._weigh(key, value)
        self._young_bytes += len(entering) * self._weight()
        young.update(zip(keys, values, strict=True))
        self._changed.update(keys)
        if self._mutable or not set(map(type, values)) <= _FROZEN:
            for key, value in zip(keys, values, strict=True):
                self._note_mutable(key, value)

    def _brought(self, keys: Sequence[Key]) -> list[Any]:
        """The values of keys, brought to the young; ``_GONE`` for what is not there."""
        self._make_room()
        young, old = self._young, self._old
        found = list(map(young.get, keys, repeat(_NOWHERE)))
        missing = [place for place, value in enumerate(found) if value is _NOWHERE]
        if not missing:
            return found
        read: dict[Key, Any] = {}
        for key in {keys[place] for place in missing}:
            value = old.pop(key, _NOWHERE)
            if value is not _NOWHERE:
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
            found[place] = read.get(keys[place], _GONE)
        young.update(read)
        self._young_bytes += entered * self._weight()
        return found

    def _unpacked(self, stored: Mapping[Key, Packed]) -> dict[Key, Any]:
        unpack = self._codec.unpack
        return {key: unpack(packed) for key, packed in stored.items()}

    def _note_all(self, entries: Mapping[Key, Any]) -> None:
        for key, value in islice(entries.items(), 0, None, max(1, len(entries) // 16)):
            self._weigh(key, value)
        if not set(map(type, entries.values())) <= _FROZEN:
            for key, value in entries.items():
                self._note_mutable(key, value)

    # -- all keys -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[K]:
        for entries in self._scanned():
            yield from (unpack_key(key) for key, _ in entries)  # type: ignore[misc]

    def items(self) -> ItemsView[K, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def entries(self) -> Iterator[tuple[K, V]]:
        """Keys and values in the order of the keys."""
        for entries in self._scanned():
            values = self._unpacked({k: v for k, v in entries if k not in self._young and k not in self._old})
            for key, _ in entries:
                value = self._young.get(key, self._old.get(key, values.get(key, _NOWHERE)))
                if value is _NOWHERE or key in self._mutable or not _frozen(value):
                    value = self._brought([key])[0]
                    if key in self._mutable:
                        self._look_at(key)
                if value is not _GONE:
                    yield unpack_key(key), value  # type: ignore[misc]

    def _scanned(self) -> Iterator[list[tuple[Key, Packed]]]:
        self._write(self._changed, must=True)
        yield from self._store.scan()

    # -- memory -------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """In memory and on disk."""
        return int(self._weight() * (len(self._young) + len(self._old))) + self._store.nbytes

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
                value = self._young.get(key, _NOWHERE)
                value = self._old[key] if value is _NOWHERE else value
                entries.append((key, None if value is _GONE else pack(value)))
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
        if _frozen(value):
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

    # -- saved, cut and joined ----------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What is changed, and the files as they are. In a forked child nothing of SQLite is touched."""
        now = {key: self._young.get(key, self._old.get(key)) for key in self._changed}
        gone = [key for key, value in now.items() if value is _GONE]
        changed = {key: value for key, value in now.items() if value is not _GONE}
        files = [pickle.PickleBuffer(file) if protocol >= 5 else bytes(file) for file in self._store.files()]
        known = (self.limit, self._count, list(self._blind), self._codec.classes)
        return _reopened, (known, changed, gone, *files)

    def cut(self, parts: int, part_of: Callable[[Sequence[Hashable]], Sequence[int]]) -> list[Spilled[K, V]]:
        """As many, each with the keys for which ``part_of`` gives its number. Not all of it is in memory at once."""
        made = [self._like() for _ in range(parts)]
        for entries in self._scanned():
            found: list[list[tuple[Key, Packed]]] = [[] for _ in made]
            for entry, part in zip(entries, part_of([unpack_key(key) for key, _ in entries]), strict=True):
                found[part].append(entry)
            for one, mine in zip(made, found, strict=True):
                if mine:
                    one._store.put_many(mine)
                    one._count += len(mine)
        return made

    @classmethod
    def joined(cls, parts: Sequence[Spilled[K, V]]) -> Spilled[K, V]:
        """One with all their keys. Raises ``ValueError`` if two have the same key."""
        whole = parts[0]._like()
        for one in parts:
            classes = one._codec.classes
            for entries in one._scanned():
                twice = whole._store.get_many([key for key, _ in entries]) if whole._count else {}
                if twice:
                    raise ValueError(f"key {unpack_key(next(iter(twice)))!r:.80} is in two of them")
                if classes != whole._codec.classes:  # numbers mean other classes there
                    entries = [(key, whole._codec.pack(one._codec.unpack(packed))) for key, packed in entries]
                if entries:
                    whole._store.put_many(entries)
                    whole._count += len(entries)
        return whole

    def _like(self) -> Spilled[K, V]:
        other: Spilled[K, V] = Spilled(self.limit)
        other._codec.classes = list(self._codec.classes)
        return other

    def __repr__(self) -> str:
        return f"Spilled(limit={self.limit}, {len(self)} keys, {self.nbytes} bytes)"

    def check(self) -> None:
        """Assert the invariants."""
        assert not self._young.keys() & self._old.keys()
        assert self._changed <= self._young.keys() | self._old.keys()
        assert self._looked_at <= self._changed and self._mutable <= self._young.keys() | self._old.keys()
        assert self._blind <= self._changed and self._deleted <= self._changed | self._old.keys() | self._young.keys()


def _reopened(known: tuple[Any, ...], changed: dict[Key, Any], gone: list[Key], *files: Any) -> Spilled[Any, Any]:
    limit, count, blind, classes = known
    made: Spilled[Any, Any] = Spilled(limit)
    made._codec.classes = classes
    made._store = SpillStore(min(limit // 8, 16 << 20), [memoryview(file) for file in files])
    made._young = {**changed, **dict.fromkeys(gone, _GONE)}
    made._changed, made._deleted = set(made._young), set(gone)
    made._note_all(changed)
    made._looked_at.clear()
    made._count, made._blind = count, set(blind)
    made._young_bytes = made._weight() * len(made._young)
    return made


def _frozen(value: Any) -> bool:
    return type(value) in _FROZEN or value is _GONE or mutable_part(value) is None


class _Items(ItemsView[K, V]):
    _mapping: Spilled[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._mapping.entries()


class _Values(ValuesView[V]):
    _mapping: Spilled[Any, V]

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._mapping.entries())


def _listed(values: Iterable[Any]) -> list[Any]:
    """Python's values, of an Arrow column or a NumPy array, too."""
    for method in ("to_pylist", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _packed_keys(keys: Iterable[Any]) -> list[Key]:
    plain = _listed(keys)
    kinds = set(map(type, plain))
    if kinds == {str} and all(map(str.isascii, plain)):
        return plain
    if kinds == {int} and min(plain) >= -(1 << 63) and max(plain) < 1 << 63:
        return plain
    return list(map(pack_key, plain))
