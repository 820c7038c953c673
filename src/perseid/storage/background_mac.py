"""An HMAC that is computed by a thread of its own, while the caller waits for a disk.

SHA-256 takes 1.4 GB in a second here, and a disk hardly more: side by side they need the time of the slower one, where a core is free.
The thread begins with the first large piece: small snapshots have none.

Invariant: pieces are taken in the order in which they were given, and every one is told of once when it has been read for the last time.
"""

from __future__ import annotations

import hmac
import queue
import threading

_LARGE = 1 << 18
_AHEAD = 16  # pieces given but not yet taken


class BackgroundMac:
    """One HMAC over many pieces. Used by one thread; ``close`` it if ``digest`` is not reached."""

    def __init__(self, mac: hmac.HMAC) -> None:
        self._mac = mac
        self._pieces: queue.SimpleQueue[memoryview | None] | None = None
        self._thread: threading.Thread | None = None
        self._taken, self._room = threading.Semaphore(0), threading.Semaphore(_AHEAD)

    def update(self, piece: memoryview) -> None:
        """Goes on at once, unless it is far ahead. The piece must not change before it was taken."""
        if self._pieces is None and (piece.nbytes < _LARGE or not self._begin()):
            self._mac.update(piece)
            self._taken.release()
            return
        assert self._pieces is not None
        self._room.acquire()
        self._pieces.put(piece)

    def has_one_more(self) -> bool:
        """Has it taken one more piece than it told of, in the order in which they were given?"""
        return self._taken.acquire(blocking=False)

    def digest(self) -> bytes:
        """Of all pieces."""
        self.close()
        return self._mac.digest()

    def close(self) -> None:
        """Wait until all pieces are taken; there will be no more."""
        if self._pieces is not None and self._thread is not None:
            self._pieces.put(None)
            self._thread.join()
            self._thread = None

    def _begin(self) -> bool:
        pieces: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
        thread = threading.Thread(target=self._work, args=(pieces,), name="perseid-mac", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread to give
            return False
        self._pieces, self._thread = pieces, thread
        return True

    def _work(self, pieces: queue.SimpleQueue[memoryview | None]) -> None:
        while (piece := pieces.get()) is not None:
            self._mac.update(piece)
            self._room.release()
            self._taken.release()
