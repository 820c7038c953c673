"""A dict that is larger than the memory it may use (S2, ``spill``): what was used last is in memory, the rest on the machine's own disk.

    counts: dict[str, int] = state(spill="256 MB")

It behaves as a dict, with three differences. Its order is that of its keys as SQLite sorts them, so that it does not depend on what
happens to be in memory. Keys are scalars or tuples of scalars, and keys of different types are different keys. A value that can
be changed in place stays in memory until the end of the epoch in which it was looked at, and is written back then.

Many keys at once (``get_many``, ``put_many``) cost a fraction of one at a time where they are not in memory.
"""

from __future__ import annotations

import pickle
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
from itertools import islice
from typing import Any, Generic, TypeVar

from perseid.state.spill_cache import GONE, NOWHERE, SpillCache, cache_of, frozen
from perseid.state.spill_codec import Key, Packed, pack_key, unpack_key
from perseid.state.spill_store import ROWS, SpillStore

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Spilled(SpillCache, MutableMapping[K, V], Generic[K, V]):
    """A dict with at most so much of it in memory."""

    def __init__(self, limit: str | int, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        SpillCache.__init__(self, limit)
        self.update(entries)

    # -- one key ------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: K) -> V:
        packed: Any = key if type(key) is int or type(key) is str else pack_key(key)
        found: Any = self._young.get(packed, NOWHERE)
        if found is NOWHERE:
            packed = pack_key(key)
            found = self._brought([packed])[0]
        if found is GONE:
            raise KeyError(key)
        if packed in self._mutable:
            self._look_at(packed)
        return found  # type: ignore[no-any-return]

    def __setitem__(self, key: K, value: V) -> None:
        self._put_one(pack_key(key), value)

    def __delitem__(self, key: K) -> None:
        if not self._delete(pack_key(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return self._brought([pack_key(key)])[0] is not GONE

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
        return [default if value is GONE else value for value in found]

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
        pairs = iter((*_pairs(other), *named.items()) if named else _pairs(other))
        while some := list(islice(pairs, ROWS)):
            self.put_many([key for key, _ in some], [value for _, value in some])

    # -- all keys -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[K]:
        for entries in self._scanned():
            yield from (unpack_key(key) for key, _ in entries)  # type: ignore[misc]

    def items(self) -> ItemsView[K, V]:
        """Keys and values, in the order of the keys; what is on disk is read piece by piece."""
        return _Items(self)

    def values(self) -> ValuesView[V]:
        """Values, in the order of their keys; what is on disk is read piece by piece."""
        return _Values(self)

    def entries(self) -> Iterator[tuple[K, V]]:
        """Keys and values in the order of the keys."""
        for entries in self._scanned():
            values = self._unpacked({k: v for k, v in entries if k not in self._young and k not in self._old})
            for key, _ in entries:
                value = self._young.get(key, self._old.get(key, values.get(key, NOWHERE)))
                if value is NOWHERE or key in self._mutable or not frozen(value):
                    value = self._brought([key])[0]
                    if key in self._mutable:
                        self._look_at(key)
                if value is not GONE:
                    yield unpack_key(key), value  # type: ignore[misc]

    def _scanned(self) -> Iterator[list[tuple[Key, Packed]]]:
        self._write(self._changed, must=True)
        yield from self._store.scan()

    # -- saved, cut and joined ----------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What is changed, and the files as they are. In a forked child nothing of SQLite is touched."""
        now = {key: self._young.get(key, self._old.get(key)) for key in self._changed}
        gone = [key for key, value in now.items() if value is GONE]
        changed = {key: value for key, value in now.items() if value is not GONE}
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


def _reopened(known: tuple[Any, ...], changed: dict[Key, Any], gone: list[Key], *files: Any) -> Spilled[Any, Any]:
    limit, count, blind, classes = known
    made: Spilled[Any, Any] = Spilled(limit)
    made._codec.classes = classes
    made._store = SpillStore(cache_of(limit), [memoryview(file) for file in files])
    made._young = {**changed, **dict.fromkeys(gone, GONE)}
    made._changed, made._deleted = set(made._young), set(gone)
    made._note_all(changed)
    made._looked_at.clear()
    made._count, made._blind = count, set(blind)
    made._young_bytes = made._weight() * len(made._young)
    return made


def _pairs(other: Any) -> Iterable[tuple[Any, Any]]:
    return other.items() if isinstance(other, Mapping) else other


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
