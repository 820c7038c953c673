"""How operators are divided when a driver starts: as they were, unless their author has written another number."""

from __future__ import annotations

from typing import Any

import pytest

from perseid import App, Operator, state
from perseid.driver.root_history import partitioned
from perseid.scaling.routing import even_slots, numbered
from perseid.storage.manifest import Manifest, ShardSnapshot
from perseid.storage.records import Index, Partitioned, Trimmed
from perseid.storage.snapshots import SnapshotFile
from perseid.vocabulary import OperatorName


class Count(Operator):
    totals: dict[str, int] = state(default_factory=dict)

    def process(self, rows: Any) -> None: ...


class Source:
    kind = "none"

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def declared(shards: int) -> Any:
    app = App("words")
    app.source("lines", Source()).stateful("count", Count(), key="k", shards=shards, output="n long").sink(
        "o", Source()
    )
    return app.graph


def ledger(*records: Partitioned) -> Any:
    return Index(Trimmed(), records)


def saved(shards: int) -> Manifest:
    file = SnapshotFile("", 0, "")
    snapshots = (ShardSnapshot("count", i, slots, 1, file, 0) for i, slots in enumerate(even_slots(shards)))  # type: ignore[arg-type]
    return Manifest(1, "", 0, {"main": 1}, tuple(snapshots), (), {}, "parallel")  # type: ignore[arg-type, dict-item]


SCALED = Partitioned(OperatorName("count"), 2, numbered(even_slots(4), 2))


@pytest.mark.parametrize(
    ("author", "records", "manifests", "expected"),
    [
        (2, (), (), numbered(even_slots(2))),
        (2, (SCALED,), (), SCALED.shards),  # scaled while it ran: it stays so
        (3, (SCALED,), (), numbered(even_slots(3), 6)),  # another number in the program counts
        (2, (), (saved(2),), numbered(even_slots(2))),
        (5, (), (saved(2),), numbered(even_slots(5), 2)),
    ],
)
def test_the_division_at_a_start(author: int, records: Any, manifests: Any, expected: Any) -> None:
    (found,) = partitioned(declared(author), ledger(*records), list(manifests))
    assert (found.declared, found.shards) == (author, expected)
