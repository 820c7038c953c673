from typing import Any

import pytest

from perseid.cli.journal_text import _SENTENCES, sentence, tone
from perseid.engine import notices

RECORDS: list[tuple[dict[str, Any], str]] = [
    (
        {
            "kind": "app_started",
            "app": "words",
            "generation": 2,
            "units": ["main"],
            "operators": 3,
            "hosts": 2,
            "restored": 7,
            "epoch": 40,
        },
        "application words starts (generation 2, 1 unit, 3 operators, 2 hosts) from checkpoint 7 at epoch 40",
    ),
    (
        {
            "kind": "app_started",
            "app": "words",
            "generation": 1,
            "units": 1,
            "operators": 1,
            "hosts": 1,
            "restored": None,
            "epoch": 0,
        },
        "application words starts (generation 1, 1 unit, 1 operator, 1 host) fresh",
    ),
    (
        {"kind": "host_ready", "host": 1, "pid": 42, "address": "10.0.0.7:4000"},
        "host 1 is ready (pid 42, 10.0.0.7:4000)",
    ),
    ({"kind": "host_lost", "host": 1, "reason": "no heartbeat for 0.8 s"}, "host 1 is lost: no heartbeat for 0.8 s"),
    (
        {"kind": "shards_assigned", "host": 2, "shards": ["count/0", "count/1"]},
        "host 2 holds shards count/0 and count/1",
    ),
    (
        {
            "kind": "recovery_started",
            "reason": "host 1 is lost",
            "mode": "shards",
            "shards": ["count/0"],
            "checkpoint": 3,
        },
        "recovery of shard count/0 starts from checkpoint 3: host 1 is lost",
    ),
    (
        {
            "kind": "recovery_started",
            "reason": "all hosts are lost",
            "mode": "application",
            "shards": [],
            "checkpoint": None,
        },
        "recovery of the whole application starts from the beginning: all hosts are lost",
    ),
    (
        {
            "kind": "recovery_started",
            "reason": "host 1: it broke; host 3: no heartbeat; host 2: it broke",
            "mode": "shards",
            "shards": ["count/0"],
            "checkpoint": 3,
        },
        "recovery of shard count/0 starts from checkpoint 3: hosts 1 and 2: it broke; host 3: no heartbeat",
    ),
    (
        {
            "kind": "recovery_finished",
            "mode": "shards",
            "ms": 1234,
            "phases": {"catch_up": 500, "detect": 300},
            "replayed_epochs": 1,
        },
        "recovered in 1.2 s (detect 300 ms, catch up 500 ms); 1 epoch replayed",
    ),
    (
        {"kind": "epoch_admitted", "epoch": 5, "slices": {"lines": [10, 20], "idle": [3, 3]}, "rows": 1000},
        "epoch 5 admitted with 1,000 rows: lines [10, 20)",
    ),
    (
        {"kind": "epoch_committed", "epoch": 5, "ms": 90, "rows_in": 1000, "rows_out": 10},
        "epoch 5 committed in 90 ms: 1,000 rows in, 10 out",
    ),
    (
        {"kind": "epoch_failed", "epoch": 5, "unit": "main", "attempt": 1, "error": "lost task"},
        "epoch 5 of unit main failed (attempt 1): lost task",
    ),
    ({"kind": "checkpoint_started", "checkpoint": 4, "epochs": {"a": 7, "b": 7}}, "checkpoint 4 starts at epoch 7"),
    (
        {
            "kind": "checkpoint_decided",
            "checkpoint": 4,
            "reason": "minimum",
            "units": None,
            "bytes": 2048,
            "threshold": 4096,
            "rate": 1024,
        },
        "checkpoint 4 is due: the state is small, 2.0 KB of at most 4.0 KB, and grows by 1.0 KB/s",
    ),
    (
        {
            "kind": "checkpoint_decided",
            "checkpoint": 4,
            "reason": "minimum",
            "bytes": 2048,
            "threshold": 4096,
            "rate": -9,
        },
        "checkpoint 4 is due: the state is small, 2.0 KB of at most 4.0 KB, as small as it becomes",
    ),
    (
        {"kind": "checkpoint_decided", "checkpoint": 5, "reason": "no_minimum", "units": None, "threshold": 4096},
        "checkpoint 5 is due: the period has ended, and the state was not found below 4.0 KB",
    ),
    (
        {"kind": "checkpoint_decided", "checkpoint": 6, "reason": "own_period", "units": ["left"]},
        "checkpoint 6 is due: the period of unit left has passed",
    ),
    (
        {"kind": "profiled", "dynamic": ["a/0", "b/0"], "shards": 4, "periods": 3, "lowest": 1024, "threshold": 2048},
        "profile over 3 periods: a/0 and b/0 rise and fall; alert at 2.0 KB (lowest 1.0 KB)",
    ),
    (
        {"kind": "profiled", "dynamic": [], "shards": 4, "periods": 0, "lowest": 0, "threshold": 0},
        "profile: none of 4 shards has a state that rises and falls",
    ),
    (
        {"kind": "period_too_short", "period_ms": 1000, "waited_ms": 2500, "epoch": 7, "unit": "main"},
        "the checkpoint period of 1.0 s is shorter than an epoch: a checkpoint waited 2.5 s for epoch 7 of unit main",
    ),
    (
        {"kind": "checkpoint_started", "checkpoint": 4, "epochs": {"a": 7, "b": 6}},
        "checkpoint 4 starts at epochs 7 of a and 6 of b",
    ),
    (
        {"kind": "snapshots_ordered", "checkpoint": 4, "host": 2, "unit": "main", "epoch": 7},
        "checkpoint 4: host 2 is to save unit main as of epoch 7",
    ),
    (
        {"kind": "inflight_saved", "checkpoint": 4, "stream": "pairs", "epoch": 7, "bytes": 2048},
        "checkpoint 4: epoch 7 of stream pairs saved on its way, 2.0 KB",
    ),
    (
        {"kind": "snapshots_forked", "checkpoint": 4, "host": 2, "unit": "main"},
        "checkpoint 4: host 2 goes on, its snapshots are on their way",
    ),
    (
        {"kind": "snapshot_awaited", "checkpoint": 4, "host": 2, "ms": 31},
        "checkpoint 4: an epoch waited 31 ms on host 2 for its snapshots",
    ),
    (
        {"kind": "snapshot_written", "checkpoint": 4, "shard": "count/0", "bytes": 2048, "ms": 12},
        "checkpoint 4: snapshot of count/0 written, 2.0 KB in 12 ms",
    ),
    (
        {"kind": "checkpoint_committed", "checkpoint": 4, "bytes": 4096, "ms": 30},
        "checkpoint 4 committed: 4.0 KB in 30 ms",
    ),
    ({"kind": "checkpoint_failed", "checkpoint": 4, "error": "disk full"}, "checkpoint 4 failed: disk full"),
    ({"kind": "trimmed", "epoch": 3}, "everything up to epoch 3 is covered by checkpoints and was let go"),
    (
        {"kind": "operator_failed", "operator": "count", "shard": 1, "epoch": 9, "error": "KeyError: 'x'"},
        "operator count, shard 1, failed in epoch 9: KeyError: 'x'",
    ),
    (
        {"kind": "dead_letters", "operator": "count", "epoch": 9, "rows": 3},
        "operator count: 3 rows of epoch 9 put aside as dead letters",
    ),
    (
        {
            "kind": "dead_letters",
            "operator": "count",
            "shard": 1,
            "epoch": 9,
            "rows": 1,
            "timers": 2,
            "error": "ValueError: x",
        },
        "operator count, shard 1: 1 row and 2 timers of epoch 9 put aside as dead letters: ValueError: x",
    ),
    ({"kind": "app_stopped", "reason": "asked to"}, "application stopped: asked to"),
    (
        {
            "kind": "app_stopped",
            "reason": "finished",
            "unsaved": "Traceback (most recent call last):\n  x\nTypeError: lock",
        },
        "application stopped: finished; its last checkpoint failed: TypeError: lock",
    ),
    (
        {"kind": "epoch_committed", "epoch": 8, "ms": None, "rows_in": 2, "rows_out": 1},
        "epoch 8 committed: 2 rows in, 1 out",
    ),
    (
        {
            "kind": "recovery_finished",
            "mode": "application",
            "ms": 12,
            "phases": {},
            "replayed_epochs": 0,
            "start": True,
        },
        "ready after 12 ms; 0 epochs replayed",
    ),
    (
        {"kind": "copy_wanted", "primary": 1, "reason": "no host is free"},
        "host 1 has no copy of its shards: no host is free",
    ),
    (
        {"kind": "copy_deploying", "primary": 1, "copy": 3, "same_fate": "machine"},
        "host 3 is given a copy of host 1's shards; both are in one machine, so one loss may take both",
    ),
    (
        {"kind": "copy_deploying", "primary": 1, "copy": 3, "same_fate": None},
        "host 3 is given a copy of host 1's shards",
    ),
    (
        {"kind": "copy_deployed", "primary": 1, "copy": 3, "epoch": 9, "bytes": 2048, "ms": 40},
        "host 3 has a copy of host 1's shards as of epoch 9: 2.0 KB in 40 ms",
    ),
    (
        {"kind": "copy_refreshed", "primary": 1, "copy": 3, "epoch": 9, "bytes": 2048, "ms": 4, "full": False},
        "the copy of host 1 on host 3 has epoch 9: 2.0 KB (what changed) in 4 ms",
    ),
    (
        {"kind": "copy_lost", "primary": 1, "copy": 3, "reason": "host 3 is lost"},
        "host 1 has no copy on host 3 any more: host 3 is lost",
    ),
    (
        {"kind": "switched", "primary": 1, "copy": 3, "epoch": 9, "silent_ms": 120, "reason": "missed a heartbeat"},
        "host 3 answers instead of host 1 (silent for 120 ms, missed a heartbeat); its copy had epoch 9",
    ),
    (
        {"kind": "switched", "primary": 1, "copy": 3, "epoch": 9, "silent_ms": 0, "reason": "stopped"},
        "host 3 answers instead of host 1 (stopped); its copy had epoch 9",
    ),
    (
        {"kind": "rolled_back", "primary": 1, "copy": 3, "epoch": 12, "ms": 90},
        "host 1 answers again, 90 ms after it was heard, with the state of epoch 12 from host 3",
    ),
    (
        {"kind": "given_up", "host": 1, "promoted": 3, "reason": "silent for 20 s"},
        "host 1 is replaced for good by host 3: silent for 20 s",
    ),
    (
        {
            "kind": "journal_continues",
            "app": "words",
            "generation": 2,
            "alive": [{"host": 1}],
            "shards": {"count/0": 1, "count/1": 1},
        },
        "another file of the journal begins: application words (generation 2) has 1 host and 2 shards",
    ),
    ({"kind": "standby_changed", "operator": "count", "mode": "hybrid"}, "operator count has standby hybrid now"),
]


