"""``perseid simulate``: summaries, stories, repeats, bad input."""

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from perseid.cli.main import app
from perseid.cli.simulate import repeat_command
from perseid.engine.controller import Controller
from perseid.engine.shard import ShardLog
from perseid.simulation import world
from perseid.simulation.runs import simulate
from perseid.simulation.scenario import Options, drawn


def call(*words: str):
    return CliRunner().invoke(app, ["simulate", *words])


def test_runs_are_summed_up(tmp_path):
    result = call("--seeds", "4", "--epochs", "20", "--json", str(tmp_path / "out.json"))
    assert result.exit_code == 0, result.output
    for word in ("runs", "rows checked", "recoveries", "checkpoints", "no row lost, none doubled"):
        assert word in result.output
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["runs"] == 4 and written["broken"] == [] and written["rows"] > 0


class Forgetful(ShardLog[Any]):
    """A shard that applies what it was asked for before."""

    def ask(self, epoch, version, rows=None, *, wanted=True):
        return "apply" if epoch == self.applied and rows else super().ask(epoch, version, rows, wanted=wanted)

    def applied_epoch(self, epoch, answer, rows=None):
        if epoch == self.applied:
            self.answers[epoch] = answer
        else:
            super().applied_epoch(epoch, answer, rows)


def test_a_failing_seed_prints_the_command_that_repeats_it_and_its_story(monkeypatch, tmp_path):
    monkeypatch.setattr(world.Engine, "__init__", lambda self: _set(self))
    out = tmp_path / "out.json"
    result = call("--seeds", "2", "--epochs", "20", "--first", "0", "--set", "keep=2", "--json", str(out))
    assert result.exit_code == 1
    assert "repeat: perseid simulate --seeds 1 --first 0 --epochs 20 --set keep=2" in result.output
    assert "broke a property" in result.output
    assert "recovered in" in result.output or "is ready" in result.output, "and how it came to that"
    again = call("--repeat", str(out))
    assert again.exit_code == 1 and "seed 0" in again.output


def _set(engine):
    object.__setattr__(engine, "controller", Controller)
    object.__setattr__(engine, "shard_log", Forgetful)


def test_the_repeating_command_names_every_option():
    outcome = replace(simulate(drawn(5, Options(hosts=2, epochs=5))), broken="sinks: …")
    options = Options(hosts=2, epochs=5, scheme="source", settings={"queue": 1})
    assert repeat_command(outcome, options) == (
        "perseid simulate --seeds 1 --first 5 --epochs 5 --hosts 2 --scheme source --set queue=1"
    )


def test_a_plan_that_breaks_something_is_named_in_the_command_that_repeats_it(monkeypatch, tmp_path):
    monkeypatch.setattr(world.Engine, "__init__", lambda self: _set(self))
    plan, out = tmp_path / "plan.json", tmp_path / "out.json"
    plan.write_text(json.dumps([{"fault": "kill", "target": "everything", "at_epoch": 3}]))
    first = call("--seeds", "1", "--epochs", "20", "--faults", str(plan), "--json", str(out))
    assert f"repeat: perseid simulate --seeds 1 --first 0 --epochs 20 --faults {plan}" in first.output
    assert f"repeat: perseid simulate --repeat {out}" in call("--repeat", str(out)).output


def test_a_site_is_shown_as_a_table_and_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    result = call("--model", "datacenter", "--hosts", "30", "--days", "20", "--plot", str(tmp_path / "year.png"))
    assert result.exit_code == 0, result.output
    for word in ("availability", "rows replayed", "cost", "source", "parallel"):
        assert word in result.output
    assert (tmp_path / "year.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--scheme", "magic"], "no scheme 'magic'"),
        (["--model", "moon"], "no model 'moon'"),
        (["--set", "keep"], "expected NAME=N"),
        (["--set", "colour=3"], "no setting 'colour'"),
        (["--faults", "nowhere.json"], "cannot be read"),
        (["--repeat", "nowhere.json"], "cannot be read"),
        (["--json", "no/such/folder/x.json"], "does not exist"),
    ],
)
def test_bad_input_is_named(words, said):
    result = call("--seeds", "1", "--epochs", "5", *words)
    assert result.exit_code == 1
    assert said in result.output + getattr(result, "stderr", "")


def test_a_fault_plan_that_cannot_be_is_named(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"fault": "driver", "down_ms": 10, "at_epoch": 99}]))
    result = call("--seeds", "1", "--epochs", "5", "--faults", str(plan))
    assert result.exit_code == 1 and "epochs 1 to 5" in result.output + getattr(result, "stderr", "")


def test_a_fault_that_no_run_lives_to_see_is_named(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([{"fault": "kill", "target": "everything", "at_ms": 900_000}]))
    result = call("--seeds", "2", "--epochs", "5", "--faults", str(plan))
    assert result.exit_code == 1
    assert "at 900000 ms: kill everything: every run was over before" in result.output + getattr(result, "stderr", "")


def test_several_processes_give_the_same_numbers(tmp_path):
    written = []
    for jobs in ("1", "2"):
        result = call("--seeds", "10", "--epochs", "5", "--jobs", jobs, "--json", str(tmp_path / "out.json"))
        assert result.exit_code == 0, result.output
        written.append(json.loads((tmp_path / "out.json").read_text()) | {"seconds": 0})
    assert written[0] == written[1]
