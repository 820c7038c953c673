"""Every answer of a run against the oracle's, expressways shared out among processes.

No rule but the balance looks beyond an expressway, and a generated car stays on its own. So a share of the expressways is worked
out alone: its reports, its cars' questions, its answers. Were it not so, a balance would be expected in two shares, and be missing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perseid.apps.linear_road import results
from perseid.apps.linear_road.feed import Feed
from perseid.apps.linear_road.lines import BALANCE, REPORT
from perseid.apps.linear_road.oracle import Answers, Line, Oracle

MOST_XWAYS = 17  # in one process: their cars, reports and answers take two gigabytes as Python's objects
_FILES = "epoch=*/part-*.parquet"
_COLUMNS = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "day")

Asks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many answers came, how many of them nobody expected, and how many are missing; the first few by name."""

    came: int = 0
    wrong: int = 0
    missing: int = 0
    such_as: tuple[str, ...] = ()

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(
            self.came + other.came,
            self.wrong + other.wrong,
            self.missing + other.missing,
            (self.such_as + other.such_as)[:5],
        )


def judge(feed: Path, answers: Path, xways: int, processes: int = 2) -> Verdict:
    """Compare all answers of a run with the oracle's; one that belongs to no expressway is wrong."""
    written = sum(pq.read_metadata(file).num_rows for file in answers.glob(_FILES))
    shares = processes * -(
        -xways // (processes * MOST_XWAYS)
    )  # few, since each reads all files; as many for every process
    bounds = sorted({xways * share // shares for share in range(shares + 1)})
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        judged = [pool.submit(_judge_share, feed, answers, xways_of) for xways_of in pairwise(bounds)]
        found = sum((share.result() for share in judged), Verdict())
    return found + Verdict(came=written - found.came, wrong=written - found.came)


def _judge_share(feed: Path, answers: Path, xways: tuple[int, int]) -> Verdict:
    gc.disable()  # millions of objects that all stay: looking through them again and again finds nothing
    oracle = Oracle()
    asks: list[Asks] = [np.empty(0, np.int64)]
    for line in _lines(feed, xways, asks):
        oracle.take(line)
    expected = oracle.end()
    came = _came(answers, xways, np.concatenate(asks))
    if _all_the_same(came, expected):
        return Verdict(came.num_rows)
    found = results.differences(results.of_table(came), results.of_answers(expected))
    wrong, missing = sum(len(f.unexpected) for f in found), sum(len(f.missing) for f in found)
    return Verdict(sum(f.came for f in found), wrong, missing, tuple(str(f) for f in found if not f.same))


def _all_the_same(came: pa.Table, expected: Answers) -> bool:
    """Are these the same answers, as often, in whatever order? Compared by columns: there are millions."""
    for kind, (number, columns) in results.KINDS.items():
        rows = came.filter(pc.equal(came["type"], number))
        ours = np.array([rows[name].to_numpy() for name in columns], np.int64)
        theirs = np.array(getattr(expected, kind), np.int64).reshape(-1, len(columns)).T
        if ours.shape != theirs.shape or not (ours[:, np.lexsort(ours)] == theirs[:, np.lexsort(theirs)]).all():
            return False
    return True


def _lines(feed: Path, xways: tuple[int, int], asks: list[Asks]) -> Iterator[Line]:
    """The lines that concern these expressways; notes the numbers of the questions for balances among them."""
    mine = np.zeros(0, bool)  # is the car of this number on one of them?
    source = Feed(feed)
    for one in source.slices:
        rows = pq.ParquetFile(source.folder / one.file).read()
        here = _between(rows["xway"], xways)
        kind, vid = rows["type"].to_numpy(), rows["vid"].to_numpy()
        reporting = vid[here & (kind == REPORT)]
        if (size := int(vid.max(initial=-1)) + 1) > len(mine):
            mine = np.concatenate([mine, np.zeros(size, bool)])
        mine[reporting] = True
        asking = (kind == BALANCE) & mine[vid]
        asks.append(rows["qid"].to_numpy()[asking].astype(np.int64))
        wanted = rows.filter(pa.array(here | asking))
        for row in zip(*(wanted[name].to_pylist() for name in _COLUMNS), strict=True):
            yield (*row[:-1], -1, -1, -1, -1, row[-1])


def _came(answers: Path, xways: tuple[int, int], asks: Asks) -> pa.Table:
    """The answers of the run to these expressways' cars."""
    parts = []
    for file in answers.glob(_FILES):
        rows = pq.ParquetFile(file).read()
        to_balance = rows["type"].to_numpy() == BALANCE
        asked = np.isin(rows["qid"].to_numpy(), asks)
        parts.append(rows.filter(pa.array((_between(rows["xway"], xways) & ~to_balance) | (to_balance & asked))))
    return pa.concat_tables(parts)


def _between(column: pa.ChunkedArray, bounds: tuple[int, int]) -> npt.NDArray[np.bool_]:
    low, high = bounds
    found: npt.NDArray[np.bool_] = pc.and_(pc.greater_equal(column, low), pc.less(column, high)).to_numpy()
    return found
