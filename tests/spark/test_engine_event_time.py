"""Event time from end to end: the last windows close when the input ends, silent inputs hold the watermark back, sources stay aligned."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, KeyedOperator, PerseidError, every
from perseid.apps.windowed_count import WindowedCount
from perseid.driver.running import Running
from perseid.storage.journal import read_journal
from perseid.storage.store import Store
from perseid.testing.admissions import Admissions

pytestmark = pytest.mark.spark
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # hosts cannot import this file

SECOND = every(seconds=1)
EVENT_TIME = perseid.event_time("at", delay=SECOND)


class Ticking(KeyedOperator):
    """Sets a timer of event time again whenever one fires, for good."""

    def process_key(self, key: Any, rows: pa.Table) -> None:
        self.context.timers.at_event_time(key, rows["at"][0].as_py())

    def on_key_timer(self, key: Any, timer: Any) -> Iterator[Mapping[str, Any]]:
        self.context.timers.at_event_time(key, timer.at_ms + 1_000)
        yield {"key": key, "at": timer.at_ms}


class Ahead(KeyedOperator):
    """Says of every epoch how far each of its inputs was."""

    def process_key(self, key: Any, small: pa.Table, large: pa.Table) -> Iterator[Mapping[str, Any]]:
        for name, rows in (("small", small), ("large", large)):
            if rows.num_rows:
                yield {"epoch": int(self.context.epoch), "input": name, "at": max(rows["at"].to_pylist())}


class Begin:
    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.started = spark, root, list[Running]()

    def __call__(self, app: App, **more: Any) -> Running:
        settings = {"hosts": 1, "spares": 0, "checkpoint": apps.scheme("parallel", 5)}
        root = str(more.pop("root", self.root))
        self.started.append(app.start(self.spark, root=root, **{**settings, **more}))
        return self.started[-1]


@pytest.fixture
def begin(spark: SparkSession, tmp_path: Path) -> Iterator[Begin]:
    begin = Begin(spark, tmp_path / "root")
    yield begin
    for running in begin.started:
        with contextlib.suppress(PerseidError):
            running.stop()


def windows(source: Any, out: Path, look: Callable[[], None] | None = None) -> App:
    """Rows by key and second, counted; then these counts, counted again by ten seconds."""
    app = App("windows")
    rows = app.source("rows", source)
    seconds = rows.stateful(
        "seconds",
        WindowedCount(SECOND),
        key="key",
        event_time=EVENT_TIME,
        output="window timestamp, key string, n long",
    )
    again = seconds.transform("again", lambda df: df.selectExpr("key", "window as at"))
    tens = again.stateful(
        "tens", WindowedCount(every(seconds=10)), key="key", event_time=EVENT_TIME,
        output="window timestamp, key string, n long",
    )  # fmt: skip
    seconds.sink("seconds-out", perseid.sinks.parquet(str(out / "seconds")))
    tens.sink("tens-out", perseid.sinks.parquet(str(out / "tens")))
    if look is not None:
        rows.sink("look", perseid.sinks.foreach(lambda epoch, df: look()))  # in every epoch, before it is committed
    return app


def told(folder: Path) -> list[tuple[int, int]]:
    """Windows and counts, by the second."""
    rows = pq.read_table(folder, partitioning=None).to_pylist() if any(folder.rglob("*.parquet")) else []
    return sorted((round(row["window"].timestamp()), row["n"]) for row in rows)


def write(folder: Path, name: str, seconds: range) -> None:
    lines = (json.dumps({"key": "k", "at": f"1970-01-01T00:00:{s:02d}Z"}) + "\n" for s in seconds for _ in range(3))
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(lines))


def test_the_last_windows_close_when_the_input_ends_for_good_once_and_the_same_in_a_replay(
    begin: Begin, tmp_path: Path
) -> None:
    source = perseid.sources.generator({"key": "'k'", "at": "timestamp_seconds(id div 3)"}, rows=36)
    everything = ([(s, 3) for s in range(12)], [(0, 10), (10, 2)])
    admissions = Admissions(str(tmp_path / "root"))
    app = windows(source, tmp_path / "out", admissions.look)
    assert begin(app, max_rows_per_epoch=10).wait(300)
    assert (told(tmp_path / "out/seconds"), told(tmp_path / "out/tens")) == everything
    assert [a.last for _, a in sorted(admissions.epochs.items())] == [False] * 4 + [True]
    assert begin(windows(source, tmp_path / "out", admissions.look)).wait(300)  # started again, it has nothing to do
    assert (told(tmp_path / "out/seconds"), told(tmp_path / "out/tens")) == everything
    admissions.twin(str(tmp_path / "twin"))
    assert begin(windows(source, tmp_path / "twin-out", admissions.look), root=tmp_path / "twin").wait(300)
    assert (told(tmp_path / "twin-out/seconds"), told(tmp_path / "twin-out/tens")) == everything
    assert [e["epoch"] for e in read_journal(Store.at(str(tmp_path / "root"))) if e.get("last")] == [5]


def test_what_is_available_now_may_grow_so_its_windows_stay_open_until_it_is_said_that_it_ends(
    begin: Begin, tmp_path: Path
) -> None:
    def app() -> App:
        source = perseid.sources.files(tmp_path / "in", schema="key string, at timestamp", format="json")
        return windows(source, tmp_path / "out")

    write(tmp_path / "in", "1.json", range(5))
    assert begin(app(), available_now=True).wait(300)
    write(tmp_path / "in", "2.json", range(5, 12))
    running = begin(app(), available_now=True)
    assert running.wait(300) and running.progress().late_rows == 0
    assert told(tmp_path / "out/seconds") == [
        (s, 3) for s in range(3)
    ]  # 4 s less a second's delay: as of the first run
    assert begin(app(), available_now=True, close_windows_at_end=True).wait(300)
    assert told(tmp_path / "out/seconds") == [(s, 3) for s in range(12)]
    assert told(tmp_path / "out/tens") == [(0, 10), (10, 2)]
    write(tmp_path / "in", "3.json", range(20, 25))  # after the end of time
    running = begin(app(), available_now=True)
    assert running.wait(300) and running.progress().late_rows == 15
    assert told(tmp_path / "out/seconds") == [(s, 3) for s in range(12)]


def test_timers_that_are_set_again_and_again_do_not_keep_the_last_epoch_from_being_the_last(
    begin: Begin, tmp_path: Path
) -> None:
    app = App("ticking")
    rows = app.source("rows", perseid.sources.generator({"key": "id", "at": "id * 1000"}, rows=3))
    ticks = rows.stateful("tick", Ticking(), key="key", output="key long, at long", event_time=EVENT_TIME)
    ticks.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
    assert begin(app).wait(300)
    fired = sorted((r["key"], r["at"]) for r in pq.read_table(tmp_path / "out", partitioning=None).to_pylist())
    assert fired[:2] == [(0, 0), (0, 1_000)] and (2, 2_000) in fired


def test_an_input_without_rows_yet_makes_nobody_late_and_one_that_is_idle_lets_windows_close(
    begin: Begin, tmp_path: Path
) -> None:
    class Both(WindowedCount):
        def process(self, fast: pa.Table, slow: pa.Table) -> pa.Table:  # type: ignore[override]
            return super().process(pa.concat_tables([fast, slow]))

    def app(idle_after: perseid.Duration | None) -> App:
        app = App("both")
        sources = {
            name: app.source(
                name, perseid.sources.files(tmp_path / name, schema="key string, at timestamp", format="json")
            )
            for name in ("fast", "slow")
        }
        time = perseid.event_time("at", delay=SECOND, idle_after=idle_after)
        counts = app.stateful(
            "count", Both(SECOND), sources, key="key", event_time=time, output="window timestamp, key string, n long"
        )
        counts.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
        return app

    clock = perseid.testing.Clock()
    write(tmp_path / "fast", "1.json", range(30, 40))
    write(tmp_path / "slow", ".none", range(0))
    assert begin(app(None), available_now=True, clock=clock).wait(300)
    write(tmp_path / "fast", "2.json", range(40, 41))
    assert begin(app(None), available_now=True, clock=clock).wait(300)
    assert told(tmp_path / "out") == []  # slow had no rows yet: its rows may be older
    write(tmp_path / "slow", "1.json", range(5))
    running = begin(app(None), available_now=True, clock=clock)
    assert running.wait(300) and running.progress().late_rows == 0
    running = begin(app(every(seconds=30)), clock=clock)
    write(tmp_path / "fast", "3.json", range(50, 51))
    apps.wait_for_epoch(running, 4)
    clock.advance(seconds=31)
    write(tmp_path / "fast", "4.json", range(51, 52))
    apps.wait_for_epoch(running, 5)  # which may have been looked for before the clock moved on
    write(tmp_path / "fast", "5.json", range(51, 52))
    apps.wait_for_epoch(running, 6)
    running.stop()
    assert told(tmp_path / "out") == [(s, 3) for s in [*range(5), *range(30, 41)]]


def test_a_small_source_does_not_run_ahead_of_a_large_one_in_event_time(begin: Begin, tmp_path: Path) -> None:
    app = App("aligned")
    small = app.source("small", perseid.sources.generator({"key": "0", "at": "id * 1000"}, rows=100))
    large = app.source("large", perseid.sources.generator({"key": "0", "at": "id * 100"}, rows=1_000))
    ahead = app.stateful(
        "ahead", Ahead(), {"small": small, "large": large}, key="key", event_time=EVENT_TIME,
        output="epoch long, input string, at long",
    )  # fmt: skip
    ahead.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
    assert begin(app, max_rows_per_epoch=50, align=every(seconds=10)).wait(300)
    rows = sorted(pq.read_table(tmp_path / "out", partitioning=None).to_pylist(), key=lambda row: row["epoch"])
    at = {"small": 0, "large": 0}
    behind = []
    for row in rows:
        at[row["input"]] = row["at"]
        behind.append(at["small"] - at["large"])
    assert at == {"small": 99_000, "large": 99_900}  # every row was read
    small_epochs = [row["epoch"] for row in rows if row["input"] == "small"]
    assert len(small_epochs) == 2 and small_epochs[1] > 5  # not in the second epoch, before which it was 44 s ahead
