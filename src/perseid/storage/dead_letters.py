"""Dead letters: the rows and timers of an epoch that an operator could not take, each with its error.

    dead-letters/<operator>/epoch=<n>/<shard>.arrow

A file is an Arrow file with the rows as they came to the operator (of several inputs: one struct column for each), ``__perseid_error``,
and ``__perseid_occurrence``, which tells equal rows of an epoch apart. The files are the record of what was left out: sinks hold
output computed without these rows, so whoever applies the epoch again leaves out the same. A row is known by what is in it, not by its
shard or its place, so this holds after a scale, too.

Invariant: a file is never replaced. Who comes second (a host thought dead) finds it, and goes by it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from perseid.errors import CorruptData
from perseid.storage import layout
from perseid.storage.store import Store
from perseid.vocabulary import Epoch, OperatorName, ShardId

ERROR = "__perseid_error"
OCCURRENCE = "__perseid_occurrence"
_ABOUT, _INPUTS = b"perseid", b"perseid_inputs"

Identity = tuple[str, str, int]  # input, the row as text, and which of the equal ones


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What one shard put aside in one epoch."""

    operator: OperatorName
    shard: int
    epoch: Epoch
    at_ms: int  # the epoch's time
    rows: int
    timers: Mapping[str, str]  # as text, with their errors
    error: str  # the first
    errors: int = 1  # how many different ones


@dataclass(frozen=True, slots=True)
class LeftOut:
    """All that the dead letters hold of one epoch of one operator."""

    rows: frozenset[Identity] = frozenset()
    timers: frozenset[str] = frozenset()
    letters: tuple[DeadLetters, ...] = ()

    def kept(self, inputs: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The inputs without them."""
        if not self.rows:
            return dict(inputs)
        kept = {}
        for name, rows in inputs.items():
            mask = [identity not in self.rows for identity in identities(name, rows)]
            kept[name] = rows.filter(pa.array(mask, pa.bool_()))
        return kept


@dataclass(frozen=True, slots=True)
class Aside:
    """What is to be put aside: of each input the rows, their identities and their errors; timers with theirs."""

    rows: Mapping[str, tuple[pa.Table, Sequence[Identity], Sequence[str]]] = field(default_factory=dict)
    timers: Mapping[str, str] = field(default_factory=dict)


def identities(name: str, rows: pa.Table) -> list[Identity]:
    """What each row of an input is known by."""
    seen: Counter[str] = Counter()
    found: list[Identity] = []
    for text in _texts(rows):
        found.append((name, text, seen[text]))
        seen[text] += 1
    return found


def put_aside(store: Store, shard: ShardId, epoch: Epoch, at_ms: int, aside: Aside, known: LeftOut) -> bool:
    """Write a file of dead letters beside those that are known. False if somebody else was quicker: then their word counts."""
    number = sum(
        letters.shard == shard.index for letters in known.letters
    )  # more than one: a row turned out to be bad later
    name = f"{shard.index}-{number}.arrow" if number else f"{shard.index}.arrow"
    return store.create(f"{layout.dead_letters_of(shard.operator, epoch)}/{name}", _encoded(shard, at_ms, aside))


def left_out(store: Store, operator: OperatorName, epoch: Epoch) -> LeftOut:
    """Everything that was put aside of one epoch of an operator."""
    rows: set[Identity] = set()
    letters = []
    for about, table in _files(store, operator, epoch):
        letters.append(about)
        inputs: list[str] = json.loads(table.schema.metadata[_INPUTS])
        for name in inputs:
            mine = table.drop_columns([ERROR, OCCURRENCE])
            occurrences = table.column(OCCURRENCE)
            if len(inputs) > 1:
                there = table.column(name).is_valid()
                struct = table.column(name).filter(there).combine_chunks()
                mine, occurrences = (
                    pa.table(struct.flatten(), schema=pa.schema(list(struct.type))),
                    occurrences.filter(there),
                )
            rows |= {(name, t, n) for t, n in zip(_texts(mine), occurrences.to_pylist(), strict=True)}
    timers = frozenset(timer for about in letters for timer in about.timers)
    return LeftOut(frozenset(rows), timers, tuple(letters))


def _texts(rows: pa.Table) -> Iterator[str]:
    return map(repr, zip(*(column.to_pylist() for column in rows.columns), strict=True))


def epochs_with(store: Store, operator: OperatorName, after: int = 0) -> list[Epoch]:
    """The epochs of an operator that have dead letters."""
    numbers = [name.removeprefix("epoch=") for name in store.list(layout.dead_letters(operator))]
    found = sorted(Epoch(int(number)) for number in numbers if number.isdigit() and int(number) > after)
    return [e for e in found if any(n.endswith(".arrow") for n in store.list(layout.dead_letters_of(operator, e)))]


def all_letters(store: Store, operator: OperatorName) -> Iterator[DeadLetters]:
    """All that an operator has put aside, oldest epoch first."""
    for epoch in epochs_with(store, operator):
        yield from (about for about, _ in _files(store, operator, epoch))


def _files(store: Store, operator: OperatorName, epoch: Epoch) -> Iterator[tuple[DeadLetters, pa.Table]]:
    folder = layout.dead_letters_of(operator, epoch)
    for name in store.list(folder):
        if name.endswith(".arrow"):
            try:
                table = pa.ipc.open_file(pa.BufferReader(store.read(f"{folder}/{name}"))).read_all()
                about: dict[str, Any] = json.loads(table.schema.metadata[_ABOUT])
                yield DeadLetters(operator, about.pop("shard"), epoch, rows=table.num_rows, **about), table
            except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
                raise CorruptData(f"dead letters {store.root}/{folder}/{name} cannot be read: {error}") from error


def _encoded(shard: ShardId, at_ms: int, aside: Aside) -> bytes:
    errors = [e for _, _, of_input in aside.rows.values() for e in of_input] + list(aside.timers.values())
    about = {
        "shard": shard.index,
        "at_ms": at_ms,
        "timers": dict(aside.timers),
        "error": errors[0],
        "errors": len(set(errors)),
    }
    metadata = {_ABOUT: json.dumps(about).encode(), _INPUTS: json.dumps(list(aside.rows)).encode()}
    parts = []
    for name, (rows, known, why) in aside.rows.items():
        if len(aside.rows) > 1:
            arrays = [column.combine_chunks() for column in rows.columns]
            rows = pa.table({name: pa.StructArray.from_arrays(arrays, fields=list(rows.schema))})
        rows = rows.append_column(OCCURRENCE, pa.array([n for _, _, n in known], pa.int64()))
        parts.append(rows.append_column(ERROR, pa.array(why, pa.string())))
    table = pa.concat_tables(parts, promote_options="default").replace_schema_metadata(metadata)
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())
