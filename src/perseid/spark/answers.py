"""Answers a shard keeps: in memory, or in a file on the machine's own disk when they have to be kept for long (S1, buffer state)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from perseid.vocabulary import Epoch, ShardId


@dataclass(slots=True)
class Answer:
    """One epoch's output of one shard."""

    name: str
    table: pa.Table | None
    path: Path | None = None


class Spill:
    """Moves answers out of memory and back."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, table: pa.Table, shard: ShardId, epoch: Epoch) -> Answer:
        return Answer(f"{shard.operator}-{shard.index}-{epoch}.arrow", table)

    def shrink(self, answers: dict[Epoch, Answer], keep: int) -> None:
        """Leave at most ``keep`` answers in memory; older ones go to disk."""
        for epoch in sorted(answers)[:-keep]:
            answer = answers[epoch]
            if answer.table is None:
                continue
            path = self._folder / answer.name
            try:
                self._folder.mkdir(exist_ok=True)
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, answer.table.schema) as writer:
                    writer.write_table(answer.table)
            except OSError:
                return  # no room on this machine's disk: they stay in memory
            answer.path, answer.table = path, None

    def table(self, answer: Answer) -> pa.Table:
        if answer.table is not None:
            return answer.table
        with pa.OSFile(str(answer.path), "rb") as file:
            return pa.ipc.open_file(file).read_all()

    def forget(self, answer: Answer) -> None:
        if answer.path is not None:
            with contextlib.suppress(FileNotFoundError):
                answer.path.unlink()
