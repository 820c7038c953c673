"""One epoch's input of one shard in a file: the request that it was, or is to be, applied for, the rows, and a hash of both.

Invariant: what is read is exactly what was written.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import pyarrow as pa
import xxhash

from perseid.channel.codec import encode
from perseid.channel.protocol import KEPT_REQUEST
from perseid.engine.messages import ApplyEpoch
from perseid.errors import ChannelError

_DIGEST_BYTES = 16
_LENGTH_BYTES = 4
_ALIGNMENT = 64  # rows begin at such a place: Arrow takes them where they lie, and its kernels want them aligned


def read_input(path: Path) -> tuple[ApplyEpoch, pa.Table] | None:
    """None if it is missing or damaged."""
    try:
        with pa.OSFile(str(path), "rb") as file:
            data = file.read_buffer()  # Arrow's own memory is aligned, that of a bytes object is not
    except OSError:
        return None
    size = len(data) - _DIGEST_BYTES
    body = memoryview(data)[: max(size, 0)]
    if not body or xxhash.xxh3_128_digest(body) != bytes(memoryview(data)[size:]):
        return None
    rows_at = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    try:
        request = KEPT_REQUEST.decode(json.loads(bytes(body[_LENGTH_BYTES:rows_at])))
    except ChannelError:  # another version of Perseid wrote it
        return None
    return request, pa.ipc.open_stream(data.slice(rows_at, size - rows_at)).read_all()


def write_input(path: Path, request: ApplyEpoch, rows: pa.Table) -> int:
    """Its bytes. Straight into the page cache: beside its state a host has little memory to spare."""
    head = json.dumps(encode(request), separators=(",", ":")).encode()
    head += b" " * (-(_LENGTH_BYTES + len(head)) % _ALIGNMENT)
    with pa.OSFile(str(path), "wb") as file:
        file.write(len(head).to_bytes(_LENGTH_BYTES, "big") + head)
        with pa.ipc.new_stream(file, rows.schema) as writer:
            writer.write_table(rows)
        size = int(file.tell())
    with path.open("r+b") as whole:
        with mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as data:
            digest = xxhash.xxh3_128_digest(data)
        whole.seek(size)
        whole.write(digest)
    return size + _DIGEST_BYTES
