"""Streams between units: which epochs are kept, read again from a checkpoint's file, made again, or gone (design §2).

transient  kept until every consumer is past it
retained   the same; but hosts keep the answers it was made of until a checkpoint covers them, so it can be made again (S1)
buffered   kept until the consumers' checkpoint covers it (M2)
durable    written under the root before the consumer sees it: a connector's pending window (B1)

Invariant: an epoch that is made again is asked for under the routing of the command that needs it, never under a newer one. The
routing table of this moment may name hosts that do not hold their shards yet, and shards that never applied the epoch.

What is done with rows (``StreamRows``) is Spark's work, or the simulation's. Many threads may use a store, if ``alone`` is a lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from perseid.errors import ApplicationFailed
from perseid.scaling.routing import RoutingTable
from perseid.vocabulary import Epoch, Keeping, StreamName

Rows = TypeVar("Rows")


class StreamGone(ApplicationFailed):
    """An epoch of a stream is kept nowhere: whoever needs it must go back to a checkpoint."""


class StreamRows(Protocol[Rows]):
    """What can be done with the rows of one epoch of a stream."""

    def preserve(self, stream: StreamName, epoch: Epoch, digest: str, rows: Rows) -> None:
        """Make them durable under the root, unless they are there with this digest."""

    def preserved(self, stream: StreamName, epoch: Epoch) -> Rows:
        """What ``preserve`` wrote."""

    def keep(self, stream: StreamName, epoch: Epoch, rows: Rows, keeping: Keeping) -> Rows:
        """Compute them now, and hold the result for those who read it."""

    def hold(self, rows: Rows) -> Rows:
        """Hold the result when somebody has computed it."""

    def let_go(self, stream: StreamName, epoch: Epoch, rows: Rows) -> None:
        """Nobody reads them any more."""

    def load(self, stream: StreamName, path: str) -> Rows:
        """What ``save`` wrote, perhaps in an earlier run. Raises ``CorruptData`` if it is not all there."""

    def save(self, rows: Rows, path: str) -> int:
        """Make them durable as a part of a checkpoint; their bytes."""

    def again(self, stream: StreamName, epoch: Epoch, routing: RoutingTable) -> Rows:
        """Make them once more, from sources, the answers that the hosts of this routing keep, and streams that are read ``again``."""

    def trim(self, stream: StreamName, epoch: Epoch) -> None:
        """Delete what ``preserve`` wrote, up to this epoch."""


class StreamStore(Generic[Rows]):
    """What lies between units now."""

    def __init__(
        self,
        kinds: Mapping[StreamName, Keeping],
        rows: StreamRows[Rows],
        alone: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        self._kinds, self._rows = kinds, rows
        self._alone = contextlib.nullcontext() if alone is None else alone
        self._kept: dict[tuple[StreamName, Epoch], Rows] = {}
        self._saved: dict[tuple[StreamName, Epoch], str] = {}  # in-flight epochs of the checkpoint that was restored
        self._offered: dict[tuple[StreamName, Epoch], str] = {}  # the same, for shards that go back alone

    def put(self, stream: StreamName, epoch: Epoch, digest: str, rows: Rows) -> None:
        """A unit has computed an epoch of one of its streams: keep it for the consumers."""
        if self._kinds[stream] == "durable":
            self._rows.preserve(stream, epoch, digest, rows)
            return
        self._drop(stream, epoch)  # before: Spark takes equal plans for one, and would drop the new one with the old
        kept = self._rows.keep(stream, epoch, rows, self._kinds[stream])
        with self._alone:
            self._kept[stream, epoch] = kept

    def read(self, stream: StreamName, epoch: Epoch, routing: RoutingTable, *, again: bool = False) -> Rows:
        """An epoch for a consumer, whose command has this routing. ``again``: what was made of it is made once more."""
        if self._kinds[stream] == "durable":
            return self._rows.preserved(stream, epoch)
        if again:
            self.refresh(stream, epoch, routing)
        found = self._find(stream, epoch)
        if found is not None:
            return found
        if self._kinds[stream] == "retained":
            return self._rows.again(stream, epoch, routing)
        raise StreamGone(f"stream {stream!r}: epoch {epoch} is no longer kept")

    def refresh(self, stream: StreamName, epoch: Epoch, routing: RoutingTable) -> None:
        """A job that read this epoch has failed: what is kept may know hosts that are gone. Have it made again when it is read."""
        with self._alone:
            if (stream, epoch) not in self._kept:
                return
            saved = self._file(stream, epoch)
        if saved is not None:  # hosts that came back from that checkpoint have no answer from before it
            self._drop(stream, epoch)
            return
        fresh = self._rows.again(stream, epoch, routing)
        self._drop(stream, epoch)
        held = self._rows.hold(fresh)
        with self._alone:
            self._kept[stream, epoch] = held

    def save(self, stream: StreamName, epoch: Epoch, path: str) -> int:
        """Save an epoch as part of a checkpoint (M4); its bytes. It is kept until that is done, so it is never made again for it."""
        found = self._find(stream, epoch)
        if found is None:
            raise StreamGone(f"stream {stream!r}: epoch {epoch} is no longer kept, a checkpoint cannot save it")
        return self._rows.save(found, path)

    def release(self, stream: StreamName, epoch: Epoch) -> None:
        """Epochs up to here are needed no more."""
        with self._alone:
            gone = [key for key in self._kept if key[0] == stream and key[1] <= epoch]
            rows = [self._kept.pop(key) for key in gone]
            for key in [key for key in self._saved if key[0] == stream and key[1] <= epoch]:
                del self._saved[key]
        for (_, number), old in zip(gone, rows, strict=True):
            self._rows.let_go(stream, number, old)

    def trim(self, stream: StreamName, epoch: Epoch) -> None:
        """A durable stream's epochs up to here are covered by the oldest checkpoint kept."""
        self._rows.trim(stream, epoch)

    def offer(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        """Shards go back to a checkpoint alone: what lay between units then may be read again from its files."""
        with self._alone:
            self._offered = dict(inflight)

    def reset(self, inflight: Mapping[tuple[StreamName, Epoch], str]) -> None:
        """Go on from a checkpoint: forget all, but for what it saved."""
        with self._alone:
            kept, self._kept = self._kept, {}
            self._saved, self._offered = dict(inflight), {}
        for (stream, epoch), rows in kept.items():
            self._rows.let_go(stream, epoch, rows)

    def _find(self, stream: StreamName, epoch: Epoch) -> Rows | None:
        """What is kept, or saved with the checkpoint."""
        with self._alone:
            kept, saved = self._kept.get((stream, epoch)), self._file(stream, epoch)
        return kept if kept is not None or saved is None else self._rows.load(stream, saved)

    def _file(self, stream: StreamName, epoch: Epoch) -> str | None:
        return self._saved.get((stream, epoch)) or self._offered.get((stream, epoch))

    def _drop(self, stream: StreamName, epoch: Epoch) -> None:
        with self._alone:
            old = self._kept.pop((stream, epoch), None)
        if old is not None:
            self._rows.let_go(stream, epoch, old)
