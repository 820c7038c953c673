"""Value, list and map state of a processor's current key.

A key's state is a dict: name of the variable to what it holds. With a time to live, each value, list element or map
entry carries when it expires. Expired ones are never seen; they are removed when the key's own timer comes up.

Invariant: a variable without a value is not in the dict, and a key without variables is not in the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import ListState, MapState, ValueState

from perseid.processor.stored import StoredForm

if TYPE_CHECKING:
    from perseid.processor.handle import Handle

Stored = tuple[Any, ...]


class Expiring(NamedTuple):
    """A stored row and when it expires (processing time)."""

    row: Stored
    expires_ms: int


class Variable:
    """What all three kinds share: the name, the time to live, and where the current key's value is."""

    kind = "Value"
    key_columns = ""  # of a map

    def __init__(self, handle: Handle, name: str, form: StoredForm, ttl_ms: int | None) -> None:
        self._handle, self._name, self.form, self._ttl_ms = handle, name, form, ttl_ms
        self._declared = handle.variables
        self._as_kept = ttl_ms is None and not form.nested  # what is kept is what is read

    @property
    def expires(self) -> bool:
        """Has it a time to live?"""
        return self._ttl_ms is not None

    def _deleted(self, doing: str) -> PySparkRuntimeError:
        return PySparkRuntimeError(f"Error {doing}: {self.kind} state {self._name} is not initialized.")

    def _stored(self, doing: str) -> Any:
        """What the current key has; ``doing`` is in the message when the variable was deleted."""
        if self._name not in self._declared:
            raise self._deleted(doing)
        return self._handle.record.get(self._name)

    def _stored_if_usable(self) -> Any:
        """For iterators, which are empty when the variable was deleted."""
        return self._handle.record.get(self._name) if self._name in self._declared else None

    def _keep(self, row: Stored) -> Any:
        """A row as it is kept: with its time of expiry where the variable has one."""
        if self._ttl_ms is None:
            return row
        return Expiring(row, self._handle.expires_at(self._ttl_ms))

    def _row(self, kept: Any) -> Stored | None:
        """The row of what is kept; None if it has expired."""
        if self._ttl_ms is None:
            return self.form.read(kept)
        return None if kept.expires_ms <= self._handle.time_ms else self.form.read(kept.row)

    def _set(self, value: Any) -> None:
        self._handle.record[self._name] = value

    def clear(self) -> None:
        """Remove this state."""
        if self._name not in self._declared:
            raise self._deleted("clearing map state" if self.kind == "Map" else "clearing value state")
        self._handle.record.pop(self._name, None)


class Value(Variable, ValueState):
    """One row per key."""

    def get(self) -> Stored | None:
        kept: Stored | None = self._stored("getting value state")
        return kept if kept is None or self._as_kept else self._row(kept)

    def exists(self) -> bool:
        kept = self._stored("checking value state exists")
        return kept is not None and self._row(kept) is not None

    def update(self, newValue: Any) -> None:
        if self._name not in self._declared:
            raise self._deleted("updating value state")
        row = self.form.store(newValue, "Error updating value state")
        self._handle.record[self._name] = row if self._ttl_ms is None else self._keep(row)


class List(Variable, ListState):
    """A list of rows per key."""

    kind = "List"

    def get(self) -> Iterator[Stored]:
        held = self._stored_if_usable() or ()
        return iter(list(held) if self._as_kept else [row for row in map(self._row, held) if row is not None])

    def exists(self) -> bool:
        if self._name not in self._declared:
            raise self._deleted("checking value state exists")
        return next(self.get(), None) is not None

    def put(self, newState: Sequence[Any]) -> None:
        if self._name not in self._declared:
            raise self._deleted("updating value state")
        self._set(self._rows(newState))

    def appendValue(self, newState: Any) -> None:
        row = self._keep(self.form.store(newState, "Error updating value state"))
        held = self._stored("updating value state")
        if held is None:
            self._set([row])
        else:
            held.append(row)

    def appendList(self, newState: Sequence[Any]) -> None:
        rows = self._rows(newState)
        held = self._stored("updating value state")
        if held is None:
            self._set(rows)
        else:
            held.extend(rows)

    def _rows(self, values: Sequence[Any]) -> list[Any]:
        store = self.form.store
        rows: list[Any] = [store(value, "Error updating value state") for value in values]
        if self._ttl_ms is not None:
            rows = list(map(self._keep, rows))
        if not rows:
            raise PySparkRuntimeError(
                "Error updating value state: [ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE] Illegal value provided to the"
                f" State Store Cannot write empty list values to State Store for StateName {self._name}."
            )
        return rows


