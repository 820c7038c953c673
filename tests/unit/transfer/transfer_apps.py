"""Applications whose state goes out of one root and into another, and roots with state made without Spark."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import perseid
from perseid import App, KeyedOperator, Operator, every, state
from perseid.scaling.routing import even_slots
from perseid.state.operator_state import fresh
from perseid.state.shard_state import ShardState, checkpoint_state
from perseid.state.slots import slot_of
from perseid.transfer.begin_root import BEGINNING, Beginning, Imported, begin_root, stateful_node


@dataclass
class Visit:
    page: str
    seconds: list[float] = field(default_factory=list)


class Visitors(KeyedOperator):
    """State of many kinds by key, with a time to live and timers."""

    ttl = every(hours=1)
    n: int = state(default=0)
    rate: float | None = state(default=None)
    pages: list[str] = state(default_factory=list)
    counts: dict[str, int] = state(default_factory=Counter)
    last: Visit | None = state(default=None)
    since: datetime.datetime | None = state(default=None)

    def process_key(self, key: Any, rows: pa.Table) -> Any:
        self.n += rows.num_rows
        yield {"id": key, "n": self.n}


class Spilling(KeyedOperator):
    spill = "1 MB"
    n: int = state(default=0)

    def process_key(self, key: Any, rows: pa.Table) -> Any:
        yield {"id": key, "n": self.n}


class Words(Operator):
    """Fields by key, and one of the shard as a whole."""

    counts: dict[str, int] = state(default_factory=dict)
    seen: dict[str, set[int]] = state(default_factory=dict)
    largest: int = state(default=0, split=lambda value, part: value, merge=max)

    def process(self, rows: pa.Table) -> None:
        return None


def application(operator: Operator, *, key: str = "id string", shards: int = 2, other: Operator | None = None) -> App:
    app = App("transfer")
    name = key.split()[0]
    rows = app.source("rows", perseid.sources.files("in/", schema=key))
    out = rows.stateful("operator", operator, key=name, shards=shards, output="id string, n long")
    out.sink("out", perseid.sinks.noop())
    if other is not None:
        rows.stateful("other", other, key=name, shards=1, output="id string, n long").sink(
            "out-2", perseid.sinks.noop()
        )
    return app


def shard_with(operator: Operator, fill: Callable[[Any], None]) -> ShardState:
    shard = fresh(operator)
    fill(shard)
    return checkpoint_state(shard, BEGINNING)


def begun(
    root: Path, app: App, fill: Callable[[Any, Callable[[Any], bool]], None], operator: str = "operator"
) -> Imported:
    """A root whose operator has state: ``fill`` gets each shard, and a function that says whether a key is the shard's."""
    node = stateful_node(app.graph, operator)

    def of(slots: tuple[int, int]) -> Callable[[], ShardState]:
        def mine(key: Any) -> bool:
            return slots[0] <= slot_of(key) < slots[1]

        return lambda: shard_with(node.operator, lambda shard: fill(shard, mine))

    shards = [(slots, of(slots)) for slots in even_slots(node.shards)]
    return begin_root(str(root), app.graph, Beginning(operator, shards, {}))
