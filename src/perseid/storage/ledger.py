"""The ledger: what was admitted and what was committed. It decides what a restarted application has done already.

Each generation of the driver has its own file. Its first line takes over all that the newest generation before it had
made durable, and says up to which line that was; after that, one sealed line per ``append``. So a file is the whole
ledger, and what a fenced driver still appends to its own file is never seen.

Invariant: once ``append`` has returned, every later generation has the records. For it looks at the lease after the
records are durable: if no newer lease is there by then, any newer driver reads this file later than that. If it
raises, they may or may not be there, as after a crash. Spec: M1, L4.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from perseid.errors import CorruptData, Fenced, PerseidError
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.records import Admitted, Committed, Index, Partitioned, Record, Trimmed, from_json, to_json
from perseid.storage.sealed import seal, unseal_lines
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, Generation, Offset, OperatorName, SourceName, UnitName

__all__ = ["Admitted", "Committed", "Ledger", "Record"]


@dataclass(frozen=True, slots=True)
class _Found:
    """The newest ledger on a root."""

    generation: Generation
    index: Index
    line: int  # number of the last good line
    torn: bool


class Ledger:
    """What was admitted, what was committed. Many threads may use it."""

    def __init__(self, store: Store, lease: Lease | None, index: Index, line: int) -> None:
        self._store = store
        self._lease = lease
        self._index = index
        self._line = line
        self._suspect = False  # a write failed, and may have left anything: the next one writes the whole file
        self._lock = threading.Lock()

    @classmethod
    def open(cls, store: Store, lease: Lease) -> Ledger:
        """The ledger as the generations before left it, to be continued. Raises ``CorruptData`` if it is damaged."""
        lease.check()
        found = _newest(store)
        if found is not None and found.generation > lease.generation:
            raise Fenced(
                f"{store.root}: the ledger is at generation {found.generation}, this driver is {lease.generation}"
            )
        if found is not None and found.generation == lease.generation and not found.torn:
            return cls(store, lease, found.index, found.line)
        accepts = {"generation": found.generation, "line": found.line} if found is not None else None
        ledger = cls(store, lease, found.index if found is not None else Index(Trimmed()), found.line if found else 0)
        ledger._rewrite(ledger._index, (), accepts)
        store.sweep(layout.LEDGERS)
        for generation in _generations(store):
            if found is not None and generation < found.generation:  # the one before stays, for a second look
                store.delete(layout.ledger(generation))
        return ledger

    @classmethod
    def begin(cls, store: Store, lease: Lease, base: Trimmed) -> None:
        """Begin the ledger of a root with imported state: as if all up to an epoch had been done, and trimmed. Nothing else is in it."""
        lease.check()
        found = _newest(store)
        accepts = {"generation": found.generation, "line": found.line} if found is not None else None
        ledger = cls(store, lease, Index(base), found.line if found is not None else 0)
        ledger._rewrite(ledger._index, (), accepts)

    @classmethod
    def view(cls, store: Store) -> Ledger:
        """The ledger as it is now, to be read only; needs no lease."""
        found = _newest(store)
        return cls(store, None, found.index, found.line) if found is not None else cls(store, None, Index(Trimmed()), 0)

    def append(self, *records: Record) -> None:
        """Make records durable, all of them or none. Raises ``Fenced`` if a newer driver has taken over."""
        with self._lock:
            lease = self._checked_lease()
            news = self._index.news(records)
            if not news:
                return
            suspect, self._suspect = self._suspect, True
            if suspect:
                self._rewrite(self._index, news)
            else:
                line = seal({"line": self._line + 1, "records": [to_json(record) for record in news]})
                self._store.append(layout.ledger(lease.generation), line)
                self._line += 1
            lease.check()
            for record in news:
                self._index.add(record)
            self._suspect = False

    def trim(self, epoch: Epoch) -> None:
        """Forget the records up to ``epoch``, which the oldest kept checkpoint covers; what follows from them stays."""
        with self._lock:
            self._checked_lease()
            index = self._index.trimmed(epoch)
            if index is not self._index:
                self._suspect = True
                self._rewrite(index, ())
                self._index, self._suspect = index, False

    def admitted(self, epoch: Epoch) -> Admitted | None:
        """The epoch as it was admitted; None if it was not, or is trimmed."""
        return self._index.admitted.get(epoch)

    def committed(self, unit: UnitName) -> Epoch:
        """The last epoch the unit has committed; 0 if none."""
        return self._index.committed.get(unit, Epoch(0))

    @property
    def committed_units(self) -> Mapping[UnitName, Epoch]:
        """By unit, the last epoch it has committed."""
        return dict(self._index.committed)

    def offset(self, source: SourceName) -> Offset:
        """Where the source's next slice begins; 0 if it never had one."""
        return self._index.offsets.get(source, Offset(0))

    def event_times_ms(self, epoch: Epoch) -> Mapping[OperatorName, int]:
        """The newest event time of each operator up to and including that epoch, which must not be trimmed away."""
        return self._index.event_times_ms(epoch)

    @property
    def partitioned(self) -> Mapping[OperatorName, Partitioned]:
        """How operators' slots are divided among shards, where that was written down."""
        return self._index.partitioned

    @property
    def last_admitted(self) -> Epoch:
        """The last admitted epoch; 0 if none."""
        return self._index.last_admitted

    @property
    def ended(self) -> bool:
        """The last epoch of an input that ended was admitted: watermarks are at the end of time for good."""
        return self._index.ended

    @property
    def last_time_ms(self) -> int:
        """The time of the last admitted epoch; 0 if none."""
        return self._index.last_time_ms

    @property
    def trimmed_to(self) -> Epoch:
        """Up to this epoch the records are gone: no checkpoint of an earlier one can be continued from."""
        return self._index.base.epoch

    def _checked_lease(self) -> Lease:
        assert self._lease is not None, "this ledger was opened for reading only"
        self._lease.check()
        return self._lease

    def _rewrite(self, index: Index, news: list[Record] | tuple[()], accepts: dict[str, int] | None = None) -> None:
        """Write the whole file anew. Line numbers go on: so lines that a crash leaves behind it are known as old."""
        assert self._lease is not None
        generation, first = self._lease.generation, self._line + 1
        last = first

        def lines() -> Iterator[bytes]:
            nonlocal last
            yield seal({"line": first, "opened": generation, "accepts": accepts, "trimmed": asdict(index.base)})
            for record in (*index.records, *news):
                last += 1
                yield seal({"line": last, "records": [to_json(record)]})

        self._store.write(layout.ledger(generation), lines())
        self._line = last


