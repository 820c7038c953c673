"""Bad input gets a clear error before anything runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
import apps

import perseid
from perseid import App, every
from perseid.errors import GraphError, PerseidError, SettingsError

pytestmark = pytest.mark.spark


def refused(app: App, spark: SparkSession, path: Path, **settings: Any) -> str:
    with pytest.raises(PerseidError) as caught:
        app.start(spark, root=str(path / "root"), **{"hosts": 1, "spares": 0, **settings})
    assert not (path / "out").exists() or not any((path / "out").glob("epoch=*"))
    return str(caught.value)


def counting(path: Path, key: str = "key", output: str = apps.COUNTED) -> App:
    app = App("counts")
    stream = app.source("numbers", apps.numbers(100))
    stream.stateful("count", apps.Count(), key=key, shards=2, output=output).sink(
        "out", perseid.sinks.parquet(str(path / "out"))
    )
    return app


def test_a_key_column_that_is_not_there_is_named_with_those_that_are(spark: SparkSession, tmp_path: Path) -> None:
    message = refused(counting(tmp_path, key="user"), spark, tmp_path)
    assert "operator 'count'" in message and "'user'" in message and "['key', 'seq']" in message


def test_inputs_whose_keys_have_different_types_are_refused_since_equal_keys_would_not_meet(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark hashes 5 as an int and 5 as a long differently: they would go to different shards."""
    app = App("join")
    left = app.source("left", apps.numbers(100))
    right = app.source("right", perseid.sources.generator({"other": "cast(id % 97 as int)"}, rows=100))
    both = app.stateful(
        "both", apps.Both(), inputs={"left": left, "right": right}, key={"left": "key", "right": "other"}, shards=2,
        output="key long, left long, right long, lefts long, rights long",
    )  # fmt: skip
    both.sink("out", perseid.sinks.parquet(str(tmp_path / "out")))
    message = refused(app, spark, tmp_path)
    assert "operator 'both'" in message and "left: bigint; right: int" in message and "cast them" in message


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("struct(key)", "select its fields as columns (key.key)"),
        ("array(key)", "to_json(key)"),
        ("map(key, seq)", "select the values you need as columns"),
        ("make_dt_interval(0, 0, 0, seq)", "cast it to a number or a string"),
        ("make_interval(0, cast(seq as int))", "cast it to a number or a string"),
        ("collate(cast(key as string), 'UTF8_LCASE')", "lower(key)"),
        ("parse_json('1')", "cast it to a number or a string"),
    ],
)
def test_a_key_by_which_state_cannot_be_divided_is_refused(
    spark: SparkSession, tmp_path: Path, kind: str, advice: str
) -> None:
    app = App("counts")
    keyed = app.source("numbers", apps.numbers(100)).transform("key", lambda df: df.withColumn("key", F.expr(kind)))
    keyed.stateful("count", apps.Count(), key="key", output=apps.COUNTED).sink("out", perseid.sinks.noop())
    message = refused(app, spark, tmp_path)
    assert "operator 'count': key column 'key' has type" in message and advice in message, message


def test_an_output_schema_that_is_none_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    message = refused(counting(tmp_path, output="key long added"), spark, tmp_path)
    assert "'count'" in message


def test_a_column_that_is_not_there_in_a_transform_is_named(spark: SparkSession, tmp_path: Path) -> None:
    app = App("counts")
    app.source("numbers", apps.numbers(100)).transform("pick", lambda df: df.select("nothing")).sink(
        "out", perseid.sinks.parquet(str(tmp_path / "out"))
    )
    message = refused(app, spark, tmp_path)
    assert "'pick'" in message and "nothing" in message


def test_too_few_task_slots_say_how_many_are_missing(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"too few task slots.*the cluster has \d+.*use a master with \d+ more"):
        counting(tmp_path).start(spark, root=str(tmp_path / "root"), hosts=50)


