"""``perseid check``: what new code would make of a root, with an exit code for CI; ``release`` and ``back``."""

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
from perseid.storage.kept_state import KeptState, keep_state, kept_state
from perseid.storage.manifest import Checkpoints
from perseid.storage.store import Store
from perseid.transfer.begin_root import BEGINNING, Beginning, begin_root, stateful_node

APP = """
import perseid
from perseid import App, KeyedOperator, Operator, migrate, state

class Count(KeyedOperator):
    {body}

    def process_key(self, key, rows):
        yield {{"word": key, "n": 0}}

class Other(Operator):
    def process(self, rows): ...

app = App("words")
words = app.source("words", perseid.sources.files("in/", schema="word string"))
counts = words.stateful("{name}", Count(), key="{key}", output="word string, n long")
counts.sink("out", perseid.sinks.noop())
{more}
"""


def code(
    folder: Path, body: str = "n: int = state(default=0)", name: str = "count", key: str = "word", more: str = ""
) -> Path:
    file = folder / "words.py"
    file.write_text(APP.format(body=body, name=name, key=key, more=more))
    return file


def checked(folder: Path, file: Path, *options: str) -> tuple[int, str]:
    arguments = ["check", str(file), "--root", str(folder / "root"), *options]
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    return done.exit_code, done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A root on which two words were counted."""
    graph = load_app(code(tmp_path)).graph
    shard: Any = fresh(stateful_node(graph, "count").operator)
    shard._keyed.values.update({"a": (1,), "b": (2,)})
    begin_root(
        str(tmp_path / "root"), graph, Beginning("count", [((0, 256), lambda: checkpoint_state(shard, BEGINNING))], {})
    )
    return tmp_path


MORE_STATE = 'n: float = state(default=0.0)\n    best: str = state(default="none")'
RENAMED = 'total: int = state(default=0, was="n")'
MIGRATED = """state_version = 3
    cents: int = state(default=0)

    @migrate(from_version=1)
    def one(fields):
        return {"euros": fields["n"]}

    @migrate(from_version=2)
    def two(fields):
        return {"cents": fields["euros"] * 100}"""
TOTAL = 'counts.stateful("total", Other(), key="word", output="word string")'


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ({}, (), "bytes restored"),
        ({"body": MORE_STATE}, (), "state field 'best' is new and begins with 'none'"),
        ({"body": MORE_STATE}, (), "state field 'n' was int, is now float: its values are taken over"),
        ({"body": RENAMED}, (), "state field 'n' is now 'total'"),
        ({"body": "m: int = state(default=0)"}, (), "state field 'n' is gone: its values are dropped"),
        ({"body": MIGRATED}, (), "its state is migrated from version 1 to 3"),
        ({"more": f"{TOTAL}.sink('totals', perseid.sinks.noop())"}, ("total", "totals"), "operator 'total' is new"),
        ({"name": "tally"}, ("tally", "count"), "operator 'count' is gone"),
    ],
    ids=["same", "new field", "wider", "renamed", "gone", "migrated", "new operator", "other operator"],
)
def test_code_that_can_go_on_exits_with_0(
    folder: Path, changed: dict[str, str], options: tuple[str, ...], said: str
) -> None:
    allowed = [part for name in options for part in ("--allow-removed", name)]
    exit_code, output = checked(folder, code(folder, **changed), *allowed)
    assert exit_code == 0 and said in output and "the application can go on" in output


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"key": "length"}, "operator 'count': key was ('word',), now ('length',)"),
        ({"body": 'n: str = state(default="")'}, "write state_version = 2 and a @migrate(from_version=1)"),
        (
            {"body": MIGRATED.replace('fields["n"]', 'fields["gone"]')},
            "its migration from version 1 raised KeyError: 'gone'",
        ),
        ({"body": MIGRATED.replace("from_version=2", "from_version=3")}, "there is no @migrate(from_version=2)"),
        (
            {"body": MIGRATED.replace('"cents": fields', '"cent": fields')},
            "a migration gave the field 'cent', which is not declared",
        ),
        ({"name": "tally"}, "operator 'count' is gone"),
        ({"more": f"{TOTAL}.sink('totals', perseid.sinks.noop())"}, "operator 'total' is new"),
    ],
    ids=["key", "other type", "raises", "no migration", "unknown field", "gone", "new"],
)
def test_code_that_cannot_go_on_exits_with_1_and_says_why(folder: Path, changed: dict[str, str], said: str) -> None:
    exit_code, output = checked(folder, code(folder, **changed))
    assert exit_code == 1 and said in output and "cannot go on" in output


def test_a_version_that_is_newer_than_the_code_is_refused(folder: Path) -> None:
    newer = load_app(code(folder, MIGRATED)).graph
    begin_root(str(folder / "newer"), newer, Beginning("count", [((0, 256), lambda: checkpoint_state(
        fresh(stateful_node(newer, "count").operator), BEGINNING))], {}))  # fmt: skip
    (folder / "root").rename(folder / "old")
    (folder / "newer").rename(folder / "root")
    exit_code, output = checked(folder, code(folder))
    assert exit_code == 1 and "was written by state_version 3, which is newer than the code's 1" in output


def test_a_root_of_another_application_is_refused(folder: Path) -> None:
    other = folder / "other.py"
    other.write_text(
        "import perseid\nfrom perseid import App\napp = App('other')\n"
        "app.source('clicks', perseid.sources.files('in/', schema='id long')).sink('db', perseid.sinks.noop())\n"
    )
    exit_code, output = checked(folder, other)
    assert exit_code == 1
    assert "source 'words' is gone" in output and "operator 'count' is gone" in output and "sink 'db' is new" in output


def test_a_check_writes_nothing_and_can_be_read_by_programs(folder: Path) -> None:
    before = sorted((file, file.stat().st_mtime_ns) for file in (folder / "root").rglob("*"))
    exit_code, output = checked(folder, code(folder, MORE_STATE), "--json")
    told = json.loads(output)
    assert exit_code == 0 and told["goes_on"] is True and not any(one["refused"] for one in told["found"])
    assert checked(folder, code(folder, key="length"), "--json")[0] == 1
    assert sorted((file, file.stat().st_mtime_ns) for file in (folder / "root").rglob("*")) == before


def test_what_is_kept_can_be_let_go_or_gone_back_to_once(folder: Path) -> None:
    store = Store.at(str(folder / "root"))
    (newest,) = Checkpoints(store).newest_first()
    for command, said in (("release", "is kept no longer"), ("back", "start the old code")):
        keep_state(store, KeptState(newest.id, {"operators": {}}))
        done = CliRunner().invoke(app, [command, str(folder / "root")])
        assert done.exit_code == 0 and said in done.output and kept_state(store) is None
        again = CliRunner().invoke(app, [command, str(folder / "root")])
        assert again.exit_code == 1 and "no checkpoint is kept" in again.output