class Map(Variable, MapState):
    """A map from rows to rows per key."""

    kind = "Map"

    def __init__(self, handle: Handle, name: str, keys: StoredForm, form: StoredForm, ttl_ms: int | None) -> None:
        super().__init__(handle, name, form, ttl_ms)
        self._keys, self.key_columns = keys, keys.json

    def exists(self) -> bool:
        if self._name not in self._declared:
            raise self._deleted("checking map state exists")
        return next(self.iterator(), None) is not None

    def getValue(self, key: Any) -> Stored | None:
        return self._value_of(key, "getting value")

    def containsKey(self, key: Any) -> bool:
        return self._value_of(key, "checking if map state contains key") is not None

    def _value_of(self, key: Any, doing: str) -> Stored | None:
        held = self._stored(doing)
        kept = held.get(self._entry(key)) if held else None
        return None if kept is None else self._row(kept)

    def updateValue(self, key: Any, value: Any) -> None:
        held = self._stored("updating map state value")
        entry, kept = self._entry(key), self._keep(self.form.store(value, "Error updating map state value"))
        if held is None:
            self._set({entry: kept})
        else:
            held[entry] = kept

    def iterator(self) -> Iterator[tuple[Stored, Stored]]:
        held = self._stored_if_usable() or {}
        pairs = [(key, self._row(kept)) for key, kept in held.items()]
        return iter([(self._keys.read(_thawed(key)), row) for key, row in pairs if row is not None])

    def keys(self) -> Iterator[Stored]:
        return iter([key for key, _ in self.iterator()])

    def values(self) -> Iterator[Stored]:
        return iter([row for _, row in self.iterator()])

    def removeKey(self, key: Any) -> None:
        held = self._stored("removing key from map state")
        if held is not None:
            held.pop(self._entry(key), None)
            if not held:
                self.clear()

    def _entry(self, key: Any) -> Stored:
        entry: Stored = _frozen(self._keys.store(key, "Error updating map state value"))
        return entry


class _Frozen(NamedTuple):
    """A list inside a map's key: hashable, and a list again when it is read."""

    items: tuple[Any, ...]


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return _Frozen(tuple([_frozen(item) for item in value]))
    return tuple([_frozen(item) for item in value]) if type(value) is tuple else value


def _thawed(value: Any) -> Any:
    if isinstance(value, _Frozen):
        return [_thawed(item) for item in value.items]
    return tuple([_thawed(item) for item in value]) if type(value) is tuple else value


def without_expired(kept: Any, now_ms: int) -> tuple[Any, int | None]:
    """What is left of one variable's value at ``now_ms``, None if nothing, and when the next of it expires."""
    if isinstance(kept, Expiring):
        return (None, None) if kept.expires_ms <= now_ms else (kept, kept.expires_ms)
    if isinstance(kept, list) and kept and isinstance(kept[0], Expiring):
        alive = [item for item in kept if item.expires_ms > now_ms]
        return alive or None, min((item.expires_ms for item in alive), default=None)
    if isinstance(kept, dict) and kept and isinstance(next(iter(kept.values())), Expiring):
        left = {key: item for key, item in kept.items() if item.expires_ms > now_ms}
        return left or None, min((item.expires_ms for item in left.values()), default=None)
    return kept, None
