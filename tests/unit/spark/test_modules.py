"""Which modules travel with an application: those beside it that it imports, wherever the import stands; nothing installed."""

import sys

import numpy
import pytest

import perseid
from perseid.cli.loading import load_app
from perseid.spark.modules import modules_beside
from perseid.spark.worker_python import cannot_run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


APP = """
import json, beside_ops
from perseid import App, sources, sinks
app = App("a")
s = app.source("n", sources.generator({"key": "id"}, rows=1))
s.stateful("o", beside_ops.Op(), key="key", output="key long").sink("out", sinks.noop())
"""
OPS = """
import pyarrow, numpy
from perseid import Operator
class Op(Operator):
    def process(self, rows):
        import beside_later
        from beside_pack.deep import thing
"""


def test_modules_beside_the_application_are_found_through_their_imports(folder):
    (folder / "app.py").write_text(APP)
    (folder / "beside_ops.py").write_text(OPS)
    (folder / "beside_later.py").write_text("import beside_last\n")
    (folder / "beside_last.py").write_text("from . import nothing\n")
    (folder / "beside_unused.py").write_text("")
    (folder / "json.py").write_text("")  # another json is imported
    (folder / "pyarrow.py").write_text("")
    (folder / "beside_pack" / "deep").mkdir(parents=True)
    (folder / "beside_pack" / "__init__.py").write_text("")
    (folder / "beside_pack" / "deep" / "thing.py").write_text("")
    found = modules_beside(load_app(folder / "app.py").graph)
    assert sorted(found) == [
        "beside_last.py", "beside_later.py", "beside_ops.py", "beside_pack/__init__.py", "beside_pack/deep/thing.py"
    ]  # fmt: skip


def test_installed_modules_stay_where_they_are():
    app = perseid.App("a")
    stream = app.source("n", perseid.sources.generator({"key": "id"}, rows=1)).transform("t", numpy.asarray)  # type: ignore[arg-type]
    stream.sink("out", perseid.sinks.noop())
    assert not [name for name in modules_beside(app.graph) if name.startswith(("perseid", "numpy", "pytest"))]


def test_what_no_retry_helps_is_told_with_what_to_set():
    told = cannot_run("…\nModuleNotFoundError: No module named 'perseid'\n", "python3")
    assert told is not None and f"set PYSPARK_PYTHON={sys.executable}" in told
    assert "addArtifacts" not in told and "addArtifacts" in str(cannot_run("No module named 'words'", "python3"))
    assert "another version" in str(cannot_run("[PYTHON_VERSION_MISMATCH] Python in worker …", "python3"))
    assert cannot_run("Connection reset", "python3") is None


def test_the_class_of_a_spark_processor_travels_too(folder):
    (folder / "beside_processor.py").write_text(
        "from pyspark.sql.streaming import StatefulProcessor\n"
        "class Counts(StatefulProcessor):\n"
        "    def init(self, handle): pass\n"
        "    def handleInputRows(self, key, rows, timers): return iter(())\n"
        "    def close(self): pass\n"
    )
    sys.path.insert(0, str(folder))
    import beside_processor  # type: ignore[import-not-found]

    app = perseid.App("a")
    rows = app.source("n", perseid.sources.generator({"key": "id"}, rows=1))
    operator = perseid.spark_processor(beside_processor.Counts())
    rows.stateful("o", operator, key="key", output="key long").sink("out", perseid.sinks.noop())
    assert sorted(modules_beside(app.graph)) == ["beside_processor.py"]