def test_an_operator_that_workers_cannot_import_is_named_at_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("only_on_the_driver")  # without a file, so it cannot be sent to workers
    exec("import apps\n\nclass Mine(apps.Count):\n    pass\n", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    app = App("mine")
    counted = app.source("numbers", apps.numbers(100)).stateful("mine", module.Mine(), key="key", output=apps.COUNTED)
    counted.sink("out", perseid.sinks.noop())
    running = app.start(spark, root=str(tmp_path / "root"), hosts=1, spares=0, start_timeout=every(minutes=5))
    with pytest.raises(PerseidError, match=r"no host can start: .* have no module 'only_on_the_driver'"):
        running.wait(300)


class Captures(apps.Count):
    def __init__(self, **given: object) -> None:
        self.__dict__.update(given)


@pytest.mark.parametrize(
    ("give", "where"),
    [
        (lambda spark: {"spark": spark}, "attribute 'spark' is a SparkSession"),
        (
            lambda spark: {"settings": {"deep": [spark.range(1)]}},
            "attribute 'settings' → key 'deep' → element 0 is a DataFrame",
        ),
        (lambda spark: {"lookup": lambda: spark}, "attribute 'lookup' → variable 'spark' is a SparkSession"),
        (lambda spark: {"lock": threading.Lock()}, "attribute 'lock' is a lock"),
    ],
)
def test_an_operator_that_cannot_be_sent_to_hosts_is_refused_with_the_attribute_that_cannot(
    spark: SparkSession, tmp_path: Path, give: Callable[[SparkSession], dict[str, object]], where: str
) -> None:
    app = App("counts")
    operator = Captures(**give(spark))
    counted = app.source("numbers", apps.numbers(100)).stateful("count", operator, key="key", output=apps.COUNTED)
    counted.sink("out", perseid.sinks.noop())
    message = refused(app, spark, tmp_path)
    assert f"operator 'count': it cannot be sent to hosts: {where}" in message, message


def test_a_function_in_a_transform_that_cannot_be_sent_to_workers_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    ask = F.udf(lambda key: spark.range(key).count(), "long")
    app = App("counts")
    app.source("numbers", apps.numbers(100)).transform("ask", lambda df: df.withColumn("n", ask("key"))).sink(
        "out", perseid.sinks.noop()
    )
    assert "transform 'ask': a function in it cannot be sent to Spark's workers" in refused(app, spark, tmp_path)


@pytest.mark.parametrize("dead_letters", [False, True])
def test_rows_that_a_transform_cannot_compute_stop_the_application_at_once(
    spark: SparkSession, tmp_path: Path, dead_letters: bool
) -> None:
    app = App("counts")
    divided = app.source("numbers", apps.numbers(100)).transform(
        "half", lambda df: df.withColumn("half", F.expr("1 / (seq - 50)"))
    )
    divided.stateful("count", apps.Count(), key="key", output=apps.COUNTED).sink("out", perseid.sinks.noop())
    root = str(tmp_path / "root")
    running = app.start(spark, root=root, hosts=1, spares=0, dead_letters=dead_letters)
    with pytest.raises(PerseidError, match="DIVIDE_BY_ZERO"):
        running.wait(300)
    assert len([entry for entry in apps.journal_of(root) if entry["kind"] == "epoch_failed"]) == 1


def test_a_cycle_a_double_name_and_an_unknown_setting_are_named(spark: SparkSession, tmp_path: Path) -> None:
    app = App("counts")
    stream = app.source("numbers", apps.numbers(100))
    stream.sink("out", perseid.sinks.noop())
    stream.sink("out", perseid.sinks.noop())
    with pytest.raises(GraphError, match="'out'"):
        app.start(spark, root=str(tmp_path / "root"))
    with pytest.raises(SettingsError, match="hostz: no such setting"):
        counting(tmp_path).start(spark, root=str(tmp_path / "root"), hostz=2)  # type: ignore[call-arg]


def test_a_period_of_zero_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PerseidError):
        counting(tmp_path).start(spark, root=str(tmp_path / "root"), checkpoint=perseid.checkpoints.parallel(0))
    with pytest.raises(PerseidError):
        every(seconds=0)


def test_after_every_refusal_the_root_is_free(spark: SparkSession, tmp_path: Path) -> None:
    refused(counting(tmp_path, key="user"), spark, tmp_path)
    assert counting(tmp_path).start(spark, root=str(tmp_path / "root"), hosts=1, spares=0).wait(300)
    apps.check_counts(str(tmp_path / "out"), 100)
