"""Keys and values on the machine's own disk, in SQLite files: what a spilled field does not hold in memory (S2, ``spill``).

The store is levels of files, newest first. Only the newest is written; a key is looked up from the newest down, and a key whose
value there is NULL is gone. For a snapshot the levels are *sealed*: whatever is written from then on goes into a new one, so that
a forked child can read the files, byte by byte and without SQLite, while the parent goes on. When nobody reads any more, newer
levels are moved into the oldest, a bounded number of rows at a time.

It is no durability: snapshots are. Files are unlinked as soon as they are open, so they go with the process, however it ends;
nothing is synced.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from perseid.errors import StorageFailed
from perseid.state.spill_codec import Key, Packed

ROWS = 2_000  # written in one transaction, read in one query
_LEVELS = 4  # more are merged at once, whatever it takes
_SPARE_PAGES = 256  # so many unused pages of a file are not worth giving back

_KINDS = (int, str, bytes)


class Seal:
    """Somebody reads the levels there are now."""

    released = False

    def release(self) -> None:
        """Done with it; may be called by any thread."""
        self.released = True


class SpillStore:
    """All levels of one field."""

    def __init__(self, cache_bytes: int, files: Iterable[memoryview | bytes] = ()) -> None:
        """With the contents of files, newest first, it is the store they were of."""
        self._cache_bytes = cache_bytes
        self._levels = [_Level(cache_bytes, file) for file in files]
        self._sealed = 0  # so many of the levels, from the oldest, are not to be written
        self._seals: list[Seal] = []

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return not self._levels

    @property
    def nbytes(self) -> int:
        return sum(level.size for level in self._levels)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Packed]:
        """Those of the keys that there are, with their values."""
        found: dict[Key, Packed | None] = {}
        wanted = in_order(keys)
        for level in self._levels:
            for start in range(0, len(wanted), ROWS):
                found.update(level.get_many(wanted[start : start + ROWS]))
            wanted = [key for key in wanted if key not in found]
        return {key: packed for key, packed in found.items() if packed is not None}

    def put_many(self, entries: Sequence[tuple[Key, Packed | None]]) -> None:
        """Write values; None makes a key gone. Keys in order are the quickest. Of an error all of ``ROWS`` entries are taken back."""
        if len(self._levels) == self._sealed:
            self._levels.insert(0, _Level(self._cache_bytes))
        newest, last = self._levels[0], len(self._levels) == 1
        for start in range(0, len(entries), ROWS):
            newest.put_many(entries[start : start + ROWS], last=last)

    def scan(self) -> Iterator[list[tuple[Key, Packed]]]:
        """All entries, some at a time, in the order of their keys whatever level they are in. Entries may be written meanwhile."""
        after: Key | None = None
        while True:
            chunks = [level.after(after) for level in self._levels]
            full = [chunk[-1][0] for chunk in chunks if len(chunk) == ROWS]
            upto = min(full, key=_place) if full else None
            found: dict[Key, Packed | None] = {}
            for chunk in reversed(chunks):  # newer ones count
                found.update(chunk if upto is None else [e for e in chunk if _place(e[0]) <= _place(upto)])
            yield [(key, packed) for key in in_order(found) if (packed := found[key]) is not None]
            if upto is None:
                return
            after = upto

    def seal(self) -> Seal:
        """Leave the levels there are as they are until it is released."""
        self._sealed = len(self._levels)
        self._seals.append(Seal())
        return self._seals[-1]

    def files(self) -> list[mmap.mmap]:
        """The levels as they are on disk, newest first; fork-safe."""
        return [level.mapped() for level in self._levels]

    def tidy(self, rows: int) -> None:
        """Move so many rows of newer levels into the oldest, if nobody reads."""
        self._seals = [seal for seal in self._seals if not seal.released]
        if self._seals:
            return
        self._sealed = 0
        while len(self._levels) > 1 and (rows > 0 or len(self._levels) > _LEVELS):
            oldest, above = self._levels[-1], self._levels[-2]
            moved = above.first(ROWS)
            oldest.put_many(moved, last=True)
            above.drop([key for key, _ in moved])
            if len(moved) < ROWS:
                del self._levels[-2]
            rows -= len(moved)
        if len(self._levels) == 1:
            self._levels[0].give_back()


class _Level:
    """One SQLite file."""

    def __init__(self, cache_bytes: int, content: memoryview | bytes = b"") -> None:
        try:
            self._file, path = tempfile.mkstemp(prefix="perseid-spill-", dir=_folder())
            self._open(path, cache_bytes, content)
        except (OSError, sqlite3.Error) as error:
            raise StorageFailed(f"spilled state cannot be written to {_folder()}: {error}; make room there") from error

    def _open(self, path: str, cache_bytes: int, content: memoryview | bytes) -> None:
        try:
            with os.fdopen(self._file, "wb", closefd=False) as file:
                file.write(content)
            self._sql = sqlite3.connect(
                f"file:{path}?nolock=1", uri=True, isolation_level=None, check_same_thread=False
            )
            for pragma in (f"cache_size = -{max(256, cache_bytes >> 10)}", "synchronous = off", "mmap_size = 0"):
                self._sql.execute(f"PRAGMA {pragma}")
            self._sql.execute("PRAGMA journal_mode = memory").fetchall()  # a write that fails half-way is taken back
            if not content:
                self._sql.execute("PRAGMA auto_vacuum = incremental")
                self._sql.execute("CREATE TABLE entries (k PRIMARY KEY, v) WITHOUT ROWID")
        finally:
            Path(path).unlink()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # it could not be opened
            os.close(self._file)
            self._sql.close()

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def mapped(self) -> mmap.mmap:
        return mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)

    def get_many(self, keys: Sequence[Key]) -> list[tuple[Key, Packed | None]]:
        if len(keys) == 1:
            return self._sql.execute("SELECT k, v FROM entries WHERE k = ?", keys).fetchall()
        asked = ",".join("?" * len(keys))
        return self._sql.execute(f"SELECT k, v FROM entries WHERE k IN ({asked})", keys).fetchall()

    def put_many(self, entries: Sequence[tuple[Key, Packed | None]], *, last: bool) -> None:
        """``last``: below it is nothing that a missing value would have to hide."""
        gone = [(key,) for key, packed in entries if packed is None] if last else []
        kept = [entry for entry in entries if entry[1] is not None] if gone else entries
        self._sql.execute("BEGIN")
        try:
            self._sql.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", kept)
            self._sql.executemany("DELETE FROM entries WHERE k = ?", gone)
            self._sql.execute("COMMIT")
        except BaseException:
            if self._sql.in_transaction:
                self._sql.execute("ROLLBACK")
            raise

    def after(self, key: Key | None) -> list[tuple[Key, Packed | None]]:
        where, given = ("", ()) if key is None else ("WHERE k > ?", (key,))
        return self._sql.execute(f"SELECT k, v FROM entries {where} ORDER BY k LIMIT {ROWS}", given).fetchall()

    def first(self, rows: int) -> list[tuple[Key, Packed | None]]:
        return self._sql.execute("SELECT k, v FROM entries ORDER BY k LIMIT ?", (rows,)).fetchall()

    def drop(self, keys: Sequence[Key]) -> None:
        self._sql.execute("BEGIN")
        self._sql.executemany("DELETE FROM entries WHERE k = ?", [(key,) for key in keys])
        self._sql.execute("COMMIT")

    def give_back(self) -> None:
        """Unused pages are read and written with every snapshot: give them back when there are many."""
        (unused,) = self._sql.execute("PRAGMA freelist_count").fetchone()
        (pages,) = self._sql.execute("PRAGMA page_count").fetchone()
        if unused > max(_SPARE_PAGES, pages // 4):
            self._sql.executescript(
                f"PRAGMA incremental_vacuum({2 * _SPARE_PAGES})"
            )  # execute() would stop after a page


def _place(key: Key) -> tuple[int, Key]:
    """SQLite's order: numbers, then texts, then bytes."""
    return _KINDS.index(type(key)), key


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Keys as the store has them: neighbours lie on one page."""
    keys = list(keys)
    try:
        return sorted(keys)
    except TypeError:  # keys of several types
        return sorted(keys, key=_place)


def _folder() -> str:
    """Where Spark itself spills, in a task of Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
