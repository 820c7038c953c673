"""The generator: rows that are a function of their number, when they are due."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from perseid.errors import SettingsError
from perseid.sources import generator
from perseid.sources.generator import Generator
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


def opened(source: Generator, spark: SparkSession, store: Store) -> Generator:
    source.open(spark, "sources/made", store)
    return source


def test_rows_are_the_same_in_any_slice_and_any_run(spark, store):
    columns = {"n": "id", "k": "cast(noise * 10 as int)", "noise": "noise"}
    source = opened(generator(columns, seed=3), spark, store)
    whole = [tuple(row) for row in source.read(Offset(0), Offset(2000)).collect()]
    other = opened(generator(columns, seed=3, partitions=7), spark, store)
    slices = [other.read(Offset(a), Offset(b)) for a, b in [(0, 1), (1, 1200), (1200, 2000)]]
    assert [tuple(row) for df in slices for row in df.collect()] == whole
    assert [row[0] for row in whole] == list(range(2000))
    assert {row[1] for row in whole} == set(range(10))
    assert all(0 <= row[2] < 1 for row in whole)
    assert 0.47 < sum(row[2] for row in whole) / 2000 < 0.53


def test_another_seed_gives_other_noise(spark, store):
    rows = [
        opened(generator({"noise": "noise"}, seed=seed), spark, store).read(Offset(0), Offset(5)).collect()
        for seed in (1, 2)
    ]
    assert rows[0] != rows[1]


def test_rows_are_due_at_their_rate_from_the_first_question_on(spark, store):
    source = opened(generator({"n": "id"}, rate=100), spark, store)
    assert source.end(Offset(500), None, 10_000) == 500
    assert source.end(Offset(500), None, 11_000) == 600
    assert source.end(Offset(500), 30, 11_000) == 530
    assert source.end(Offset(600), None, 9_000) == 600
    assert source.end(Offset(500), None, 10_500) == 600, "the clock went back, the rows did not"
    assert source.end(Offset(600), None, 11_005) == 600
    assert source.end(Offset(600), None, 11_010) == 601


def test_without_a_rate_an_epoch_takes_what_it_may(spark, store):
    source = opened(generator({"n": "id"}, rows=1000), spark, store)
    assert source.end(Offset(0), 300, 0) == 300
    assert source.end(Offset(900), 300, 0) == 1000
    assert source.end(Offset(0), None, 0) == 1000
    assert not source.finished(Offset(999))
    assert source.finished(Offset(1000))
    assert source.end(Offset(1000), 300, 0) == 1000


def test_an_empty_slice_has_the_schema(spark, store):
    source = opened(generator({"n": "id", "s": "string(id)"}), spark, store)
    full, empty = source.read(Offset(5), Offset(6)), source.read(Offset(5), Offset(5))
    assert empty.schema == full.schema
    assert empty.collect() == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": {}}, "at least one column"),
        ({"columns": {"n": ""}}, "SQL expression"),
        ({"columns": {"n": "rand()"}}, "noise"),
        ({"columns": {"n": "Current_Timestamp()"}}, "noise"),
        ({"columns": {"n": "id"}, "rate": 0}, "rate above 0"),
        ({"columns": {"n": "id"}, "rate": -1}, "rate above 0"),
        ({"columns": {"n": "id"}, "rows": -1}, "number of rows"),
        ({"columns": {"n": "id"}, "partitions": 0}, "at least 1 partition"),
    ],
)
def test_bad_settings_are_refused(settings, said):
    with pytest.raises(SettingsError, match=said):
        generator(**settings)


@pytest.mark.parametrize("expression", ["id +", "idd * 2", "nosuchfunction(id)"])
def test_a_bad_expression_is_refused_before_anything_runs(spark, store, expression):
    with pytest.raises(SettingsError, match="column 'bad'"):
        opened(generator({"n": "id", "bad": expression}), spark, store)


def test_words_inside_strings_are_not_taken_for_functions():
    generator({"n": "'now or never'"})
