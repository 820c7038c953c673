"""``perseid standby`` puts a request on the root, and tells what came of it."""

import json
import threading
from typing import Any

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app
from perseid.storage import requests
from perseid.storage.store import Store


@pytest.fixture
def asked(root, monkeypatch):
    """Asks for a standby on a root whose driver answers."""
    monkeypatch.setattr("perseid.cli.root_requests.SILENT_S", float("inf"))

    def ask(said, *arguments):
        def answer():
            store = Store.at(str(root))
            while not (found := requests.pending(store)):
                pass
            wishes.append(found[0][1])
            requests.answer(store, found[0][0], said)

        wishes: list[Any] = []
        threading.Thread(target=answer, daemon=True).start()
        done = CliRunner().invoke(app, ["standby", str(root), *arguments], env={"COLUMNS": "100"})
        return done, wishes

    return ask


def test_another_standby_is_asked_for_and_its_answer_is_told(asked):
    done = {"operator": "count", "mode": "hybrid", "nothing": ""}
    told, wishes = asked({"standby": done}, "count", "hybrid")
    assert wishes == [{"standby": "count", "mode": "hybrid"}]
    assert "count has standby hybrid" in told.output
    told, _ = asked({"standby": done}, "count", "hybrid", "--json")
    assert json.loads(told.stdout) == done


def test_for_an_operator_without_state_it_says_that_it_does_nothing(asked):
    nothing = "'split' has no state: Spark runs it again wherever it is lost, so standby does nothing for it"
    told, _ = asked({"standby": {"operator": "split", "mode": "hybrid", "nothing": nothing}}, "split", "hybrid")
    assert told.exit_code == 0 and "standby does nothing for it" in " ".join(told.output.split())


def test_a_refusal_is_an_error_with_its_reason(asked):
    told, _ = asked({"error": "no host is free for a copy of host 2's shards"}, "count", "hybrid", "--json")
    assert told.exit_code == 1 and "no host is free" in json.loads(told.stdout)["message"]


def test_an_unknown_mode_is_refused_before_anybody_is_asked(root):
    told = CliRunner().invoke(app, ["standby", str(root), "count", "hybird"], env={"COLUMNS": "200"})
    assert told.exit_code != 0 and "did you mean 'hybrid'" in told.output


def test_without_a_running_application_it_says_what_to_do_instead(root):
    told = CliRunner().invoke(app, ["standby", str(root), "count", "hybrid"], env={"COLUMNS": "200"})
    assert told.exit_code == 1 and 'no application runs there; start it with standby="hybrid"' in told.output
