"""Pictures in columns: a binary column of raw bytes, seen as one NumPy array of pictures and back, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perseid.errors import OperatorFailed


def pictures_of(column: pa.Array | pa.ChunkedArray, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The pictures of a binary column as one array, the first axis being the row. All must have the same shape."""
    size = int(np.prod(shape))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [_chunk(chunk, size, shape) for chunk in chunks if len(chunk)]
    if not found:
        return np.empty((0, *shape), np.uint8)
    return found[0] if len(found) == 1 else np.concatenate(found)


def _chunk(chunk: pa.Array, size: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if chunk.null_count:
        raise OperatorFailed(f"a picture is null; expected {size} bytes of shape {shape}")
    width: Any = np.int64 if pa.types.is_large_binary(chunk.type) else np.int32
    offsets = np.frombuffer(chunk.buffers()[1], width)[chunk.offset : chunk.offset + len(chunk) + 1]
    sizes = np.diff(offsets)
    if (sizes != size).any():
        wrong = int(sizes[sizes != size][0])
        raise OperatorFailed(f"a picture has {wrong} bytes; expected {size}, raw, of shape {shape}")
    data = np.frombuffer(chunk.buffers()[2], np.uint8)[int(offsets[0]) : int(offsets[-1])]
    return data.reshape(len(chunk), *shape)


def column_of(pictures: NDArray[np.uint8]) -> pa.Array:
    """Pictures as a binary column."""
    count = len(pictures)
    size = int(np.prod(pictures.shape[1:]))
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    data = np.ascontiguousarray(pictures)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
