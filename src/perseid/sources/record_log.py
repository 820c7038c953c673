"""A durable list of records that only grows, private to one source: record n is what offset n stands for (M1).

One file per opening, named by a rising number; opening copies every record into a new file and goes on there. So the
newest whole file is the log, a torn last line stays behind with its old file, and a driver that was taken over may
append to its own file as long as it likes: nobody reads that file any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from perseid.errors import CorruptData, StorageFailed
from perseid.storage.sealed import seal, unseal_lines
from perseid.storage.store import Store

Record = dict[str, Any]

_DIGITS = 8
_ATTEMPTS = 100


class RecordLog:
    """The records of one source, in the order they were appended."""

    def __init__(self, store: Store, path: str, records: list[Record]) -> None:
        self._store = store
        self._path = path
        self._records = records

    @classmethod
    def open(cls, store: Store, folder: str) -> RecordLog:
        """Read the newest whole file below ``folder`` and go on in a new one."""
        numbers = sorted({int(name[:_DIGITS]) for name in store.list(folder) if name[:_DIGITS].isdigit()})
        records = _newest(store, folder, numbers)
        content = seal({"copied": len(records)}) + b"".join(seal(record) for record in records)
        first = numbers[-1] + 1 if numbers else 1
        for number in range(first, first + _ATTEMPTS):
            if store.create(_file(folder, number), content):
                break
        else:
            raise StorageFailed(f"{store.uri(folder)}: {_ATTEMPTS} attempts to create a new log file failed")
        for old in numbers:
            store.delete(_file(folder, old))
        return cls(store, _file(folder, number), records)

    def __len__(self) -> int:
        return len(self._records)

    @property
    def records(self) -> Sequence[Record]:
        return self._records

    def append(self, records: Iterable[Record]) -> None:
        """Add records; they are durable when this returns. Raises ``Fenced`` if a newer driver has taken over."""
        new = list(records)
        if new:
            self._store.append(self._path, b"".join(seal(record) for record in new))
            self._store.check()  # after it: if nobody newer is there by now, whoever comes reads these records
            self._records.extend(new)


def _newest(store: Store, folder: str, numbers: Sequence[int]) -> list[Record]:
    for number in reversed(numbers):
        path = _file(folder, number)
        lines, _ = unseal_lines(store.read(path), store.uri(path))
        if lines and len(lines) > lines[0]["copied"]:
            return lines[1:]
    if numbers:
        raise CorruptData(f"{store.uri(folder)}: no log file of this source is whole; restore one, or use a new root")
    return []


def _file(folder: str, number: int) -> str:
    return f"{folder}/{number:0{_DIGITS}d}.jsonl"
