"""Arrays that grow: what an application remembers for a while and then drops at once (the paper's dynamic state, M5).

Invariant: a snapshot holds what was appended and nothing of the room left for more; it is one buffer, not copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_ROOM = 1.5
_LEAST = 4


class Growing:
    """Rows of one shape, in the order they came, as one array with room to grow."""

    __slots__ = ("_count", "_rows")

    def __init__(self, dtype: DTypeLike, shape: tuple[int, ...] = ()) -> None:
        self._rows: NDArray[Any] = np.empty((0, *shape), dtype)
        self._count = 0

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        wanted = self._count + len(rows)
        if wanted > len(self._rows):
            room = np.empty((max(_LEAST, wanted, int(wanted * _ROOM)), *self._rows.shape[1:]), self._rows.dtype)
            room[: self._count] = self._rows[: self._count]
            self._rows = room
        self._rows[self._count : wanted] = rows
        self._count = wanted

    @property
    def rows(self) -> NDArray[Any]:
        """What was appended: a view, valid until the next append."""
        return self._rows[: self._count]

    @property
    def nbytes(self) -> int:
        """Bytes of what was appended."""
        return self._count * self._rows.strides[0]  # of a contiguous array: the bytes of a row

    def __len__(self) -> int:
        return self._count

    def __getstate__(self) -> NDArray[Any]:
        return self.rows

    def __setstate__(self, rows: NDArray[Any]) -> None:
        self._rows, self._count = rows, len(rows)


def total_bytes(things: Iterable[Growing]) -> int:
    """Bytes of several: the size hint of a state field that holds them."""
    return sum(thing.nbytes for thing in things)
