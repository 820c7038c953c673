"""Answers a shard keeps: in memory, or in a file on the machine's own disk when they have to be kept for long (S1, buffer state).

Operators below read them again after a loss. They are a short cut to what the sources have, so what there is no room for is let go: then a
loss below takes the whole application back.

Invariant: of one shard's answers the two newest and at most ``MEMORY_BYTES`` more are in memory, at most ``DISK_BYTES`` on disk.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from perseid.vocabulary import Epoch, ShardId

NEWEST = 2  # always in memory: most questions are about them
MEMORY_BYTES = 4 << 20
DISK_BYTES = 1 << 30


@dataclass(slots=True)
class Answer:
    """One epoch's output of one shard."""

    name: str
    table: pa.Table | None
    size: int
    path: Path | None = None


class Spill:
    """Moves answers out of memory and back."""

    def __init__(self, folder: Path, memory_bytes: int = MEMORY_BYTES, disk_bytes: int = DISK_BYTES) -> None:
        self._folder, self._memory_bytes, self._disk_bytes = folder, memory_bytes, disk_bytes

    def keep(self, table: pa.Table, shard: ShardId, epoch: Epoch) -> Answer:
        return Answer(f"{shard.operator}-{shard.index}-{epoch}.arrow", table, table.nbytes)

    def shrink(self, answers: dict[Epoch, Answer]) -> Epoch | None:
        """Move answers to disk until the rest fits into memory. Returns the newest epoch whose answer there is no room for, if any."""
        in_memory = on_disk = 0
        for number, epoch in enumerate(sorted(answers, reverse=True)):
            answer = answers[epoch]
            if answer.table is not None:
                in_memory += answer.size if number >= NEWEST else 0
                if in_memory <= self._memory_bytes:
                    continue
                in_memory -= answer.size
            on_disk += answer.size
            if on_disk > self._disk_bytes or not self._on_disk(answer):
                return epoch
        return None

    def _on_disk(self, answer: Answer) -> bool:
        if answer.table is None:
            return True
        path = self._folder / answer.name
        try:
            self._folder.mkdir(exist_ok=True)
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, answer.table.schema) as writer:
                writer.write_table(answer.table)
        except OSError:  # the machine's disk is full
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
            return False
        answer.path, answer.table = path, None
        return True

    def table(self, answer: Answer) -> pa.Table:
        if answer.table is not None:
            return answer.table
        with pa.OSFile(str(answer.path), "rb") as file:
            return pa.ipc.open_file(file).read_all()

    def forget(self, answer: Answer) -> None:
        if answer.path is not None:
            with contextlib.suppress(FileNotFoundError):
                answer.path.unlink()
