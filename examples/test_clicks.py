"""Tests of an application as its author would write them: run them with `pytest examples/test_clicks.py`."""

import pyarrow as pa
from sessions import QUIET_MS, Sessions

import perseid
from perseid import App, KeyedOperator, every, state
from perseid.testing import OperatorHarness, at, pause

OUTPUT = "visitor string, clicks long"


def test_a_visitor_is_told_when_it_has_been_quiet(operator_harness, perseid_clock):
    sessions = operator_harness(Sessions(), key="visitor", output=OUTPUT, clock=perseid_clock)
    assert sessions.epoch([{"visitor": "ada"}, {"visitor": "ada"}]) == []
    assert sessions.state == {"ada": {"clicks": 2}}
    perseid_clock.advance(ms=QUIET_MS)
    assert sessions.epoch() == [{"visitor": "ada", "clicks": 2}]
    assert not sessions.timers


def test_sessions_survive_a_restore_and_more_shards(operator_harness):
    sessions = operator_harness(Sessions(), key="visitor", output=OUTPUT)
    sessions.epoch([{"visitor": f"v{n}"} for n in range(20)])
    saved = sessions.snapshot()
    sessions.epoch([{"visitor": "late"}])
    sessions.restore(saved)
    parts = sessions.split(4)
    assert sum(len(part.state) for part in parts) == 20
    assert OperatorHarness.merge(parts).state == sessions.state


class Clicks(KeyedOperator):
    clicks: int = state(default=0)

    def process_key(self, key, rows: pa.Table):
        self.clicks += rows.num_rows
        return [{"visitor": key, "clicks": self.clicks}]


def clicking(out) -> App:
    app = App("clicking")
    clicks = app.source("clicks", perseid.sources.generator({"visitor": "cast(id % 50 as string)"}, rows=6_000))
    clicks.stateful("count", Clicks(), key="visitor", shards=2, output=OUTPUT).sink("out", out)
    return app


SMALL = {
    "max_rows_per_epoch": 250,
    "checkpoint": perseid.checkpoints.parallel(every(seconds=1)),
    "hosts": 2,
    "spares": 1,
}


def test_no_click_is_lost_when_a_host_dies_and_another_within_the_recovery(perseid_run):
    out = perseid.sinks.memory()
    plan = at(epoch=7).kill(host=1) + at(recovery=1).kill(host="any")
    report = perseid_run(clicking(out), plan, **SMALL)
    assert len(report.faults) == 2
    assert sorted(row["clicks"] for row in out.rows())[-50:] == [120] * 50  # everybody's last total


def test_a_host_that_slept_through_its_replacement_changes_nothing(perseid_start):
    out = perseid.sinks.memory()
    running = perseid_start(clicking(out), **SMALL)
    while running.progress().epoch < 5:
        assert not running.wait(0.05)
    asleep = pause(running, host=0, seconds=2)
    assert running.wait(120) and asleep.wait(10)
    assert len(out.rows()) == len({(row["visitor"], row["clicks"]) for row in out.rows()})
