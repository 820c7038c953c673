import json
import threading
from typing import Any

from typer.testing import CliRunner

from perseid.cli.main import app
from perseid.storage import layout, requests
from perseid.storage.store import Store


def scaled(*arguments):
    return CliRunner().invoke(app, ["scale", *map(str, arguments)], env={"COLUMNS": "100"})


def answering(root, said):
    """Somebody who answers the first wish on the root."""

    def answer():
        store = Store.at(str(root))
        while not (found := requests.pending(store)):
            pass
        wishes.append(found[0][1])
        requests.answer(store, found[0][0], said)

    wishes: list[Any] = []
    threading.Thread(target=answer, daemon=True).start()
    return wishes


def fresh_lease(root, monkeypatch):
    """The root's driver has just renewed its lease."""
    monkeypatch.setattr("perseid.cli.root_requests.SILENT_S", float("inf"))


def test_a_wish_is_put_to_the_running_application_and_its_answer_is_told(root, monkeypatch):
    fresh_lease(root, monkeypatch)
    done = {"operator": "count", "before": 2, "shards": 4, "pause_ms": 41, "duration_ms": 2300}
    wishes = answering(root, {"scaled": done})
    told = scaled(root, "count", 4)
    assert wishes == [{"scale": "count", "shards": 4}]
    assert "count has 4 shards instead of 2; its input paused for 41 ms, all took 2.3 s" in told.output
    answering(root, {"scaled": done})
    assert json.loads(scaled(root, "count", 4, "--json").stdout) == done


def test_a_refusal_is_an_error_with_its_reason(root, monkeypatch):
    fresh_lease(root, monkeypatch)
    answering(root, {"error": "operator 'count': shards=0: expected a number from 1 to 256"})
    told = scaled(root, "count", 0, "--json")
    assert told.exit_code == 1 and "from 1 to 256" in json.loads(told.stdout)["message"]


def test_without_a_running_application_it_says_what_to_do_instead(root):
    told = scaled(root, "count", 4)  # its lease is years old
    assert told.exit_code == 1 and "no application runs there; start it with shards=4" in told.output


def test_an_application_that_does_not_answer_is_not_waited_for_for_ever(root, monkeypatch):
    fresh_lease(root, monkeypatch)
    told = scaled(root, "count", 4, "--seconds", 1)
    assert told.exit_code == 1 and "no answer within 1 s" in told.output
    assert not Store.at(str(root)).list(layout.REQUESTS), "the wish was taken back"