def test_the_start_is_no_recovery():
    record: dict[str, Any] = {
        "kind": "recovery_started",
        "reason": "start",
        "mode": "application",
        "shards": [],
        "checkpoint": None,
    }
    assert sentence(record) == "its state begins empty"
    assert sentence({**record, "checkpoint": 3}) == "its state is loaded from checkpoint 3"


@pytest.mark.parametrize(("record", "text"), RECORDS, ids=[f"{r['kind']}-{i}" for i, (r, _) in enumerate(RECORDS)])
def test_every_kind_has_its_sentence(record, text):
    assert sentence({"at_ms": 0, **record}) == text
    tone(record)


def test_an_unknown_kind_is_told_generically():
    assert sentence({"at_ms": 5, "kind": "moon_rose", "where": "east"}) == "moon rose where=east"


def test_a_known_kind_without_its_fields_is_told_generically():
    assert sentence({"at_ms": 5, "kind": "host_lost", "host": 3}) == "host lost host=3"


def notices_in_all() -> list[type[notices.Notice]]:
    found, left = [], [notices.Notice]
    while left:
        below = left.pop().__subclasses__()
        found += below
        left += below
    return found


def test_every_kind_of_notice_has_its_sentence_and_every_sentence_its_notice() -> None:
    kinds = {notice.kind for notice in notices_in_all()}
    assert kinds == _SENTENCES.keys() - {"journal_dropped"}, "the journal itself tells what it dropped"
