"""Perseid works in any session, whatever its settings, and leaves it as it is; modules beside the application reach the hosts."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

sys.path.insert(0, str(Path(__file__).parents[1] / "faults"))
from witness import OUTPUT, Passed, Slices, Witness

import perseid
from perseid import App
from perseid.cli.loading import load_app

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ARROW = "spark.sql.execution.arrow."
MATRIX: dict[str, dict[str, str]] = {
    "adaptive": {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": "200",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.caseSensitive": "true",
        ARROW + "maxRecordsPerBatch": "1",
        ARROW + "useLargeVarTypes": "true",
        ARROW + "compression.codec": "zstd",
        ARROW + "pyspark.validateSchema.enabled": "true",
    },
    "static": {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.caseSensitive": "false",
        ARROW + "maxRecordsPerBatch": "0",
        ARROW + "pyspark.enabled": "false",
        ARROW + "maxBytesPerBatch": "1k",
        "spark.sql.execution.pythonUDF.arrow.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
    },
}


@pytest.fixture
def with_settings(spark: SparkSession) -> Iterator[Any]:
    before = dict(spark.conf.getAll)

    def put(settings: dict[str, str]) -> dict[str, str]:
        for name, value in settings.items():
            spark.conf.set(name, value)
        return dict(spark.conf.getAll)

    yield put
    for name in set(spark.conf.getAll) - set(before):
        spark.conf.unset(name)
    for name, value in before.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)


def _run(spark: SparkSession, app: App, root: Path) -> None:
    clock = itertools.count(1_000)
    running = app.start(spark, root=str(root), hosts=1, spares=0, clock=lambda: next(clock))
    try:
        assert running.wait(300)
    finally:
        running.stop()


def _two_inputs(spark: SparkSession, app: App) -> Any:
    """A stateful operator over two inputs that both have an empty epoch, with a view, a UDF and SQL of the user's session before it."""
    doubled = F.udf(lambda value: value * 2, "long")

    def through_sql(df: DataFrame) -> DataFrame:
        joined = spark.sql("SELECT s.key, s.value, s.at FROM {df} s JOIN known USING (key)", df=df)
        return joined.withColumn("value", doubled("value"))

    left = app.source("left", Slices([[(1, 5, 0), (2, 6, 0)], [], [(1, 7, 0)]])).transform("sql", through_sql)
    right = app.source("right", Slices([[(1, 1, 0)], [], []])).transform("some", lambda df: df.where("value > 0"))
    times = left.union(right).transform(
        "times", lambda df: df.select("*", F.timestamp_millis(F.col("value")).alias("time"), F.lit("é").alias("Text"))
    )
    return times.transform("back", lambda df: df.select("key", "value", "at", "time", "Text"))


@pytest.mark.parametrize("name", MATRIX)
def test_an_application_runs_under_any_sql_settings_and_leaves_the_session_as_it_is(
    name: str, spark: SparkSession, with_settings: Any, tmp_path: Path
) -> None:
    spark.createDataFrame([(1,), (2,)], "key long").createOrReplaceTempView("known")
    before = with_settings(MATRIX[name])
    views = [view.name for view in spark.catalog.listTables()]
    to_df, active = RDD.toDF, SparkSession.getActiveSession()
    during: list[dict[str, str]] = []
    seen: list[tuple[int, int, int]] = []

    def look(epoch: int, df: DataFrame) -> None:
        assert df.sparkSession is spark
        during.append(dict(spark.conf.getAll))
        seen.extend((row["key"], row["n"], row["value"]) for row in df.toArrow().to_pylist() if row["what"] == "rows")

    app = App("any")
    told = _two_inputs(spark, app).stateful("witness", Witness(), key=["key", "time", "Text"], shards=2, output=OUTPUT)
    told.sink("looked", perseid.sinks.foreach(look))
    out = perseid.sinks.memory()
    passed = told.transform("rows", lambda df: df.where("what = 'rows'")).stateful(
        "passed", Passed(), key="what", shards=2, output=OUTPUT
    )
    passed.sink("out", out)
    passed.sink("files", perseid.sinks.parquet(tmp_path / "out"))
    _run(spark, app, tmp_path / "root")
    assert sorted(value for _, _, value in seen) == [1, 10, 12, 14]
    assert sorted(row["value"] for row in out.rows()) == [1, 10, 12, 14]
    assert sorted(row["value"] for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [1, 10, 12, 14]
    assert during and all(then == before for then in during)
    assert dict(spark.conf.getAll) == before
    assert [view.name for view in spark.catalog.listTables()] == views
    assert (RDD.toDF, SparkSession.getActiveSession()) == (to_df, active)


OPERATOR = """
    from collections.abc import Iterator
    from perseid import KeyedOperator, state

    class Counter(KeyedOperator):
        n: int = state(default=0)

        def process_key(self, key, rows) -> Iterator[dict]:
            import only_here_LATE                           # when it is needed
            from pack_LATE.deep.inner import one
            self.n += rows.num_rows * one()
            yield {"key": key, "n": only_here_LATE.same(self.n)}
"""
APP = """
    import OPERATORS
    from helpers_LATE import twice
    from pyspark.sql import functions as F
    import perseid
    from perseid import App

    app = App("beside")
    numbers = app.source("numbers", perseid.sources.generator({"key": "id % 3"}, rows=30))
    some = numbers.transform("twice", lambda df: df.select(F.udf(twice, "long")("key").alias("key")))
    counts = some.stateful("count", OPERATORS.Counter(), key="key", shards=2, output="key long, n long")
    counts.sink("out", perseid.sinks.parquet("OUT"))
"""


def _write_app(folder: Path, suffix: str, out: Path) -> Path:
    """An application whose operator, functions and their own imports are in modules beside it."""
    (folder / f"pack_{suffix}" / "deep").mkdir(parents=True)
    (folder / f"pack_{suffix}" / "__init__.py").write_text("")
    (folder / f"pack_{suffix}" / "deep" / "__init__.py").write_text("from .inner import one\n")
    (folder / f"pack_{suffix}" / "deep" / "inner.py").write_text("def one():\n    return 1\n")
    (folder / f"only_here_{suffix}.py").write_text("def same(n):\n    return n\n")
    (folder / f"helpers_{suffix}.py").write_text("def twice(key):\n    return key * 2\n")
    (folder / f"operators_{suffix}.py").write_text(textwrap.dedent(OPERATOR).replace("LATE", suffix))
    text = textwrap.dedent(APP).replace("OPERATORS", f"operators_{suffix}").replace("LATE", suffix)
    file = folder / f"app_{suffix}.py"
    file.write_text(text.replace("OUT", str(out)))
    return file


def _totals(rows: list[Any]) -> dict[int, int]:
    return {key: max(row["n"] for row in rows if row["key"] == key) for key in {row["key"] for row in rows}}


def test_modules_beside_the_application_reach_hosts_and_tasks(spark: SparkSession, tmp_path: Path) -> None:
    app = load_app(_write_app(tmp_path, "fast", tmp_path / "out"))
    _run(spark, app, tmp_path / "root")
    assert _totals(spark.read.parquet(str(tmp_path / "out")).collect()) == {0: 10, 2: 10, 4: 10}


SCRIPT = """
    from pyspark.sql import SparkSession
    from APP_MODULE import app

    if __name__ == "__main__":
        spark = SparkSession.builder.master("MASTER")CONFIG.getOrCreate()
        app.run(spark, root="ROOT", hosts=1, spares=0)
        spark.stop()
"""


def _script(folder: Path, suffix: str, config: dict[str, str], master: str = "local[4]") -> Path:
    app = _write_app(folder, suffix, folder / "out")
    text = textwrap.dedent(SCRIPT).replace("APP_MODULE", app.stem).replace("MASTER", master)
    text = text.replace("CONFIG", "".join(f".config({name!r}, {value!r})" for name, value in config.items()))
    script = folder / "script.py"
    script.write_text(text.replace("ROOT", str(folder / "root")))
    return script


def _python(script: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The script in this very Python, in a shell that knows nothing of the virtual environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "PYTHON", "VIRTUAL", "SPARK"))}
    command = [sys.executable, str(script)]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, timeout=400, check=False)


