"""Fault plans are data, and what is wrong with one is named."""

from __future__ import annotations

import json
import pickle

import pytest

from perseid.engine.progress import Progress
from perseid.errors import FaultError
from perseid.testing import Plan, at
from perseid.testing.faults import KINDS, Kill, Pause
from perseid.testing.plan import Moment, Step

EVERYTHING = (
    at(epoch=7).kill(host=1)
    + at(recovery=1).kill(host="any")
    + at(seconds=3).pause(host="count/0", seconds=5)
    + at(checkpoint=2).slow(host=0, percent=50)
    + at(epoch=9).overload(seconds=1, processes=2)
    + at(epoch=9).partition(0, "tasks")
    + at(checkpoint=1).corrupt("cut", checkpoint="all", shard="count/0")
    + at(seconds=0).fail_storage("full")
    + at(epoch=12).crash_driver()
    + at(epoch=13).kill(executor="any")
    + at(epoch=14).pause(executor=1)
)


def test_a_plan_is_its_steps():
    assert at(epoch=7).kill(host=1) == Plan((Step(Moment(epoch=7), Kill(host=1)),))
    assert Plan.of([at(epoch=1).kill(host=0), at(epoch=2).pause()]).steps[1].fault == Pause("any")
    assert Plan.of(None) == Plan()
    assert len(EVERYTHING) == 11 and {hash(step) for step in EVERYTHING}


def test_a_plan_survives_json_and_pickle():
    assert Plan.of_data(json.loads(json.dumps(EVERYTHING.as_data()))) == EVERYTHING
    assert pickle.loads(pickle.dumps(EVERYTHING)) == EVERYTHING
    assert EVERYTHING.as_data()[0] == {"at": {"epoch": 7}, "fault": "kill", "host": 1}


def test_a_plan_reads_as_sentences():
    said = str(EVERYTHING).splitlines()
    assert said[0] == "at epoch 7: kill host 1"
    assert said[1] == "in recovery 1: kill host any"
    assert said[5] == "at epoch 9: partition host 0 and the tasks for 3 s"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: at(epoch=1).explode(host=1), "explode: no such fault; there are kill, pause"),
        (lambda: at(), r"at\(nothing\): expected one of epoch="),
        (lambda: at(epoch=1, seconds=2), "expected one of epoch="),
        (lambda: at(epoch=0), r"at\(epoch=0\): expected a whole number from 1 on"),
        (lambda: at(seconds=-1), "expected seconds from 0 on"),
        (lambda: at(epoch=1).kill(), "either host= or executor=, got neither"),
        (lambda: at(epoch=1).kill(host=-1), r"kill\(host=-1\): expected a place from 0 on"),
        (lambda: at(epoch=1).kill(host="everybody"), "'any', 'all', 'spare'"),
        (lambda: at(epoch=1).kill(executor="spare"), r"kill\(executor='spare'\)"),
        (lambda: at(epoch=1).pause(seconds=0), r"pause\(seconds=0\): expected more than 0"),
        (lambda: at(epoch=1).slow(percent=100), r"slow\(percent=100\)"),
        (lambda: at(epoch=1).overload(processes=0), r"overload\(processes=0\)"),
        (lambda: at(epoch=1).partition("driver", "tasks"), "expected a host and somebody else"),
        (lambda: at(epoch=1).partition(0, "moon"), "party 'moon'"),
        (lambda: at(epoch=1).corrupt("burn"), r"corrupt\(how='burn'\)"),
        (lambda: at(epoch=1).corrupt(shard="count"), r"corrupt\(shard='count'\)"),
        (lambda: at(epoch=1).fail_storage("haunted"), r"fail_storage\(how='haunted'\)"),
        (lambda: Plan.of(["kill host 1"]), "expected a plan such as"),  # type: ignore[list-item]
        (lambda: Plan.of_data([{"at": {"epoch": 1}, "fault": "explode"}]), "'explode': no such fault"),
        (
            lambda: Plan.of_data([{"at": {"epoch": 1}, "fault": "kill", "hosts": 1}]),
            "kill: it has no hosts; expected host",
        ),
        (lambda: Plan.of_data([{"at": {"noon": 1}, "fault": "kill"}]), "at: expected epoch"),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(make, said):
    with pytest.raises(FaultError, match=said):
        make()


def test_every_kind_of_fault_can_be_planned():
    assert {entry["fault"] for entry in EVERYTHING.as_data()} == set(KINDS)


def test_a_moment_comes_when_what_it_names_is_there():
    picture = Progress("app", "running", epoch=7)
    assert Moment(epoch=7).has_come(picture, 0, 0, 0) and not Moment(epoch=8).has_come(picture, 99, 99, 99)
    assert Moment(seconds=3).has_come(picture, 3.0, 0, 0) and not Moment(seconds=3).has_come(picture, 2.9, 9, 9)
    assert Moment(recovery=2).has_come(picture, 0, 2, 0) and not Moment(recovery=2).has_come(picture, 9, 1, 9)
    assert Moment(checkpoint=2).has_come(picture, 0, 0, 2) and not Moment(checkpoint=2).has_come(picture, 9, 9, 1)
