"""Copies in the picture: where they are, how far behind, who answers; and the stories of switches."""

from __future__ import annotations

from typing import Any

import pytest
import written

from perseid.dashboard import views
from perseid.dashboard.journal_model import JournalModel
from perseid.dashboard.picture import Picture
from perseid.vocabulary import HostId

ONE, TWO, THREE, FOUR = (HostId(id) for id in (1, 2, 3, 4))


def picture_of(tell: Any) -> Picture:
    model = JournalModel()
    for record in written.records(tell):
        model.take_in(record)
    assert model.picture.totals.strange == 0
    return model.picture


def shown(picture: Picture) -> dict[str, Any]:
    return views.overview(picture, "held")


def guarded(run: written.Run) -> None:
    run.start()
    run.guard(ONE, THREE)
    run.epochs(3)
    run.refresh(ONE, THREE)
    run.epochs(2)


def test_a_copy_is_as_many_epochs_behind_as_were_committed_since_its_refresh() -> None:
    picture = picture_of(guarded)
    (pair,) = shown(picture)["standby"]["pairs"]
    assert (pair["primary"], pair["copy"], pair["phase"], pair["answering"]) == (1, 3, "guarded", 1)
    assert (pair["epoch"], pair["behind"], pair["refreshes"]) == (3, 2, 1) and pair["age_ms"] > 0
    assert pair["shards"] == ["count/0", "count/1"]
    assert [behind for _, behind in picture.pairs[1].behind] == [1, 2, 3, 1, 2]


def test_the_graph_shows_both_places_of_a_shard_and_hosts_whose_copies_they_have() -> None:
    seen = shown(picture_of(guarded))
    count, bill = (node for node in seen["graph"]["nodes"] if node["kind"] == "operator")
    assert [(s["host"], s["copy"], s["answering"]) for s in count["shards"]] == [(1, 3, 1)] * 2
    assert all("copy" not in shard for shard in bill["shards"])
    assert {host["id"]: host["copies_of"] for host in seen["hosts"]} == {1: [], 2: [], 3: [1], 4: []}


def test_a_switch_and_its_roll_back_are_one_story_with_its_parts() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.switch(ONE, THREE, 118)
        run.epochs(4)

    switched = picture_of(run)
    assert switched.pairs[1].answering == 3 and shown(switched)["incidents"][0]["ended_ms"] is None

    def back(of: written.Run) -> None:
        run(of)
        of.roll_back(ONE, THREE)
        of.epochs(1)

    picture = picture_of(back)
    story = next(i for i in picture.incidents.values() if i.kind == "standby")
    assert story.title == "Host 3 answered instead of host 1, and gave back"
    parts = dict(story.phases)
    assert parts["silent"] == 118 and parts["roll-back"] == 86 and parts["the copy answered"] > 1_000
    assert story.ended_ms is not None and "a heartbeat was missed" in story.events[0].text
    assert (picture.totals.switches, picture.totals.roll_backs, picture.totals.promotions) == (1, 1, 0)
    assert picture.pairs[1].answering == 1


def test_a_host_that_is_given_up_hands_its_shards_to_its_copy_and_that_is_the_incident() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.switch(ONE, THREE)
        run.epochs(4)
        run.give_up(ONE, THREE)
        run.epochs(2)

    picture = picture_of(run)
    kinds = [incident.kind for incident in picture.incidents.values()]
    assert kinds == ["start", "standby"], "the lost host is a part of the story of its copy"
    story = [*picture.incidents.values()][-1]
    assert story.title == "Host 3 replaced host 1 for good" and any(
        "silent for 20 s" in told.text for told in story.events
    )
    assert {shard.host for shard in picture.shards.values()} == {2, 3}
    (pair,) = shown(picture)["standby"]["pairs"]
    assert (pair["primary"], pair["copy"], pair["phase"]) == (3, None, "unguarded")


def test_a_primary_that_is_killed_is_a_fault_that_its_copy_ends() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.say(written.notices.HostLost(ONE, "it was killed"))
        run.hosts.remove(ONE)
        run.say(written.notices.GivenUp(ONE, THREE, "it was killed"), 4)
        run.epochs(2)

    story = [*picture_of(run).incidents.values()][-1]
    assert (story.kind, story.title) == ("fault", "Host 3 replaced host 1 for good") and story.ended_ms is not None


