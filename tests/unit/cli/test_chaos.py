import json

import pytest
from typer.testing import CliRunner

from perseid.cli.chaos import as_data
from perseid.cli.main import app
from perseid.testing.attack import Report, Struck
from perseid.testing.chaos import Outcome
from perseid.testing.plan import at
from perseid.testing.verdict import Verdict

APP = """
import perseid
from perseid import App
class Stream:
    kind = "stream"
    open = end = read = None
app = App("numbers")
app.source("numbers", {source}).sink("out", perseid.sinks.noop())
"""


@pytest.fixture
def said(tmp_path):
    def run(source="perseid.sources.generator({'n': 'id'})", *options):
        file = tmp_path / "app.py"
        file.write_text(APP.format(source=source))
        result = CliRunner().invoke(app, ["chaos", str(file), *options])
        assert result.exit_code == 1
        return " ".join(result.output.split())

    return run


def test_what_cannot_be_judged_is_refused_before_anything_starts(said):
    assert "source 'numbers' is a streaming DataFrame, whose rows cannot be had again" in said("Stream()")


def test_a_cluster_elsewhere_is_refused(said):
    assert "faults strike processes of this machine" in said(
        "perseid.sources.generator({'n': 'id'})", "--master", "yarn"
    )


def test_a_length_of_nothing_is_refused(said):
    assert "--minutes: expected more than 0" in said("perseid.sources.generator({'n': 'id'})", "--minutes", "0")


def test_a_file_that_is_not_there_is_named(tmp_path):
    result = CliRunner().invoke(app, ["chaos", str(tmp_path / "none.py")])
    assert result.exit_code == 1 and "no such file" in " ".join(result.output.split())


def test_the_outcome_is_data():
    plan = at(epoch=3).kill(host=0)
    report = Report((Struck(plan.steps[0], "killed host 1", 2.5, 3),), 1, 0.75, 9, 1, 12.0)
    data = as_data(Outcome(report, {"out": Verdict(100, lost=1, examples=("epoch 3: lost a",))}, 9, True), plan, 7)
    assert json.loads(json.dumps(data)) == data
    assert (data["right"], data["lost"], data["longest_outage_s"], data["seed"]) == (False, 1, 0.75, 7)
    assert data["faults"] == [{"seconds": 2.5, "epoch": 3, "fault": "kill", "what": "killed host 1"}]
