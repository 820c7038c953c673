"""A JSON object with a seal: one line ``{"seal":"<hash of the body>","body":{…}}`` that proves it is whole.

Invariant: no truncation and no flipped bit of a sealed object is ever taken for an object. Lease, ledger and manifest
are made of these; they are plain JSON for people and their tools. Spec: L4.
"""

from __future__ import annotations

import json
from typing import Any

import xxhash

from perseid.errors import CorruptData

_HEAD = b'{"seal":"'
_MIDDLE = b'","body":'
_TAIL = b"}\n"
_SEAL_AT = len(_HEAD)
_BODY_AT = _SEAL_AT + 16 + len(_MIDDLE)


def seal(body: dict[str, Any]) -> bytes:
    """The object as one sealed line, with its newline."""
    raw = json.dumps(body, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    return b"".join((_HEAD, _hash(raw), _MIDDLE, raw, _TAIL))


def unseal(line: bytes, where: str) -> dict[str, Any]:
    """The object back. Raises ``CorruptData`` if the line is not exactly what ``seal`` gave."""
    raw = line[_BODY_AT : -len(_TAIL)]
    if line != b"".join((_HEAD, _hash(raw), _MIDDLE, raw, _TAIL)):
        raise CorruptData(f"{where} fails its hash: it is torn or was changed ({len(line)} bytes)")
    body = json.loads(raw)
    if not isinstance(body, dict):
        raise CorruptData(f"{where}: expected a JSON object, got {type(body).__name__}")
    return body


def unseal_lines(data: bytes, where: str) -> tuple[list[dict[str, Any]], bool]:
    """All objects of a file that is appended to, and whether its end was torn off.

    Bad lines at the end are what a crash leaves: never acknowledged, so they are dropped. A bad line before a good
    one is damage.
    """
    lines = data.split(b"\n")
    rest = lines.pop()  # what comes after the last newline: nothing, unless torn
    bodies: list[dict[str, Any]] = []
    bad: CorruptData | None = None
    for number, line in enumerate(lines, 1):
        try:
            body = unseal(line + b"\n", f"{where}, line {number} of {len(lines)}")
        except CorruptData as error:
            bad = bad or error
            continue
        if bad is not None:
            raise bad
        bodies.append(body)
    return bodies, bad is not None or rest != b""


def _hash(raw: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(raw).encode()
