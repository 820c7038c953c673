"""The files of the journal: how they are named, and how old ones are merged and dropped, so that neither bytes nor files grow for good.

    journal/<generation>-<part>-<begun, ms>.jsonl    notices
    events/<generation>-<part>-<begun, ms>.jsonl     what the controller was given (``engine.event_log``)

A segment is written by one driver, then closed. Closed segments that are small are merged with their neighbours, eight at a time, into
the last of them; the oldest go when all together are too large, or too old. Every record has a number, by which a reader knows one that it
has seen: so a crash (or another driver) in the middle of a merge loses and doubles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from perseid.storage import layout
from perseid.storage.store import Store
from perseid.vocabulary import Generation

MERGED = 8
"""So many small neighbours become one."""

_NAME = re.compile(r"(\d{8,})-(\d{6,})-(\d+)\.jsonl")


@dataclass(frozen=True, slots=True, order=True)
class Segment:
    """One file of the journal. They are read in this order."""

    generation: Generation
    part: int
    begun_ms: int
    folder: str = layout.JOURNALS

    @property
    def path(self) -> str:
        return layout.journal(self.generation, self.part, self.begun_ms, self.folder)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the journal is kept, and how large a segment becomes."""

    keep_bytes: int = 64 << 20
    keep_ms: int = 7 * 24 * 3_600_000
    segment_bytes: int = 4 << 20


def segments(store: Store, folder: str = layout.JOURNALS) -> list[Segment]:
    """What there is now, oldest first."""
    found = (_NAME.fullmatch(name) for name in store.list(folder))
    return sorted(Segment(Generation(int(m[1])), int(m[2]), int(m[3]), folder) for m in found if m is not None)


def tidy(store: Store, current: Segment, limits: Limits, now_ms: int, unsealed: Iterable[Segment]) -> None:
    """Seal, drop and merge what lies before the segment that is being written. Others, and newer drivers', are left alone."""
    for segment in unsealed:
        with suppress(FileNotFoundError):
            store.write(segment.path, [store.read(segment.path)])  # on remote storage one object instead of many
    sizes = {}
    for segment in segments(store, current.folder):
        with suppress(FileNotFoundError):
            if segment < current:
                sizes[segment] = store.size(segment.path)
    kept = sorted(sizes)
    for segment in outdated([*kept, current], sizes, limits, now_ms):
        store.delete(segment.path)
        kept.remove(segment)
    while run := mergeable(kept, sizes, limits):
        try:
            data = [store.read(segment.path) for segment in run]
        except FileNotFoundError:
            return  # another driver is at it
        size = store.write(run[-1].path, [part if part.endswith(b"\n") else part + b"\n" for part in data])
        for segment in reversed(run[:-1]):  # so that what is left of them is read before it, in order
            store.delete(segment.path)
            kept.remove(segment)
        sizes[run[-1]] = size


def outdated(ordered: Sequence[Segment], sizes: Mapping[Segment, int], limits: Limits, now_ms: int) -> list[Segment]:
    """The oldest: those whose records are all too old, and those beyond the size kept. Never the last one."""
    too_old = sum(1 for _ in takewhile(lambda later: later.begun_ms < now_ms - limits.keep_ms, ordered[1:]))
    total, first = 0, len(ordered) - 1
    while first and total + sizes[ordered[first - 1]] <= limits.keep_bytes:
        total += sizes[ordered[first - 1]]
        first -= 1
    return list(ordered[: max(too_old, first)])


def mergeable(ordered: Sequence[Segment], sizes: Mapping[Segment, int], limits: Limits) -> list[Segment]:
    """The first ``MERGED`` neighbours that are small, and of about the same size; so each record is merged a few times only."""
    for small in (limits.segment_bytes // MERGED**power for power in (3, 2, 1)):
        run: list[Segment] = []
        for segment in ordered:
            run = [*run, segment] if sizes[segment] < small else []
            if len(run) == MERGED:
                return run
    return []
