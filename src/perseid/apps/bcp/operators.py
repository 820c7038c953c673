"""The stateful operators of bus capacity prediction: the historical images of each camera, and crowding (M8)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from perseid.apps.bcp.counting import SUCCESSIVE, median_of_five, people_in, waiting_in
from perseid.apps.bcp.crowding import Line
from perseid.apps.bcp.scene import SHAPE
from perseid.apps.growing import Growing, total_bytes
from perseid.apps.pictures import pictures_of
from perseid.operators.operator import Operator
from perseid.state.fields import state

COUNTS_OUTPUT = "line int, place int, at_ms long, bus long, onboard int, counted int, truth int"
CROWDING_OUTPUT = "line int, place int, bus long, at_ms long, ahead int, predicted double, unchanged int, actual int"
EMPTY_KEPT = 3


def picture_bytes(histories: dict[int, Growing]) -> int:
    """Bytes of all histories: their state's size, told exactly and at no cost (M5a)."""
    return total_bytes(histories.values())


class HistoricalImages(Operator):
    """Keeps every picture of a stop since the last bus, counts who waits, and drops the pictures when a bus comes."""

    ordered = False
    histories: dict[int, Growing] = state(default_factory=dict, length=picture_bytes, element_size=1)
    empty: dict[int, NDArray[np.uint8]] = state(default_factory=dict)  # the stop just after the last buses

    def __init__(self, shape: tuple[int, int] = SHAPE) -> None:
        self.shape = shape

    def process(self, rows: pa.Table) -> pa.Table | None:
        if not rows.num_rows:
            return None
        stop, at_ms = rows["stop"].to_numpy(), rows["at_ms"].to_numpy()
        order = np.lexsort((at_ms, stop))
        comes = rows["bus"].is_valid().to_numpy()
        frames = pictures_of(rows["frame"], self.shape)
        emitted: list[int] = []
        counted: list[int] = []
        newest: list[int] = []  # the last row of every stop
        for mine in np.split(order, np.flatnonzero(np.diff(stop[order])) + 1):
            at = int(stop[mine[0]])
            history = self.histories.setdefault(at, Growing(np.uint8, self.shape))
            begin = 0
            for arrival in np.flatnonzero(comes[mine]).tolist():
                history.append(frames[mine[begin:arrival]])
                emitted.append(int(mine[arrival]))
                counted.append(waiting_in(history.rows, self._empty(at, history)))
                history = self.histories[at] = Growing(np.uint8, self.shape)
                begin = arrival
            before = len(history)
            history.append(frames[mine[begin:]])
            if before < SUCCESSIVE <= len(history):
                self._learn(at, history)
            newest.append(int(mine[-1]))
        arrivals = len(emitted)
        emitted += newest
        counted += self._now([int(stop[row]) for row in newest]).tolist()
        picked = rows.select(["line", "place", "at_ms", "bus", "onboard", "boarding", "waiting"]).take(
            pa.array(emitted)
        )
        # The count of this moment is no arrival, also when a bus came in the stop's last row.
        arrives = pa.array(np.arange(len(emitted)) < arrivals)
        columns = {name: picked[name] for name in ("line", "place", "at_ms")}
        columns |= {name: pc.if_else(arrives, picked[name], None) for name in ("bus", "onboard")}
        truth = pc.if_else(arrives, picked["boarding"], picked["waiting"])
        found = pa.table({**columns, "counted": pa.array(counted, pa.int32()), "truth": truth})
        return found.sort_by([(name, "ascending") for name in ("at_ms", "line", "place", "bus")])

    def _now(self, stops: list[int]) -> NDArray[np.int64]:
        """How many wait at each stop, by its newest pictures."""
        stack = np.empty((len(stops), SUCCESSIVE, *self.shape), np.uint8)
        empty = np.empty((len(stops), *self.shape), np.uint8)
        for n, stop in enumerate(stops):
            history = self.histories[stop]
            stack[n] = history.rows[np.maximum(np.arange(-SUCCESSIVE, 0), -len(history))]
            empty[n] = self._empty(stop, history)
        return people_in(median_of_five(stack), empty)

    def _empty(self, stop: int, history: Growing) -> NDArray[np.uint8]:
        """The stop without people, as far as it is known: else its first picture since the bus."""
        seen = self.empty.get(stop)
        if seen is not None:
            return np.asarray(np.sort(seen, axis=0)[(len(seen) - 1) // 2])
        return np.asarray(history.rows[0]) if len(history) else np.zeros(self.shape, np.uint8)

    def _learn(self, stop: int, history: Growing) -> None:
        """Just after a bus a stop is empty: its picture then, and those after the buses before, show the background."""
        now = median_of_five(history.rows[None, :SUCCESSIVE])
        seen = self.empty.get(stop)
        self.empty[stop] = now if seen is None else np.concatenate([seen, now])[-EMPTY_KEPT:]


class Crowding(Operator):
    """Foretells how full each bus will be at its next stops, and says how right it was when the bus is there."""

    ordered = False
    lines: dict[int, Line] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table | None:
        told: list[tuple[int, int, int, int, int, float, int, int | None]] = []
        rows = rows.sort_by(
            [(name, "ascending") for name in ("at_ms", "line", "place", "bus")]
        )  # a bus first, then counts
        columns = (rows[name].to_pylist() for name in ("line", "place", "at_ms", "bus", "onboard", "counted"))
        for number, place, at_ms, bus, onboard, counted in zip(*columns, strict=True):
            line = self.lines.setdefault(number, Line())
            if bus is None:
                line.count(place, at_ms, counted)
                continue
            told += [
                (number, place, bus, at_ms, was.ahead, was.predicted, was.unchanged, onboard)
                for was in line.arrive(place, at_ms, bus, onboard, counted)
            ]
            told += [
                (number, there, bus, at_ms, will.ahead, will.predicted, will.unchanged, None)
                for there, will in line.predict(place, at_ms, bus, onboard)
            ]
        if not told:
            return None
        arrays = [pa.array(values) for values in zip(*told, strict=True)]
        names = ("line", "place", "bus", "at_ms", "ahead", "predicted", "unchanged", "actual")
        table = pa.table(dict(zip(names, arrays, strict=True)))
        return table.set_column(7, "actual", table["actual"].cast(pa.int32()))
