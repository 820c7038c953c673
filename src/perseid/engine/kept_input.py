"""Which epochs of a shard's input its host keeps on the machine's disk: the fastest way to catch up after a loss (S1, S4).

What is kept is a short cut, never the truth: what is missing, torn or beyond the epochs that the controller knows to be finished is
replayed from the sources.

Invariant: what is kept since the last snapshot has no gap. Once an epoch could not be kept, none is until the next snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perseid.vocabulary import Epoch

LIMIT_BYTES = 1 << 30  # of one shard, since its last snapshot


@dataclass(slots=True)
class KeptInput:
    """Of one shard."""

    epochs: set[Epoch] = field(default_factory=set)
    bytes: int = 0  # since the last snapshot
    gap: bool = False

    def taken_over(self, entries: Mapping[Epoch, int], upto: Epoch) -> list[Epoch]:
        """An earlier home kept these (bytes by epoch). Returns those beyond ``upto``, which are not to be trusted."""
        self.epochs = {epoch for epoch in entries if epoch <= upto}
        self.bytes = sum(entries[epoch] for epoch in self.epochs)
        return sorted(entries.keys() - self.epochs)

    def has_room(self) -> bool:
        """May the next epoch be kept?"""
        self.gap = self.gap or self.bytes > LIMIT_BYTES
        return not self.gap

    def kept(self, epoch: Epoch, size: int | None) -> None:
        """An epoch was written (its bytes), or could not be (None)."""
        if size is None:
            self.gap = True
            self.epochs.discard(epoch)
        else:
            self.bytes += size
            self.epochs.add(epoch)

    def snapshot_taken(self) -> None:
        """From here on input without a gap is of use again."""
        self.gap, self.bytes = False, 0

    def covered(self, upto: Epoch) -> list[Epoch]:
        """A committed checkpoint covers these epochs, which are kept no longer."""
        gone = sorted(epoch for epoch in self.epochs if epoch <= upto)
        self.epochs.difference_update(gone)
        return gone