def test_a_host_whose_operators_each_tell_of_their_pair_switches_once() -> None:
    """The engine has a pair for every unit and standby of a host."""

    def run(run: written.Run) -> None:
        guarded(run)
        for _ in range(3):
            run.switch(ONE, THREE, 0)
        run.epochs(2)
        for _ in range(3):
            run.roll_back(ONE, THREE)
        run.epochs(1)
        for _ in range(3):
            run.say(written.notices.GivenUp(ONE, THREE, "it was killed"))

    picture = picture_of(run)
    assert (picture.totals.switches, picture.totals.roll_backs, picture.totals.promotions) == (1, 1, 1)
    told = [event.text for event in picture.standby_events]
    assert [sum(word in text for text in told) for word in ("answers instead", "answers again", "for good")] == [
        1,
        1,
        1,
    ]
    assert "silent" not in dict(next(i for i in picture.incidents.values() if i.kind == "standby").phases)


def test_two_switches_at_once_are_two_stories() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.guard(TWO, FOUR)
        run.switch(ONE, THREE)
        run.switch(TWO, FOUR)
        run.epochs(2)
        run.roll_back(TWO, FOUR)
        run.roll_back(ONE, THREE)
        run.epochs(1)

    titles = {i.title for i in picture_of(run).incidents.values() if i.kind == "standby"}
    assert titles == {f"Host {copy} answered instead of host {host}, and gave back" for host, copy in ((1, 3), (2, 4))}


def test_a_copy_that_is_lost_leaves_its_primary_unguarded_and_says_why() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.say(written.notices.CopyLost(ONE, THREE, "its connection broke"))
        run.say(written.notices.CopyWanted(ONE, "no host is free"))

    (pair,) = shown(picture_of(run))["standby"]["pairs"]
    assert (pair["phase"], pair["copy"], pair["reason"], pair["behind"]) == ("unguarded", None, "no host is free", None)


def test_a_host_that_lost_one_of_its_copies_and_is_guarded_again_gives_no_reason_against_it() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.say(written.notices.CopyLost(ONE, THREE, "its shards are elsewhere"))
        run.refresh(ONE, THREE)  # the copy of its other operator

    (pair,) = shown(picture_of(run))["standby"]["pairs"]
    assert (pair["phase"], pair["copy"], pair["reason"]) == ("guarded", 3, "")


def test_operators_without_standby_have_no_copy_beside_those_that_do() -> None:
    def run(run: written.Run) -> None:
        run.start()
        run.places[written.SHARDS[2]] = ONE  # of ``bill``, which has no standby
        run.say(written.notices.ShardsAssigned(ONE, (written.SHARDS[2],)))
        run.say(written.notices.StandbyChanged(written.COUNT, "hybrid"))
        run.guard(ONE, THREE)

    seen = shown(picture_of(run))
    copies = {shard["name"]: shard.get("copy") for node in seen["graph"]["nodes"] for shard in node.get("shards", ())}
    assert copies == {"count/0": 3, "count/1": 3, "bill/0": None, "bill/1": None}
    assert seen["standby"]["pairs"][0]["shards"] == ["count/0", "count/1"]


def test_the_newest_switch_is_told_with_its_reason() -> None:
    assert shown(picture_of(guarded))["standby"]["last_switch"] is None

    def run(run: written.Run) -> None:
        guarded(run)
        run.switch(ONE, THREE, 118)

    last = shown(picture_of(run))["standby"]["last_switch"]
    assert last["text"].startswith("host 3 answers instead of host 1 (silent for 118 ms, a heartbeat was missed)")


def test_the_loss_of_a_host_with_a_copy_says_what_it_held() -> None:
    titles = [incident.title for incident in picture_of(written.Run.standby_run).incidents.values()]
    assert "Lost host 4, which held the copy of host 2" in titles


def test_the_usual_recovery_takes_a_pair_away_whose_hosts_are_both_gone() -> None:
    def run(run: written.Run) -> None:
        guarded(run)
        run.lose(ONE, FOUR)
        run.epochs(1)

    assert 1 not in picture_of(run).pairs


def test_operators_say_which_standby_they_have() -> None:
    seen = shown(picture_of(written.Run.standby_run))
    assert seen["standby"]["modes"] == {"count": "hybrid", "bill": "hybrid"}
    assert {node["standby"] for node in seen["graph"]["nodes"] if node["kind"] == "operator"} == {"hybrid"}


@pytest.mark.parametrize("begin", ["copy_deploying", "copy_refreshed"])
def test_who_reads_from_the_middle_of_a_run_knows_the_pairs_at_their_next_refresh(begin: str) -> None:
    records = written.records(guarded)
    first = next(number for number, record in enumerate(records) if record["kind"] == begin)
    model = JournalModel()
    for record in records[first:]:
        model.take_in(record)
    assert model.picture.pairs[1].copy == 3 and model.picture.pairs[1].phase == "guarded"
