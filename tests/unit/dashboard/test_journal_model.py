"""The picture is the journal's: every number on it can be counted in the records."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from typing import Any

import pytest

from perseid.checkpoint.notices import Notice
from perseid.dashboard import views
from perseid.dashboard.journal_model import JournalModel
from perseid.dashboard.picture import Picture
from perseid.engine import notices as engine_notices
from recorded import records

RECORDS = records("units")


def picture_of(journal: list[dict[str, Any]]) -> Picture:
    model = JournalModel()
    for record in journal:
        model.take_in(record)
    return model.picture


@pytest.fixture(scope="module")
def picture() -> Picture:
    return picture_of(RECORDS)


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [record for record in RECORDS if record["kind"] == kind]


def test_counts_are_those_of_the_records(picture: Picture) -> None:
    committed, kinds = of_kind("epoch_committed"), Counter(record["kind"] for record in RECORDS)
    totals = picture.totals
    assert totals.epochs == len(picture.epochs) == len(committed)
    assert totals.rows_in == sum(r["rows_in"] for r in committed) and totals.rows_out == sum(
        r["rows_out"] for r in committed
    )
    assert totals.checkpoints == kinds["checkpoint_committed"] and totals.faults == kinds["host_lost"]
    assert totals.recoveries == sum(not r["start"] for r in of_kind("recovery_finished")) and totals.scales == 1
    assert totals.strange == 0  # those of no kind of their own are told in an incident
    assert picture.epoch == committed[-1]["epoch"] and picture.phase == "stopped"


def test_the_graph_and_the_shards_are_those_of_the_end(picture: Picture) -> None:
    assert [(node.name, node.kind) for node in picture.nodes] == [
        ("numbers", "source"), ("count", "operator"), ("out-1", "sink"), ("buckets", "transform"),
        ("rollup", "operator"), ("out-2", "sink"),
    ]  # fmt: skip
    assert sorted(picture.shards) == ["count/2", "count/3", "count/4", "count/5", "rollup/0", "rollup/1"]
    assert {shard.host for shard in picture.shards.values()} <= picture.hosts.keys()


def test_latency_is_split_into_parts_that_add_up(picture: Picture) -> None:
    curves = views.time_curves(picture, None, None)["curves"]
    rows = picture.epochs.between(None, None)
    parts = rows["waiting"] + rows["spark"] + rows["hosts"] + rows["sink"]
    assert abs(parts - rows["ms"]).max() < 1 and len(curves["t"]) == len(picture.epochs)
    assert all(low <= mid <= high for low, mid, high in zip(curves["p50"], curves["p95"], curves["p99"], strict=True))


def test_every_checkpoint_has_its_reason_and_its_parts(picture: Picture) -> None:
    committed = [c for c in picture.checkpoints.values() if c.committed_ms is not None]
    assert len(committed) == len(of_kind("checkpoint_committed"))
    for checkpoint in committed:
        shown = views.checkpoint(checkpoint)
        assert checkpoint.why and shown["bytes"] == sum(row["bytes"] for row in shown["rows"]) > 0
        for row in shown["rows"]:
            assert 0 <= row["ordered"] <= row["forked"] <= row["synced"] <= row["written"] <= shown["end"], row
        assert "was last" in shown["slowest"]


def test_incidents_are_stories_in_order(picture: Picture) -> None:
    stories = list(picture.incidents.values())
    assert [story.kind for story in stories] == ["start", "fault", "scale", "fault"]
    _, one, scale, all_hosts = stories
    assert one.title == "Lost host 4" and all_hosts.title == "Lost hosts 11, 6, 8, 12 and 5"
    assert scale.title == "Scale count to 4 shards" and dict(scale.phases)["input paused"] == 94
    recoveries = [r for r in of_kind("recovery_finished") if not r["start"]]
    assert [story.recovery_ms for story in (one, all_hosts)] == [r["ms"] for r in recoveries]
    for story in stories:
        assert story.ended_ms is not None and story.began_ms < story.ended_ms
        assert [told.at_ms for told in story.events] == sorted(told.at_ms for told in story.events)
    assert picture.totals.longest_outage_ms == all_hosts.outage_ms == _longest_gap()


def _longest_gap() -> int:
    """Between two committed epochs."""
    at = [record["at_ms"] for record in of_kind("epoch_committed")]
    return max(later - earlier for earlier, later in itertools.pairwise(at))


def test_a_driver_that_dies_is_told_by_the_next_one() -> None:
    half = RECORDS[: len(RECORDS) // 2]
    shifted = [{**r, "generation": 2, "at_ms": r["at_ms"] + 1_000_000} for r in RECORDS]
    picture = picture_of([*half, *shifted])
    takeover = next(story for story in picture.incidents.values() if story.kind == "takeover")
    assert takeover.title == "The driver was lost, a new one took over" and takeover.outage_ms
    assert picture.generation == 2 and {host.generation for host in picture.hosts.values()} == {2}


def test_a_run_that_stands_still_says_for_how_long() -> None:
    last = max(n for n, record in enumerate(RECORDS) if record["kind"] == "epoch_committed")
    epoch, at_ms = RECORDS[last]["epoch"], RECORDS[last]["at_ms"]
    under_way = {**of_kind("epoch_admitted")[-1], "epoch": epoch + 1, "at_ms": at_ms}
    load = of_kind("host_load")[-1]
    soon, late = ([*RECORDS[: last + 1], under_way, {**load, "at_ms": at_ms + ms}] for ms in (900, 600_000))
    assert views.overview(picture_of(soon), "held")["still_ms"] is None
    assert views.overview(picture_of(late), "held")["still_ms"] == 600_000


def test_a_run_without_an_end_is_crashed_when_its_driver_is_dead() -> None:
    picture = picture_of(RECORDS[:-1])
    assert views.phase(picture, "held") == "running" and views.phase(picture, "dead") == "crashed"


def test_records_of_another_version_are_counted_and_change_nothing_else() -> None:
    strange: list[dict[str, Any]] = [
        {"kind": "epoch_committed", "at_ms": 1, "generation": 1},
        {"kind": "host_lost"},
        {"at_ms": "noon"},
        {"kind": "standby_switched", "at_ms": 5, "generation": 1, "host": 3},
        {"kind": "checkpoint_committed", "at_ms": 6, "generation": 1, "checkpoint": "x"},
        {"kind": "epoch_committed", "at_ms": 7, "generation": 1, "epoch": 1, "rows_in": 1, "rows_out": 1, "ms": 1, "operators": 3},
    ]  # fmt: skip
    picture = picture_of(strange)
    assert picture.totals.strange == len(strange)
    assert dataclasses.replace(picture.totals, strange=0) == dataclasses.replace(Picture().totals)


def test_an_unknown_kind_in_an_incident_is_told_there() -> None:
    lost = next(n for n, record in enumerate(RECORDS) if record["kind"] == "host_lost")
    new = {"kind": "standby_switched", "at_ms": RECORDS[lost]["at_ms"], "generation": 1, "host": 3}
    picture = picture_of([*RECORDS[: lost + 1], new])
    story = next(s for s in picture.incidents.values() if s.kind == "fault")
    assert story.events[-1].text == "standby switched host=3" and picture.totals.strange == 0


def test_records_of_an_older_journal_without_graph_and_parts_still_show() -> None:
    old = [{name: said for name, said in r.items() if name not in ("graph", "parts_ms", "operators")} for r in RECORDS]
    old[0]["operators"] = {"count": 2, "rollup": 2}
    picture = picture_of(old)
    assert picture.totals.epochs == len(of_kind("epoch_committed")) and picture.totals.strange == 0
    assert [node.name for node in picture.nodes] == ["count", "rollup"]
    assert views.overview(picture, "released")["graph"]["nodes"]


def test_every_kind_of_notice_is_known() -> None:
    """What the engine tells and the dashboard does not know would be told as of another version."""

    def kinds(of: type[Notice]) -> set[str]:
        return {of.kind if of is not Notice else ""}.union(*map(kinds, of.__subclasses__()))

    assert engine_notices
    known = JournalModel().kinds | {"journal_dropped"}
    assert kinds(Notice) - {""} <= known
