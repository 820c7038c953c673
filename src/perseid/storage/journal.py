"""The journal: what happened, one JSON object a line, for people, dashboards and tests. Nothing depends on it.

Invariant: recording never waits for storage and never takes more than a bounded amount of memory; ``flush``, called
by a thread of the driver, writes, and does not wait for the disk. A torn line is skipped by the reader. What is old is merged and
dropped beside it, by a thread of its own (``journal_segments``). Spec: design 4.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from perseid.errors import PerseidError
from perseid.storage import layout
from perseid.storage.journal_segments import Limits, Segment, segments, tidy
from perseid.storage.store import Store
from perseid.vocabulary import Generation

CAPACITY = 100_000
"""Records kept between two flushes; with more, or while storage fails, the oldest are dropped, and it says how many."""

APPENDS = 64
"""On storage where every append is an object of its own, a segment has no more of them than this."""

DETAILED = 8 << 20
"""So many of the newest bytes of a journal are read with all kinds of records, by who wants the rest in brief."""

_ATTEMPTS = 10
_LIMITS = Limits()


class Journal:
    """The journal of one generation of the driver. Many threads may record.

    ``continued``, where it is set, says what every segment but the first begins with: a record for readers of that segment alone, since
    those before it are read later, or were dropped.
    """

    def __init__(
        self,
        store: Store,
        generation: Generation,
        *,
        now_ms: Callable[[], int],
        capacity: int = CAPACITY,
        limits: Limits = _LIMITS,
        folder: str = layout.JOURNALS,
    ) -> None:
        self._folder = folder
        self._store = store
        self._generation = generation
        self._now_ms = now_ms
        self._limits = limits
        self._lines: deque[bytes] = deque(maxlen=capacity)
        self._number = 0  # of the last record
        self._dropped = 0
        self._adding = threading.Lock()
        self._flushing = threading.Lock()
        self._segment: Segment | None = None
        self._bytes = self._appends = 0  # of the segment
        self.continued: Callable[[], tuple[str, dict[str, Any]]] | None = None
        self._continues = False  # the next thing to be written is what ``continued`` says
        self._unsealed: list[Segment] = []  # closed, and still many objects
        self._tidy_before: Segment | None = None
        self._tidying: threading.Thread | None = None

    def record(self, kind: str, **fields: Any) -> None:
        """Say that something happened now. What JSON does not know is written as text."""
        self._add(self._line(kind, fields))

    def add(self, record: bytes) -> None:
        """A record that is a JSON object already."""
        self._add(b'"generation":%d,%b\n' % (self._generation, record[1:]))

    def _add(self, line: bytes) -> None:
        with self._adding:
            self._number += 1
            self._dropped += len(self._lines) == self._lines.maxlen
            self._lines.append(b'{"seq":%d,%b' % (self._number, line))

    def flush(self) -> None:
        """Write what was recorded. If it raises ``StorageFailed``, the records are kept for the next time."""
        with self._flushing:
            with self._adding:
                lines, dropped = list(self._lines), self._dropped
                before = self._number - len(lines)
                self._lines.clear()
                self._dropped = 0
            if dropped:
                said = self._line("journal_dropped", {"records": dropped})
                lines.insert(0, b'{"seq":%d,%b' % (before, said))
            if not lines:
                return
            try:
                segment, closed = self._writable()
                data = b"".join([self._first(), *lines])
                self._store.append(segment.path, data, durable=False)
                self._continues = False
            except BaseException:
                with self._adding:
                    kept = [*lines[1 if dropped else 0 :], *self._lines]
                    self._dropped += dropped + max(len(kept) - (self._lines.maxlen or len(kept)), 0)
                    self._lines.clear()
                    self._lines.extend(kept)
                raise
            self._bytes += len(data)
            self._appends += 1
            if closed:
                self._tidy(segment)

    def close(self) -> None:
        """Write what is left."""
        self.flush()
        if (tidying := self._tidying) is not None:
            tidying.join(10.0)

    def _first(self) -> bytes:
        """What a segment begins with, where one has just begun."""
        if not self._continues or self.continued is None:
            return b""
        with self._adding:
            self._number += 1
            number = self._number
        kind, fields = self.continued()
        return b'{"seq":%d,%b' % (number, self._line(kind, fields))

    def _line(self, kind: str, fields: dict[str, Any]) -> bytes:
        """A record as JSON but for its beginning, its number."""
        entry = {"at_ms": self._now_ms(), "kind": kind, "generation": self._generation, **fields}
        return json.dumps(entry, separators=(",", ":"), default=str, skipkeys=True).encode()[1:] + b"\n"

    def _writable(self) -> tuple[Segment, bool]:
        """The segment to write to, and whether one before it was closed for it."""
        segment = self._segment
        if segment is None:
            there = segments(self._store, self._folder)
            part = max((s.part for s in there if s.generation == self._generation), default=0) + 1
            self._unsealed += [s for s in there if s.generation < self._generation][-1:]
        elif self._bytes >= self._limits.segment_bytes or (self._remote and self._appends >= APPENDS):
            part, self._continues = segment.part + 1, True
            self._unsealed.append(segment)
        else:
            return segment, False
        self._segment, self._bytes, self._appends = Segment(self._generation, part, self._now_ms(), self._folder), 0, 0
        return self._segment, True

    @property
    def _remote(self) -> bool:
        return self._store.local is None

    def _tidy(self, current: Segment) -> None:
        """Beside: nobody waits for it. One thread at a time, which goes on until it has seen the newest segment."""
        with self._adding:
            self._tidy_before = current
            if self._tidying is None or not self._tidying.is_alive():
                self._tidying = threading.Thread(target=self._work, name="perseid-journal", daemon=True)
                self._tidying.start()

    def _work(self) -> None:
        while True:
            with self._adding:
                current, self._tidy_before = self._tidy_before, None
                if current is None:
                    self._tidying = None
                    return
                unsealed, self._unsealed = self._unsealed if self._remote else [], []
            try:
                tidy(self._store, current, self._limits, self._now_ms(), unsealed)
            except PerseidError:  # storage fails, or a newer driver has the root
                with self._adding:
                    self._unsealed += unsealed  # tried again with the next segment


class JournalReader:
    """Reads the journal of a root, again and again: every record once.

    ``in_detail``: kinds that are left out where the journal is old, so that a long one is read fast. ``newest_bytes``: it begins with
    the segment that so many of the newest bytes lie behind.
    """

    def __init__(
        self,
        store: Store,
        folder: str = layout.JOURNALS,
        *,
        in_detail: Collection[str] = (),
        newest_bytes: int | None = None,
    ) -> None:
        self._store, self._folder, self._newest_bytes = store, folder, newest_bytes
        self._first: Segment | None = None  # before it nothing is read
        kinds = "|".join(map(re.escape, in_detail)).encode()
        self._detail = (
            re.compile(rb'^\{"seq":\d+,"at_ms":\d+,"kind":"(?:%b)"[^\n]*\n' % kinds, re.MULTILINE) if kinds else None
        )
        self._briefly: set[Segment] = set()
        self._seen: dict[Generation, set[int]] = {}
        self._read: dict[Segment, int] = {}  # bytes of segments, as they were read
        self._inodes: dict[Segment, int] = {}
        self._torn: dict[Segment, int] = {}  # lines that are no records
        self._unended: set[Segment] = set()  # their last line has no end
        self._newest: Segment | None = None

    @property
    def torn(self) -> int:
        """Lines that could not be read: torn by a crash, or damaged. A last line without its end may still be written; it counts when
        another segment follows."""
        return sum(self._torn.values()) + len(self._unended - {self._newest})

    @property
    def leaves_out(self) -> bool:
        """Is there more of the journal than it reads, as ``newest_bytes`` said?"""
        return self._first is not None

    def new(self) -> Iterator[dict[str, Any]]:
        """The records that were not read before, in all generations, oldest first. Lines that cannot be read are skipped.

        A segment that goes away meanwhile was merged into one after it, or dropped.
        """
        for attempt in range(_ATTEMPTS):
            try:
                listed = self._listed()
                self._briefly = self._old(listed)
                for segment in listed:
                    yield from self._unseen(segment)
                return
            except FileNotFoundError:
                time.sleep(0.05 * attempt)  # remote storage takes its time to delete many objects
        for segment in self._listed():
            with suppress(FileNotFoundError):
                yield from self._unseen(segment)

    def _listed(self) -> list[Segment]:
        """Listed twice: a listing may miss a file that is replaced at that moment."""
        listed = sorted({*segments(self._store, self._folder), *segments(self._store, self._folder)})
        if self._newest_bytes is not None:
            older = self._older_than(self._newest_bytes, listed)
            self._first = listed[len(older)] if older else None
            self._newest_bytes = None
        self._newest = listed[-1] if listed else None
        return listed if self._first is None else [segment for segment in listed if segment >= self._first]

    def _unseen(self, segment: Segment) -> Iterator[dict[str, Any]]:
        if segment in self._read and self._store.size(segment.path) == self._read[segment]:
            return
        data, begin, end, unended = self._appended(segment)
        torn = self._torn.get(segment, 0) if begin else 0
        if self._detail is not None and segment in self._briefly:
            data = self._detail.sub(b"", data)
        for entry in _entries(data):
            try:
                number, seen = entry.pop("seq"), self._seen.setdefault(entry["generation"], set())
            except (KeyError, TypeError, AttributeError):
                torn += 1
                continue
            if number not in seen:
                seen.add(number)
                yield entry
        self._read[segment], self._torn[segment] = end, torn
        (self._unended.add if unended else self._unended.discard)(segment)

    def _appended(self, segment: Segment) -> tuple[bytes, int, int, bool]:
        """What was not read yet, up to the last whole line, where that begins and where it ends, and whether there is a piece of a line
        behind it. On a local root only that is read; where the file is another one than before (it was merged), all of it."""
        if self._store.local is None:
            data = self._store.read(segment.path)
            whole = data.rfind(b"\n") + 1
            return data[:whole], 0, len(data), whole < len(data)
        with (self._store.local / segment.path).open("rb") as file:
            inode, begin = os.fstat(file.fileno()).st_ino, 0
            if self._inodes.get(segment) == inode:
                begin = self._read.get(segment, 0)
            self._inodes[segment] = inode
            file.seek(begin)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        return data[:whole], begin, begin + whole, whole < len(data)

    def _old(self, listed: Sequence[Segment]) -> set[Segment]:
        """All but those that hold the newest bytes."""
        return set(self._older_than(DETAILED, listed)) if self._detail is not None else set()

    def _older_than(self, newest_bytes: int, listed: Sequence[Segment]) -> list[Segment]:
        """Segments that lie before so many of the newest bytes."""
        total = 0
        for number in reversed(range(len(listed))):
            if total > newest_bytes:
                return list(listed[: number + 1])
            with suppress(FileNotFoundError):
                total += self._store.size(listed[number].path)
        return []


def _entries(data: bytes) -> Iterator[Any]:
    """Every line; None where it cannot be read. All at once is three times as fast; where a line is torn, line by line."""
    try:
        yield from json.loads(b"[%b]" % b",".join(data.split(b"\n")[:-1]))
        return
    except ValueError:
        pass
    for line in filter(None, data.split(b"\n")):
        try:
            yield json.loads(line)
        except ValueError:
            yield None


def read_journal(store: Store) -> Iterator[dict[str, Any]]:
    """What happened, in all generations, oldest first. Lines that cannot be read are skipped."""
    return JournalReader(store).new()
