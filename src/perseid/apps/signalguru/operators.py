"""The stateful operators of SignalGuru: the motion filter, the phases of a signal, and the SVM prediction (M8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.apps.growing import Growing, total_bytes
from perseid.apps.pictures import pictures_of
from perseid.apps.signalguru.filters import BACK, motion_filter
from perseid.apps.signalguru.generate import AMBER
from perseid.apps.signalguru.prediction import Signal
from perseid.apps.signalguru.view import SHAPE
from perseid.operators.operator import Operator
from perseid.state.fields import state

MOTION_OUTPUT = "intersection long, at_ms long, colour int, score long, truth int, next_ms long"
PHASES_OUTPUT = "intersection long, at_ms long, colour int, lasted_ms long, next_ms long"
PREDICTION_OUTPUT = (
    "intersection long, at_ms long, colour int, predicted_ms long, usual_ms long, model string, actual_ms long"
)
STEADY = 2
"""How many votes in a row a new colour needs."""


def picture_bytes(histories: dict[int, Growing]) -> int:
    """Bytes of all histories: their state's size, told exactly and at no cost (M5a)."""
    return total_bytes(histories.values())


class MotionFilter(Operator):
    """Keeps all pictures of a phone at an intersection, picks the light among the spots, drops them when the car leaves."""

    ordered = False
    histories: dict[int, Growing] = state(default_factory=dict, length=picture_bytes, element_size=1)

    def __init__(self, shape: tuple[int, int, int] = SHAPE) -> None:
        self.shape = shape

    def process(self, rows: pa.Table) -> pa.Table | None:
        if not rows.num_rows:
            return None
        rows = rows.combine_chunks()
        phone, at_ms = rows["phone"].to_numpy(), rows["at_ms"].to_numpy()
        leaves = pc.fill_null(rows["leaves"], False).to_numpy()
        frames = pictures_of(rows["frame"], self.shape)
        spots = _spots(rows["spots"].chunk(0))
        colour, score = np.zeros(len(phone), np.int32), np.zeros(len(phone), np.int64)
        order = np.lexsort((at_ms, phone))
        for mine in np.split(order, np.flatnonzero(np.diff(phone[order])) + 1):
            who = int(phone[mine[0]])
            for part in np.split(mine, np.flatnonzero(leaves[mine]) + 1):
                if not len(part):
                    continue
                history = self.histories.setdefault(who, Growing(np.uint8, self.shape))
                before = len(history)
                history.append(frames[part])
                self._pick(history, before, part, spots, colour, score)
                if leaves[part[-1]]:
                    del self.histories[who]
        sure = score > BACK // 2
        found = {name: rows[name] for name in ("intersection", "at_ms", "truth", "next_ms")}
        return pa.table({**found, "colour": np.where(sure, colour, 0), "score": np.where(sure, score, 0)})

    def _pick(self, history: Growing, before: int, part: Any, spots: Any, colour: Any, score: Any) -> None:
        """Of the spots of each new picture, take the one that was there before."""
        starts, ends = spots[0][part], spots[0][part + 1]
        counts = ends - starts
        if not counts.sum():
            return
        picture = np.repeat(np.arange(len(part)), counts)
        own = spots[1][np.repeat(starts - np.r_[0, np.cumsum(counts)[:-1]], counts) + np.arange(counts.sum())]
        own["picture"] = before + picture
        matches = motion_filter(history.rows, own)
        best = np.lexsort((matches, picture))  # the last of each picture has the most matches
        last = np.r_[np.flatnonzero(np.diff(picture[best])), len(best) - 1]
        where = part[picture[best[last]]]
        colour[where], score[where] = own["colour"][best[last]], matches[best[last]]


def _spots(column: Any) -> tuple[Any, Any]:
    """Where the spots of every row begin, and all spots."""
    numbers = column.flatten().to_numpy().reshape(-1, 3)
    spots = np.empty(len(numbers), [("picture", "i8"), ("colour", "i4"), ("row", "f4"), ("column", "f4")])
    spots["colour"], spots["row"], spots["column"] = numbers.T
    offsets = column.offsets.to_numpy()
    return (offsets - offsets[0]) // 3, spots


class Phases(Operator):
    """Follows the colour of each signal as voted; tells when it changes, and how long the last one lasted."""

    ordered = False
    now: dict[int, tuple[int, int]] = state(default_factory=dict)  # by intersection: colour, and since when
    doubt: dict[int, tuple[int, int, int]] = state(default_factory=dict)  # another colour, since when, votes for it

    def process(self, rows: pa.Table) -> pa.Table | None:
        changes = []
        rows = rows.sort_by([("at_ms", "ascending"), ("intersection", "ascending")])
        columns = (rows[name].to_pylist() for name in ("intersection", "at_ms", "colour", "next_ms"))
        for place, at_ms, colour, next_ms in zip(*columns, strict=True):
            now, since_ms = self.now.setdefault(place, (colour, -1))
            if colour == now:
                self.doubt.pop(place, None)
                continue
            other, first_ms, votes = self.doubt.get(place, (colour, at_ms, 0))
            if other != colour:
                first_ms, votes = at_ms, 0
            if votes + 1 < STEADY:
                self.doubt[place] = (colour, first_ms, votes + 1)
                continue
            self.doubt.pop(place, None)
            self.now[place] = (colour, first_ms)
            changes.append((place, first_ms, colour, first_ms - since_ms if since_ms >= 0 else None, next_ms))
        if not changes:
            return None
        names = ("intersection", "at_ms", "colour", "lasted_ms", "next_ms")
        types = (pa.int64(), pa.int64(), pa.int32(), pa.int64(), pa.int64())
        arrays = [pa.array(c, t) for c, t in zip(zip(*changes, strict=True), types, strict=True)]
        return pa.table(dict(zip(names, arrays, strict=True)))


class SvmPrediction(Operator):
    """Foretells the next change of each signal from how long its phases lasted, and says how right it was."""

    ordered = False
    signals: dict[int, Signal] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table | None:
        told: list[tuple[Any, ...]] = []
        rows = rows.sort_by([("at_ms", "ascending"), ("intersection", "ascending")])
        for place, at_ms, colour in zip(
            *(rows[c].to_pylist() for c in ("intersection", "at_ms", "colour")), strict=True
        ):
            signal = self.signals.setdefault(place, Signal())
            was = signal.change(at_ms, colour)
            if was is not None and was.colour != AMBER:
                told.append((place, was.at_ms, was.colour, was.predicted_ms, was.usual_ms, was.model, at_ms))
            will = signal.predict()
            if will is not None and will.colour != AMBER:
                told.append((place, at_ms, will.colour, will.predicted_ms, will.usual_ms, will.model, None))
        if not told:
            return None
        names = [column.split()[0] for column in PREDICTION_OUTPUT.split(", ")]
        types = (pa.int64(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), pa.string(), pa.int64())
        arrays = [pa.array(values, kind) for values, kind in zip(zip(*told, strict=True), types, strict=True)]
        return pa.table(dict(zip(names, arrays, strict=True)))
