"""The chain of Linear Road's operators without Spark, and the data others made for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from perseid import Context, Operator
from perseid.apps.linear_road import results
from perseid.apps.linear_road.accounts import Accounts, BalanceAccount, TollAssessment
from perseid.apps.linear_road.calculator import TollCalculator
from perseid.apps.linear_road.feed import _history_line
from perseid.apps.linear_road.lines import parse
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch
from perseid.vocabulary import Epoch

DATA = Path(__file__).parents[4] / "shared" / "data" / "linearroad"
SETS = [
    pytest.param(DATA / name, marks=pytest.mark.skipif(not (DATA / name).exists(), reason="data is not there"), id=name)
    for name in ("official-300s", "gen-1x-1800s")
]


def chain(seven: bool = False) -> list[Any]:
    operators = [TollCalculator(), TollAssessment(), BalanceAccount()] if seven else [TollCalculator(), Accounts()]
    return [fresh(operator) for operator in operators]


def answers(operators: Sequence[Operator], epochs: Iterable[pa.Table], *, recover: bool = False) -> results.Lines:
    """What the operators say to these epochs; with ``recover``, each epoch runs on shards restored from their snapshots."""
    said = []
    shards = list(operators)
    for number, rows in enumerate(epochs, start=1):
        for index, shard in enumerate(shards):
            if recover:
                snapshot = [bytes(buffer) for buffer in encode(capture(shard))]
                shard = shards[index] = fresh(shard)
                restore(shard, decode(snapshot))
            rows = run_epoch(shard, {"rows": rows}, Context(Epoch(number), 0))
        said.append(rows)
    return results.of_table(pa.concat_tables(said))


def table_of(lines: Iterable[str], history: Iterable[str] = ()) -> pa.Table:
    text = "\n".join([*(_history_line(entry) for entry in history if entry), *lines])
    table, malformed = parse(text.encode())
    assert not malformed
    return table


def cut(table: pa.Table, seconds: int) -> list[pa.Table]:
    """Epochs of so many whole seconds."""
    times = table["time"].to_numpy()
    places = np.searchsorted(times, np.arange(0, times[-1] + seconds + 1, seconds))
    return [table.slice(start, end - start) for start, end in itertools.pairwise(places)]


def report(
    time: int, vid: int, seg: int, *, spd: int = 30, lane: int = 1, dir: int = 0, pos: int | None = None, xway: int = 0
) -> str:
    pos = seg * 5280 + time if pos is None else pos
    return f"0,{time},{vid},{spd},{xway},{lane},{dir},{seg},{pos},-1,-1,-1,-1,-1,-1"