def _rows_of(folder: Path) -> list[Any]:
    import pyarrow.parquet as pq

    files = sorted((folder / "out").glob("epoch=*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


PLAIN: dict[str, str] = {"spark.ui.enabled": "false"}
STATIC: dict[str, dict[str, str]] = {
    "kryo": {
        **PLAIN,
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.sql.shuffle.partitions": "200",
        "spark.python.worker.reuse": "false",
        "spark.speculation": "true",
        "spark.sql.adaptive.enabled": "true",
        "spark.python.worker.idleTimeoutSeconds": "1",
        "spark.python.worker.killOnIdleTimeout": "true",
    },
    "java": {
        **PLAIN,
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.ansi.enabled": "false",
        "spark.io.encryption.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.rdd.compress": "true",
    },
}


def test_a_script_runs_in_an_ordinary_session_with_modules_beside_it(tmp_path: Path) -> None:
    script = _script(tmp_path, "plain", STATIC["kryo"])
    done = _python(script, PYSPARK_PYTHON=sys.executable, SPARK_SUBMIT_OPTS=os.environ["SPARK_SUBMIT_OPTS"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert _totals(_rows_of(tmp_path)) == {0: 10, 2: 10, 4: 10}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "master"), [("java", "local[4]"), ("kryo", "local-cluster[2,3,1024]")])
def test_a_script_runs_in_any_session(name: str, master: str, tmp_path: Path) -> None:
    done = _python(_script(tmp_path, name, STATIC[name], master), PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr[-3000:]
    assert _totals(_rows_of(tmp_path)) == {0: 10, 2: 10, 4: 10}


@pytest.mark.slow
def test_modules_beside_the_application_reach_hosts_on_a_cluster(tmp_path: Path) -> None:
    file = _write_app(tmp_path, "cluster", tmp_path / "out")
    command = [sys.executable, "-m", "perseid.cli.main", "run", str(file), "--root", str(tmp_path / "root")]
    more = ["--master", "local-cluster[2,3,1024]", "--hosts", "2", "--spares", "0", "--json"]
    done = subprocess.run([*command, *more], cwd="/", capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1])["phase"] != "failed"
    assert _totals(_rows_of(tmp_path)) == {0: 10, 2: 10, 4: 10}


def test_workers_without_perseid_are_told_at_once_with_what_to_set(tmp_path: Path) -> None:
    other = tmp_path / "bin"
    other.mkdir()
    (other / "python3").symlink_to(Path(sys.executable).resolve())  # the same Python outside the virtual environment
    path = f"{other}{os.pathsep}{os.environ['PATH']}"
    done = _python(_script(tmp_path, "lost", PLAIN), PATH=path, SPARK_SUBMIT_OPTS=os.environ["SPARK_SUBMIT_OPTS"])
    assert done.returncode == 1
    told = next((line for line in done.stderr.splitlines() if "no host can start" in line), done.stderr[-3000:])
    assert f"set PYSPARK_PYTHON={sys.executable}" in told