def _generations(store: Store) -> list[Generation]:
    return [g for name in store.list(layout.LEDGERS) if (g := layout.generation_of(name)) is not None]


def _newest(store: Store) -> _Found | None:
    """The newest generation that has a ledger. One that died before it had a first line has none."""
    for generation in sorted(_generations(store), reverse=True):
        path = layout.ledger(generation)
        where = store.uri(path)
        try:
            bodies, torn = unseal_lines(store.read(path), where)
            if bodies:
                return _replayed(generation, bodies, torn)
        except FileNotFoundError:
            continue  # trimmed away by its driver while we looked
        except CorruptData as error:
            raise CorruptData(
                f"{error}; put the file back from a copy of the root, or delete the root to start afresh"
            ) from error
        except (KeyError, TypeError, ValueError, PerseidError) as error:
            raise CorruptData(f"{where} was written by another version of Perseid: {error!r}") from error
    return None


def _replayed(generation: Generation, bodies: list[dict[str, Any]], torn: bool) -> _Found:
    first = bodies[0]
    line = first["line"]
    index = Index(Trimmed(**first["trimmed"]))
    for body in bodies[1:]:
        if body["line"] <= line:
            continue  # of the file before it was rewritten
        line = body["line"]
        for record in map(from_json, body["records"]):
            index.add(record)
    return _Found(generation, index, line, torn)
