"""How many hosts an application has: what its user wants, as far as the cluster has room."""

from __future__ import annotations

import pytest

from perseid.driver.room import EPOCH_SLOTS, SCALE_ROOM, Room, engine_settings, own_room, room_of, wanted_slots
from perseid.driver.settings import Settings
from perseid.duration import every
from perseid.errors import SettingsError
from perseid.scaling.bottleneck import AutoScaling
from perseid.standby.modes import hybrid
from perseid.vocabulary import OperatorName


def test_hosts_leave_half_of_the_slots_to_epochs_where_nobody_names_a_number() -> None:
    assert room_of(Settings(), 8, 8, own=False) == Room(4, 1, 6, 8)
    assert room_of(Settings(), 2, 8, own=False) == Room(2, 1, 6, 8)
    assert room_of(Settings(), 8, 2, own=False) == Room(1, 0, 1, 2)


def test_a_scale_leaves_slots_to_epochs_but_takes_no_host_away() -> None:
    assert room_of(Settings(hosts=2, spares=0), 2, 9, own=False).most_hosts == 9 - EPOCH_SLOTS
    assert room_of(Settings(hosts=3, spares=1), 2, 5, own=False).most_hosts == 4


def test_a_session_of_its_own_has_slots_for_a_scale() -> None:
    assert own_room(Settings(), 8) == Room(2, 1 + SCALE_ROOM)
    assert own_room(Settings(hosts=3, spares=0), 8) == Room(3, SCALE_ROOM)
    assert room_of(Settings(hosts=2), 2, 2 + 1 + 2 + SCALE_ROOM, own=True) == Room(2, 1, 7, 9)


def test_a_cluster_that_does_not_tell_its_slots_gets_what_is_wanted() -> None:
    assert room_of(Settings(hosts=3, spares=2), 8, None, own=False) == Room(3, 2)
    assert wanted_slots(Settings(hosts=3, spares=2)) == 6 and wanted_slots(Settings()) == 2


def test_a_cluster_that_is_too_small_is_refused_with_what_is_missing() -> None:
    with pytest.raises(SettingsError, match=r"3 hosts and 1 spares .*: 5, the cluster has 4; use a master with 1 more"):
        room_of(Settings(hosts=3, spares=1), 3, 4, own=False)


def test_an_operator_is_not_scaled_beyond_the_hosts_there_can_be() -> None:
    scaling = AutoScaling(most=16)
    assert Room(2, 1, 6).bounded(scaling) == AutoScaling(most=5)
    assert Room(2, 1).bounded(scaling) == AutoScaling(most=2)
    assert Room(2, 1).bounded(None) is None


def test_the_controller_is_given_what_concerns_it() -> None:
    settings = Settings(start_timeout=every(seconds=7), queue=5, dead_letters=True)
    scalable, standby = frozenset([OperatorName("count")]), {OperatorName("count"): hybrid()}
    given = engine_settings(settings, Room(3, 1, 6, 8), {}, scalable, standby)
    assert (given.hosts, given.spares, given.most_hosts, given.slots) == (3, 1, 6, 8)
    assert given.start_timeout_ms == 7_000 and given.queue == 5 and given.dead_letters
    assert given.scalable == scalable and given.standby == standby
