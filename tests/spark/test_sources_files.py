"""Files as a source: every file once, in order, the same when read again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from perseid.errors import SettingsError, SourceChanged
from perseid.sources import files
from perseid.sources.files import Files
from perseid.storage.store import Store
from perseid.vocabulary import Offset

pytestmark = pytest.mark.spark

FOLDER = "sources/in"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.at(str(tmp_path / "root"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


def put_parquet(folder: Path, name: str, first: int, rows: int, mtime_s: int) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(range(first, first + rows))}), path, row_group_size=max(1, rows // 2))
    os.utime(path, (mtime_s, mtime_s))


def put_lines(folder: Path, name: str, lines: list[str], mtime_s: int) -> None:
    (folder / name).write_text("".join(line + "\n" for line in lines))
    os.utime(folder / name, (mtime_s, mtime_s))


def opened(source: Files, spark: SparkSession, store: Store) -> Files:
    source.open(spark, FOLDER, store)
    return source


def numbers(df: DataFrame) -> list[int]:
    return [row[0] for row in df.collect()]


def take(source: Files, start: int, max_rows: int | None = None, *, later: bool = False) -> int:
    """How far an epoch may read; ``later``: so much later that the folder is listed again."""
    if later:
        source._list_at_s = 0.0
    return source.end(Offset(start), max_rows, 0)


def test_rows_come_in_the_order_of_the_files_whatever_their_sizes(spark, store, inbox):
    put_parquet(inbox, "b.parquet", 0, 3, 10)
    put_parquet(inbox, "z.parquet", 3, 500, 20)
    put_parquet(inbox, "a.parquet", 503, 50, 30)
    put_parquet(inbox, "sub/folder/a.parquet", 553, 2000, 30)
    source = opened(files(inbox), spark, store)
    end = take(source, 0)
    assert end == 4
    assert source.rows(Offset(0), Offset(end)) == source.waiting(Offset(0)) == 2553
    assert source.waiting(Offset(1)) == 2550 and source.waiting(Offset(end)) == 0
    assert numbers(source.read(Offset(0), Offset(end))) == list(range(2553))
    assert numbers(source.read(Offset(0), Offset(end))) == list(range(2553))
    assert numbers(source.read(Offset(1), Offset(3))) == list(range(3, 553))


def test_one_big_file_is_read_in_order_by_many_tasks(spark, store, inbox):
    pq.write_table(pa.table({"n": list(range(200_000))}), inbox / "big.parquet", row_group_size=5_000)
    put_parquet(inbox, "small.parquet", 200_000, 10, 2_000_000_000)
    source = opened(files(inbox), spark, store)
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    try:
        df = source.read(Offset(0), Offset(take(source, 0)))
        alone = source.read(Offset(0), Offset(1))
        assert alone.rdd.getNumPartitions() > 4
        assert numbers(alone) == list(range(200_000))
        assert numbers(df) == list(range(200_010))
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)


def test_many_files_are_read_in_order(spark, store, inbox):
    for i in range(70):
        put_lines(inbox, f"{i % 7}-{i}.txt", [str(i * 10 + k) for k in range(10)][: 1 + i % 10], 1000 + i)
    source = opened(files(inbox, format="text"), spark, store)
    wanted = [str(i * 10 + k) for i in range(70) for k in range(1 + i % 10)]
    df = source.read(Offset(0), Offset(take(source, 0)))
    assert [row.value for row in df.collect()] == wanted
    assert [row.value for row in df.collect()] == wanted
    assert df.rdd.getNumPartitions() > 2


def test_where_nobody_looks_at_the_order_the_same_rows_come_from_few_scans(spark, store, inbox):
    for i in range(70):
        put_parquet(inbox, f"{i % 7}-{i}.parquet", i * 10, 1 + i % 10, 1000 + i)
    source = opened(files(inbox), spark, store)
    end = Offset(take(source, 0))
    df = source.read_unordered(Offset(0), end)
    assert sorted(numbers(df)) == numbers(source.read(Offset(0), end))
    assert len(df.inputFiles()) == 70
    assert df._jdf.queryExecution().analyzed().toString().count("Relation") == 3, (
        "Spark lists 32 files at a time by itself"
    )
    nothing = source.read_unordered(end, end)
    assert (nothing.columns, numbers(nothing)) == (["n"], [])


def test_names_that_mean_something_to_spark_or_to_a_url_are_only_names(spark, store, tmp_path):
    inbox = tmp_path / "in [1] 50%"
    inbox.mkdir()
    names = [
        "a b.txt",
        "ü+ö.txt",
        "50%.txt",
        "x[1].txt",
        "q{a,b}.txt",
        "100%25.txt",
        "e=1&f;g,h'i(j)!~@$.txt",
        "#1?.txt",
    ]
    for i, name in enumerate(names):
        put_lines(inbox, name, [f"{i}"], 100 + i)
    source = opened(files(inbox, format="text"), spark, store)
    assert take(source, 0) == len(names)
    rows = source.read(Offset(0), Offset(len(names))).collect()
    assert [row.value for row in rows] == [str(i) for i in range(len(names))]
    unordered = source.read_unordered(Offset(0), Offset(len(names))).collect()
    assert sorted(row.value for row in unordered) == [str(i) for i in range(len(names))]


def test_an_epoch_takes_whole_files_up_to_the_limit_and_at_least_one(spark, store, inbox):
    for i, rows in enumerate([10, 10, 10, 50]):
        put_parquet(inbox, f"{i}.parquet", i * 100, rows, 10 + i)
    source = opened(files(inbox), spark, store)
    assert take(source, 0, 25) == 2
    assert take(source, 0, 30) == 3
    assert take(source, 3, 5) == 4
    assert take(source, 4, 5) == 4
    assert not source.finished(Offset(4))


def test_limits_of_line_formats_go_by_an_estimate(spark, store, inbox):
    for i in range(4):
        put_lines(inbox, f"{i}.json", [json.dumps({"n": k}) for k in range(20_000)], 10 + i)
    source = opened(files(inbox, format="json", schema="n long"), spark, store)
    assert take(source, 0, 45_000) == 2
    assert source.rows(Offset(0), Offset(2)) is None


def test_new_files_are_found_and_old_ones_are_not_taken_twice(spark, store, inbox):
    put_parquet(inbox, "1.parquet", 0, 5, 10)
    source = opened(files(inbox), spark, store)
    assert take(source, 0) == 1
    put_parquet(inbox, "2.parquet", 5, 5, 5)
    put_parquet(inbox, "_hidden.parquet", 50, 5, 5)
    put_parquet(inbox, ".hidden.parquet", 50, 5, 5)
    put_parquet(inbox, "_temporary/3.parquet", 50, 5, 5)
    assert take(source, 1) == 1, "not listed again so soon"
    assert take(source, 1, later=True) == 2
    assert take(source, 2, later=True) == 2
    assert numbers(source.read(Offset(0), Offset(2))) == list(range(10))


def test_a_folder_that_has_not_changed_is_not_scanned_but_its_new_files_are_found(spark, store, inbox):
    put_parquet(inbox, "sub/1.parquet", 0, 5, 10)
    os.utime(inbox / "sub", (10, 10))
    os.utime(inbox, (10, 10))
    source = opened(files(inbox), spark, store)
    assert take(source, 0) == 1
    assert take(source, 1, later=True) == 1
    put_parquet(inbox, "sub/2.parquet", 5, 5, 10)
    assert take(source, 1, later=True) == 2


def test_a_file_that_is_not_whole_yet_waits(spark, store, inbox):
    put_parquet(inbox, "1.parquet", 0, 5, 10)
    whole = (inbox / "1.parquet").read_bytes()
    (inbox / "1.parquet").write_bytes(whole[:50])
    (inbox / "empty.parquet").touch()
    source = opened(files(inbox, schema="n long"), spark, store)
    assert take(source, 0) == 0
    (inbox / "1.parquet").write_bytes(whole)
    assert take(source, 0, later=True) == 1
    assert numbers(source.read(Offset(0), Offset(1))) == list(range(5))


def test_another_start_goes_on_with_the_same_numbers(spark, store, inbox):
    put_parquet(inbox, "m.parquet", 0, 5, 10)
    first = opened(files(inbox), spark, store)
    assert take(first, 0) == 1
    put_parquet(inbox, "a.parquet", 5, 5, 5)  # older and earlier in the alphabet, but it came later
    second = opened(files(inbox), spark, store)
    assert take(second, 1) == 2
    put_parquet(inbox, "0.parquet", 10, 5, 1)
    take(first, 1, later=True)  # a driver that does not know that it was replaced
    third = opened(files(inbox), spark, store)
    assert take(third, 2) == 3
    assert numbers(third.read(Offset(0), Offset(3))) == list(range(15))


@pytest.mark.parametrize("how", ["longer", "touched", "gone"])
def test_a_file_that_changed_is_refused_by_name(spark, store, inbox, how):
    put_lines(inbox, "a.txt", ["x"], 10)
    source = opened(files(inbox, format="text"), spark, store)
    take(source, 0)
    if how == "longer":
        put_lines(inbox, "a.txt", ["x", "y"], 10)
    elif how == "touched":
        os.utime(inbox / "a.txt", (11, 11))
    else:
        (inbox / "a.txt").unlink()
    with pytest.raises(SourceChanged, match=r"a\.txt.*new root"):
        source.read(Offset(0), Offset(1))


def test_text_has_the_column_the_schema_names(spark, store, inbox):
    put_lines(inbox, "a.txt", ["hello", "you"], 10)
    source = opened(files(inbox, schema="line string", format="text"), spark, store)
    rows = source.read(Offset(0), Offset(take(source, 0)))
    assert rows.columns == ["line"]
    assert [row.line for row in rows.collect()] == ["hello", "you"]


def test_json_and_csv_are_read_with_options_and_inferred_schemas_are_kept(spark, store, inbox):
    put_lines(inbox, "a.csv", ["n;name", "1;a", "2;b"], 10)
    put_lines(inbox, "a.json", ['{"n": 1}'], 10)
    csv = files(inbox, format="csv", pattern="*.csv", options={"header": True, "sep": ";"})
    csv.open(spark, "sources/csv", store)
    assert [tuple(row) for row in csv.read(Offset(0), Offset(take(csv, 0))).collect()] == [(1, "a"), (2, "b")]

    first = files(inbox, format="json", pattern="*.json")
    first.open(spark, "sources/json", store)
    put_lines(inbox, "b.json", ['{"n": 2, "new": true}'], 10)
    second = files(inbox, format="json", pattern="*.json")
    second.open(spark, "sources/json", store)
    df = second.read(Offset(0), Offset(take(second, 0)))
    assert df.columns == ["n"]
    assert numbers(df) == [1, 2]


def test_an_empty_slice_has_the_schema(spark, store, inbox):
    source = opened(files(inbox, schema="n long, `odd name.x` string"), spark, store)
    assert take(source, 0) == 0
    df = source.read(Offset(0), Offset(0))
    assert df.columns == ["n", "odd name.x"]
    assert df.collect() == []


def test_a_single_file_and_file_uris_are_fine(spark, store, inbox):
    put_lines(inbox, "a.txt", ["x"], 10)
    put_lines(inbox, "b.txt", ["y"], 10)
    one = files(inbox / "b.txt", format="text")
    one.open(spark, "sources/one", store)
    assert [row.value for row in one.read(Offset(0), Offset(take(one, 0))).collect()] == ["y"]
    both = files(f"file://{inbox}", format="text")
    both.open(spark, "sources/both", store)
    assert take(both, 0) == 2


def test_bad_settings_are_refused_with_advice(spark, store, inbox):
    with pytest.raises(SettingsError, match=r"'avro'.*stream"):
        files("in", format="avro")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="Create the folder"):
        opened(files(inbox / "nowhere"), spark, store)
    with pytest.raises(SettingsError, match="pattern="):
        opened(files(inbox / "*.json"), spark, store)
    with pytest.raises(SettingsError, match="schema="):
        opened(files(inbox), spark, store)
    with pytest.raises(SettingsError, match="no list of columns"):
        opened(files(inbox, schema="n lonk"), spark, store)
    with pytest.raises(SettingsError, match="one column of strings"):
        opened(files(inbox, schema="n long", format="text"), spark, store)
