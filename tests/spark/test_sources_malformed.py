"""Lines that do not fit their schema: put aside once, refused, or read as nulls; whatever columns the application wants."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, PerseidError
from perseid.driver.running import Running
from perseid.errors import SettingsError
from perseid.sources import files
from perseid.sources.files import Files
from perseid.sources.malformed import malformed_line
from perseid.storage.journal import read_journal
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark

SCHEMA = "n long, price double, name string"
JSON = [
    '{"n": 1, "price": 1.5, "name": "a"}',
    '{"n": 2, "price": 2.5, "na',  # cut off
    '{"n": "three", "price": 3.5, "name": "c"}',  # no number
    "",
    '{"n": 4, "name": "d"}',  # a missing field is no mistake
    "not json at all",
]
JSON_BAD = [JSON[1], JSON[2], JSON[5]]
CSV = ["1,1.5,a", "2,2.5", "3,3.5,c,more", "four,4.5,d", '5,5.5,"e, with a comma"', "6,,f"]
CSV_BAD = [CSV[1], CSV[2], CSV[3]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def put(folder: Path, name: str, lines: list[str]) -> None:
    (folder / f".{name}").write_text("".join(line + "\n" for line in lines))
    (folder / f".{name}").rename(folder / name)


def opened(source: Files, spark: SparkSession, store: Store) -> Files:
    source.open(spark, "sources/in", store)
    return source


def letters(store: Store, source: str = "in") -> list[str]:
    folder = f"dead-letters/{source}"
    found = [json.loads(line) for name in store.list(folder) for line in store.read(f"{folder}/{name}").splitlines()]
    return [letter["line"] for letter in found]


@pytest.mark.parametrize(
    ("format", "lines", "bad", "good"), [("json", JSON, JSON_BAD, [1, 4]), ("csv", CSV, CSV_BAD, [1, 5, 6])]
)
def test_bad_lines_fail_the_job_then_go_aside_once_whatever_is_read_of_the_rows(
    spark: SparkSession, store: Store, inbox: Path, format: Any, lines: list[str], bad: list[str], good: list[int]
) -> None:
    put(inbox, "1.txt", lines)
    put(inbox, "2.txt", [lines[0]] * 3)
    source = opened(files(inbox, schema=SCHEMA, format=format), spark, store)
    end = source.end(Offset(0), None, 10**6)
    readings: list[Callable[[Any], Any]] = [
        lambda df: df.collect(),
        lambda df: df.count(),  # wants no column
        lambda df: df.select("price").where("price > 100").collect(),  # would push its condition into the reader
    ]
    for read in readings:
        with pytest.raises(PySparkException) as caught:
            read(source.read(Offset(0), end))
        found = malformed_line(str(caught.value))
        assert found is not None and found["file"].endswith("1.txt") and found["line"] in bad
    aside = source.set_aside(Offset(0), end)
    assert aside is not None and aside.lines == 3 and aside.files[0].endswith("1.txt") and aside.first == bad[0]
    assert letters(store) == bad and source.malformed_lines == 3
    again = opened(files(inbox, schema=SCHEMA, format=format), spark, store)  # as after a crash
    for one in (source, again):
        assert [row["n"] for row in one.read(Offset(0), end).collect()] == [*good, 1, 1, 1]
        assert one.read(Offset(0), end).count() == len(good) + 3
        assert sorted(row["n"] for row in one.read_unordered(Offset(0), end).select("n").collect()) == [
            1,
            1,
            1,
            *good,
        ]
        assert one.set_aside(Offset(0), end) is None and one.malformed_lines == 3
    assert letters(store) == bad
    first = json.loads(store.read("dead-letters/in/file=00000000.jsonl").splitlines()[0])
    assert first["file"].endswith("/in/1.txt") and (first["block"], first["row"]) == (0, 2)


def test_what_was_read_as_nulls_is_read_so_again_when_the_setting_changes(
    spark: SparkSession, store: Store, inbox: Path
) -> None:
    put(inbox, "1.json", JSON)
    source = opened(files(inbox, schema=SCHEMA, format="json", malformed="null"), spark, store)
    before = source.end(Offset(0), None, 10**6)
    rows = source.read(Offset(0), before).collect()
    assert len(rows) == 5 and letters(store) == []
    source = opened(files(inbox, schema=SCHEMA, format="json"), spark, store)
    put(inbox, "2.json", JSON)
    end = source.end(before, None, 10**7)
    assert source.read(Offset(0), before).collect() == rows  # an epoch that is replayed
    with pytest.raises(PySparkException):
        source.read(before, end).collect()


def test_the_schema_that_is_found_out_does_not_have_the_bad_lines_as_a_column(
    spark: SparkSession, store: Store, inbox: Path
) -> None:
    put(inbox, "1.json", JSON[:2])
    assert opened(files(inbox, format="json"), spark, store)._type.fieldNames() == ["n", "name", "price"]


def test_settings_that_cannot_be_are_refused(inbox: Path) -> None:
    with pytest.raises(SettingsError, match="is for json and csv"):
        files(inbox, malformed="aside")
    with pytest.raises(SettingsError, match='"aside", "fail" or "null"'):
        files(inbox, format="json", malformed="drop")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="option mode"):
        files(inbox, format="json", malformed="fail", options={"mode": "FAILFAST"})
    assert files(inbox, format="json", options={"mode": "DROPMALFORMED"}).malformed == "null"


@pytest.fixture
def begin(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(malformed: Any = None) -> Running:
        app = App("totals")
        rows = app.source(
            "in", files(tmp_path / "in", schema="word string, n long", format="json", malformed=malformed)
        )
        counted = rows.transform("only", lambda df: df.where("n > 0"))  # which would drop rows of nulls without a word
        output = "word string, added long, total long"
        counted.stateful("count", apps.CountWords(), key="word", output=output).sink(
            "out", perseid.sinks.parquet(str(tmp_path / "out"))
        )
        settings = {"hosts": 1, "spares": 0, "available_now": True, "checkpoint": apps.scheme("parallel", 5)}
        started.append(app.start(spark, root=str(tmp_path / "root"), **settings))
        return started[-1]

    yield start
    for running in started:
        with contextlib.suppress(PerseidError):
            running.stop()


def test_an_application_stops_at_a_bad_line_goes_on_without_it_and_tells_of_it_once(
    begin: Callable[..., Running], inbox: Path, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(inbox, "1.json", ['{"word": "a", "n": 1}', '{"word": "a", "n": 1', '{"word": "b", "n": 1}'])
    with pytest.raises(PerseidError, match=r"1\.json does not fit the schema: '\{\"word\": \"a\", \"n\": 1'"):
        begin("fail").wait(300)
    with caplog.at_level(logging.WARNING, "perseid.sources.malformed"):
        running = begin()
        assert running.wait(300)
        assert running.progress().malformed_lines == 1
        put(inbox, "2.json", ["x", '{"word": "b", "n": 1}', "y"])
        put(inbox, "3.json", ["z", '{"word": "b", "n": 1}'])
        running = begin()
        assert running.wait(300) and running.progress().malformed_lines == 4
    said = [record.levelname for record in caplog.records if record.name == "perseid.sources.malformed"]
    assert said == ["WARNING"] * 2  # once for each start
    assert letters(store) == ['{"word": "a", "n": 1', "x", "y", "z"]
    told = [e for e in read_journal(store) if e["kind"] == "malformed_lines"]
    assert [(e["source"], e["lines"]) for e in told] == [("in", 1), ("in", 3)]
    apps.check_totals(str(tmp_path / "out"), "word", {"a": 1, "b": 3})
