"""The tables of a root as Spark's planner and tasks ask for them, without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from test_export_and_import import visits, words
from transfer_apps import Visitors, Words, application, begun

import pyspark_perseid
from perseid.errors import CorruptData, RootError, SettingsError


def read(root: Path, columns: list[str] | None = None, **options: str) -> list[pa.Table]:
    """The partitions: planned in one process, read in others."""
    source = pyspark_perseid.DefaultSource({"path": str(root), **options})
    schema = source.schema()
    assert isinstance(schema, StructType)
    if columns is not None:
        schema = StructType([schema[name] for name in columns])
    reader = source.reader(schema)
    tables = []
    for partition in reader.partitions():
        batches = list(pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(partition))))
        expected = to_arrow_schema(schema, timezone="UTC")
        assert all(batch.schema.equals(expected) for batch in batches), "Spark takes no other"
        tables.append(pa.Table.from_batches(batches, expected))
    return tables


@pytest.fixture
def visitors(tmp_path: Path) -> Path:
    begun(tmp_path / "visitors", application(Visitors()), visits)
    return tmp_path / "visitors"


@pytest.fixture
def words_root(tmp_path: Path) -> Path:
    begun(tmp_path / "words", application(Words()), words)
    return tmp_path / "words"


def test_spark_finds_the_format_by_the_name_of_the_package() -> None:
    assert issubclass(pyspark_perseid.DefaultSource, DataSource) and pyspark_perseid.DefaultSource.name() == "perseid"


def test_a_partition_for_each_shard_and_a_row_for_each_key(visitors: Path) -> None:
    first, second = read(visitors)
    assert first.num_rows + second.num_rows == 50 and min(first.num_rows, second.num_rows) > 0
    assert first.column_names == ["shard", "epoch", "key", "value", "touched_ms"]
    row = first.to_pylist()[1]
    assert row["value"]["n"] == 1 and row["value"]["counts"] == [("a", 1)] and row["touched_ms"] == 4_001


def test_the_columns_that_are_asked_for_are_read(visitors: Path) -> None:
    assert [table.column_names for table in read(visitors, ["key"], shard="1")] == [["key"]]


def test_tables_of_fields_timers_epochs_and_checkpoints(visitors: Path, words_root: Path) -> None:
    assert sum(table.num_rows for table in read(visitors, table="timers")) == 50
    assert sum(table.num_rows for table in read(words_root, field="counts")) == 50
    assert [table.column("value").to_pylist() for table in read(words_root, field="largest")] == [[41], [41]]
    (epochs,) = read(words_root, table="epochs")
    assert epochs.num_rows == 0, "what was imported counts as an epoch that is trimmed"
    (checkpoints,) = read(words_root, table="checkpoints")
    (row,) = checkpoints.to_pylist()
    assert row["scheme"] == "import" and row["units"] == [("main", 1)] and len(row["shards"]) == 2


def test_the_key_of_the_root_is_in_no_plan(visitors: Path) -> None:
    source = pyspark_perseid.DefaultSource({"path": str(visitors)})
    plan = pickle.dumps(source.reader(source.schema()))
    key = (visitors / "key.json").read_text()
    secret = key.partition('"key":')[2].split('"')[1]
    assert len(secret) == 64 and secret.encode() not in plan and bytes.fromhex(secret) not in plan


def test_without_the_key_nothing_is_read(visitors: Path) -> None:
    (visitors / "key.json").unlink()
    with pytest.raises(CorruptData, match="without it no snapshot can be trusted"):
        read(visitors)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"table": "rows"}, SettingsError, "no table 'rows'; there is: state, timers, epochs, checkpoints"),
        ({"opertor": "count"}, SettingsError, "no option 'opertor'"),
        ({"checkpoint": "newest"}, SettingsError, "option checkpoint: expected a number, got 'newest'"),
        ({"operator": "others"}, RootError, "no operator 'others'"),
        ({"shard": "7"}, RootError, "no shard 7"),
    ],
)
def test_a_mistake_in_the_options_is_told(
    visitors: Path, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        read(visitors, **options)


def test_a_field_is_asked_for_where_there_are_several(words_root: Path) -> None:
    with pytest.raises(
        SettingsError, match=r"which field of operator 'operator'\? option field: counts, seen, largest"
    ):
        read(words_root)


def test_a_folder_that_is_no_root_is_told_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(RootError, match="no such folder"):
        read(tmp_path / "rot", table="epochs")
    assert not (tmp_path / "rot").exists()
    with pytest.raises(SettingsError, match="which root"):
        pyspark_perseid.DefaultSource({})
