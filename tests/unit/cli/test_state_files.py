"""``perseid export`` and ``perseid import`` as commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from perseid.cli.loading import load_app
from perseid.cli.main import app
from perseid.state.operator_state import fresh
from perseid.state.shard_state import checkpoint_state
from perseid.transfer.begin_root import BEGINNING, Beginning, begin_root, stateful_node

APP = """
import perseid
from perseid import App, KeyedOperator, state

class Count(KeyedOperator):
    n: int = state(default=0)

    def process_key(self, key, rows):
        yield {"word": key, "n": self.n}

app = App("words")
words = app.source("words", perseid.sources.files("in/", schema="word string"))
words.stateful("count", Count(), key="word", output="word string, n long").sink("out", perseid.sinks.noop())
"""


def ran(*arguments: Any) -> Any:
    return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three words counted."""
    (tmp_path / "words.py").write_text(APP)
    graph = load_app(tmp_path / "words.py").graph
    shard: Any = fresh(stateful_node(graph, "count").operator)
    shard._keyed.values.update({"a": (1,), "b": (2,), "c": (3,)})
    begin_root(
        str(tmp_path / "old"), graph, Beginning("count", [((0, 256), lambda: checkpoint_state(shard, BEGINNING))], {})
    )
    return tmp_path


def test_state_goes_out_and_into_another_root(root: Path) -> None:
    done = ran("export", root / "old", "count", "--to", "parquet", root / "state")
    assert done.exit_code == 0 and "1 shard, rows: values 3, timers 0" in done.output
    done = ran("import", root / "words.py", "count", "--from", "parquet", root / "state", "--root", root / "new")
    assert done.exit_code == 0 and "is ready for the first start" in done.output
    done = ran("inspect", root / "new", "--key", "b", "--json")
    assert json.loads(done.output)["found"][0]["values"] == {"n": 2}


def test_the_export_changes_nothing_in_the_root(root: Path) -> None:
    before = sorted((file, file.stat().st_mtime_ns) for file in (root / "old").rglob("*"))
    assert ran("export", root / "old", "count", "--to", "parquet", root / "state", "--json").exit_code == 0
    assert sorted((file, file.stat().st_mtime_ns) for file in (root / "old").rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "old", "count", "--to", "csv", "state"], "--to csv: expected parquet"),
        (["export", "none", "count", "--to", "parquet", "state"], "no such folder"),
        (["export", "old", "sum", "--to", "parquet", "state"], "no operator 'sum'; checkpoint 1 has count"),
        (
            ["import", "words.py", "sum", "--from", "parquet", "state", "--root", "new"],
            "no stateful operator 'sum'; it has count",
        ),
        (
            ["import", "words.py", "count", "--from", "parquet", "state", "--root", "new"],
            "it is no folder of `perseid export`",
        ),
        (["import", "words.py", "count", "--from", "kafka", "state", "--root", "new"], "expected parquet or spark"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(
    root: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(root)
    done = ran(*arguments)
    assert done.exit_code == 1 and said in done.output
    assert not (root / "new").exists() and not (root / "state").exists()
