"""A KeyedOperator is a naive program that keeps a dict per key, whenever it is saved and restored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from perseid import Context, KeyedOperator, every, state
from perseid.state.codec import decode, encode
from perseid.state.operator_state import capture, fresh, restore, run_epoch
from perseid.vocabulary import Epoch

TTL_MS = 50


class Subject(KeyedOperator):
    """Each value is an order: count, set a timer, cancel, forget."""

    ttl = every(milliseconds=TTL_MS)
    n: int = state(default=0)
    log: list[str] = state(default_factory=list)

    def process_key(self, key: Any, rows: pa.Table) -> list[dict[str, Any]]:
        timers, now = self.context.timers, self.context.time_ms
        for order in rows.column("order").to_pylist():
            self.n += 1
            self.log.append(order)
            if order == "soon":
                timers.at_processing_time(key, now + 20)
            elif order == "late":
                timers.at_processing_time(key, now + 120, name="late")
            elif order == "event":
                timers.at_event_time(key, now + 10)
            elif order == "cancel":
                timers.cancel(key)
            elif order == "forget":
                self.context.forget()
        return [{"key": key, "what": "rows", "n": self.n, "log": ",".join(self.log)}]

    def on_key_timer(self, key: Any, timer: Any) -> list[dict[str, Any]]:
        self.n += 100
        if timer.name == "late":
            self.context.timers.at_processing_time(key, timer.at_ms, name="again")
        elif timer.kind == "event":
            self.context.forget()
        return [{"key": key, "what": f"{timer.kind}{timer.name}@{timer.at_ms}", "n": self.n, "log": ",".join(self.log)}]


class Model:
    """The same by the plainest means: lists, full scans, no snapshots."""

    def __init__(self) -> None:
        self.state: dict[Any, list[Any]] = {}
        self.touched: dict[Any, int] = {}
        self.timers: list[tuple[Any, int, str, str]] = []
        self.clock = 0

    def set_timer(self, *timer: Any) -> None:
        if timer not in self.timers:
            self.timers.append(timer)

    def finish(self, key: Any, values: list[Any], forgotten: bool) -> None:
        if forgotten:
            self.state.pop(key, None)
            self.touched.pop(key, None)
        else:
            self.state[key] = values
            self.touched[key] = self.clock

    def epoch(self, now: int, watermark: int | None, rows: list[tuple[Any, str]]) -> list[dict[str, Any]]:
        self.clock = max(self.clock, now)
        for key in [key for key, at in self.touched.items() if self.clock - at >= TTL_MS]:
            if any(timer[0] == key for timer in self.timers):
                self.touched[key] = self.clock
            else:
                self.finish(key, [], True)
        out = []
        for key in dict.fromkeys(key for key, _ in rows):
            n, log = self.state.get(key, [0, []])
            forgotten = False
            for order in [order for of_key, order in rows if of_key == key]:
                n, log = n + 1, [*log, order]
                if order == "soon":
                    self.set_timer(key, now + 20, "processing", "")
                elif order == "late":
                    self.set_timer(key, now + 120, "processing", "late")
                elif order == "event":
                    self.set_timer(key, now + 10, "event", "")
                elif order == "cancel":
                    self.timers = [t for t in self.timers if (t[0], t[3]) != (key, "")]
                elif order == "forget":
                    forgotten = True
                    self.timers = [t for t in self.timers if t[0] != key]
            out.append({"key": key, "what": "rows", "n": n, "log": ",".join(log)})
            self.finish(key, [n, log], forgotten)
        due = [
            t for t in self.timers if t[1] <= (now if t[2] == "processing" else -1 if watermark is None else watermark)
        ]
        due.sort(key=lambda timer: (timer[2] == "event", timer[1]))
        self.timers = [timer for timer in self.timers if timer not in due]
        gone = set()
        for key, at_ms, kind, name in due:
            if key in gone:
                continue
            n, log = self.state.get(key, [0, []])
            n += 100
            forgotten = False
            if name == "late":
                self.set_timer(key, at_ms, "processing", "again")
            elif kind == "event":
                forgotten = True
                gone.add(key)
                self.timers = [t for t in self.timers if t[0] != key]
            out.append({"key": key, "what": f"{kind}{name}@{at_ms}", "n": n, "log": ",".join(log)})
            self.finish(key, [n, log], forgotten)
        return out


orders = st.sampled_from(["count", "soon", "late", "event", "cancel", "forget"])
keys = st.sampled_from(["a", "b", "c", "d", None])
epochs = st.lists(
    st.tuples(
        st.integers(-15, 70),  # time since the epoch before: clocks jump back, too
        st.one_of(st.none(), st.integers(0, 40)),  # how far the watermark is behind
        st.lists(st.tuples(keys, orders), max_size=12),
        st.booleans(),  # saved and restored before it
    ),
    max_size=15,
)


@given(epochs)
def test_a_keyed_operator_equals_a_naive_model_whenever_it_is_restored(history: list[Any]) -> None:
    shard, model, now = fresh(Subject()), Model(), 1000
    for number, (step, behind, rows, saved) in enumerate(history, 1):
        now += step
        watermark = -1 if behind is None else now - behind
        if saved:
            buffers = [memoryview(bytes(buffer)) for buffer in encode(capture(shard))]
            shard = fresh(Subject())
            restore(shard, decode(buffers))
        table = pa.table(
            {
                "key": pa.array([key for key, _ in rows], pa.string()),
                "order": pa.array([order for _, order in rows], pa.string()),
            }
        )
        context = Context(epoch=Epoch(number), time_ms=now, watermark_ms=watermark, key=("key",))
        output = run_epoch(shard, {"rows": table}, context)
        assert ([] if output is None else output.to_pylist()) == model.epoch(now, watermark, rows)
        shard._keyed.check()
        shard._timers.check()
        assert sorted(map(repr, shard._timers.capture())) == sorted(map(repr, model.timers))
        assert {key: list(values) for key, values in shard._keyed.values.items()} == model.state


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(-3, 3)), st.sampled_from(["x", "y", None])), max_size=60),
    st.integers(1, 5),
)
def test_grouping_by_two_columns_equals_a_dict_of_lists(rows: list[tuple[Any, Any]], chunks: int) -> None:
    from perseid.operators.grouping import Groups

    if not rows:
        return
    table = pa.table({"a": pa.array([a for a, _ in rows], pa.int64()), "b": pa.array([b for _, b in rows], pa.string()),
                      "place": list(range(len(rows)))})  # fmt: skip
    size = -(-len(rows) // chunks)
    table = pa.concat_tables([table.slice(start, size) for start in range(0, len(rows), size)])
    expected: dict[Any, list[int]] = {}
    for place, key in enumerate(rows):
        expected.setdefault(key, []).append(place)
    found = {key: of_key.column("place").to_pylist() for key, of_key in Groups(table, ("a", "b"), "x")}
    assert list(found.items()) == list(expected.items())
