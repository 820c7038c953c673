"""A shard's input since its last snapshot, on the machine's own disk: the fastest way to catch up after its host was killed (S1, S4).

Before a host reports an epoch it writes the rows it applied, with the request that it applied them for, into a file of the shard. A killed
process does not take the page cache with it, so nothing is synced: whoever restores the shard on the same machine takes the files over
and applies them without a Spark job. Which epochs are kept is ``KeptInput``'s to say.

Invariant: an entry that is read holds exactly the rows with which the epoch was applied.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from perseid.channel.input_file import read_input, write_input
from perseid.engine.messages import ApplyEpoch
from perseid.vocabulary import Epoch, ShardId


class InputFiles:
    """The files of one host's shards, in its folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take_over(self, shard: ShardId, others: Iterable[Path]) -> dict[Epoch, int]:
        """Go on with the files of an earlier home of the shard, the first that has any. Bytes by epoch."""
        mine = self._of(shard)
        mine.parent.mkdir(exist_ok=True)
        for other in others:
            if mine.exists():
                break
            with contextlib.suppress(OSError):
                (other / _name(shard)).rename(mine)
        mine.mkdir(exist_ok=True)
        paths = [path for path in mine.iterdir() if path.name.isdecimal()]
        return {Epoch(int(path.name)): path.stat().st_size for path in paths}

    def write(self, request: ApplyEpoch, rows: pa.Table) -> int | None:
        """Keep one applied epoch; its bytes. None if there is no room, or another home has taken over."""
        path = self._of(request.shard) / str(request.epoch)
        temporary = path.with_suffix(".new")
        try:
            size = write_input(temporary, request, rows)
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            return None
        return size

    def read(self, shard: ShardId, epoch: Epoch) -> tuple[ApplyEpoch, pa.Table] | None:
        """What the epoch was applied with; None if that is missing or damaged."""
        return read_input(self._of(shard) / str(epoch))

    def delete(self, shard: ShardId, epochs: Sequence[Epoch]) -> None:
        for epoch in epochs:
            with contextlib.suppress(OSError):
                (self._of(shard) / str(epoch)).unlink()

    def forget(self, shard: ShardId) -> None:
        shutil.rmtree(self._of(shard), ignore_errors=True)

    def _of(self, shard: ShardId) -> Path:
        return self._folder / _name(shard)


def _name(shard: ShardId) -> str:
    return f"{shard.operator}-{shard.index}"
