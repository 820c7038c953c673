"""What the meteor benchmark reads from a journal: a small one, written down by hand, with every number known."""

import pytest

from perseid.bench.schemes.reading import checkpoints, curve, pace, recovery, window

UNITS = ["phones", "modes"]


def entry(kind, at_ms, **fields):
    return {"kind": kind, "at_ms": at_ms, **fields}


def epoch(number, at_ms, ms, *, rows=100, state=10_000_000, worked=0.0, sizing=0.0):
    fields = {
        "epoch": number,
        "ms": ms,
        "rows_in": rows,
        "state_bytes": state,
        "worked_ms": worked,
        "sizing_ms": sizing,
    }
    return entry("epoch_committed", at_ms, **fields)


def ordered(checkpoint, unit, at_ms, *, synchronous=False):
    return entry("snapshots_ordered", at_ms, checkpoint=checkpoint, unit=unit, host=1, synchronous=synchronous)


def forked(checkpoint, unit, at_ms):
    return entry("snapshots_forked", at_ms, checkpoint=checkpoint, unit=unit, host=1)


def written(checkpoint, at_ms, size, serialise=4):
    return entry(
        "snapshot_written", at_ms, checkpoint=checkpoint, shard="a/0", bytes=size, ms=30, serialise_ms=serialise
    )


JOURNAL = [
    entry("app_started", 0, units=UNITS),
    epoch(1, 1000, 500, worked=100, sizing=1.0),
    epoch(2, 1500, 500, worked=200, sizing=1.5),
    entry("checkpoint_decided", 1600, checkpoint=1, reason="minimum", units=None),
    ordered(1, "phones", 1700),
    forked(1, "phones", 1710),
    written(1, 1740, 1000),
    ordered(1, "modes", 1900),
    forked(1, "modes", 1915),
    written(1, 1960, 5000, serialise=8),
    entry("inflight_saved", 1970, checkpoint=1, stream="pairs", epoch=3, bytes=700),
    entry("checkpoint_committed", 1990, checkpoint=1, bytes=6000, ms=290),
    epoch(3, 2000, 600, rows=300, worked=300, sizing=2.0),
    epoch(4, 2500, 400, worked=400, sizing=2.5),
    entry("checkpoint_decided", 2700, checkpoint=2, reason="final", units=None),
    ordered(2, "phones", 2710),
    forked(2, "phones", 2720),
    written(2, 2730, 9000),
    entry("checkpoint_committed", 2740, checkpoint=2, bytes=9000, ms=30),
]


def test_a_window_has_its_throughput_and_the_latency_of_its_rows():
    found = window(JOURNAL, 1000, 2000)
    assert found.rows_per_s == pytest.approx((100 + 300 + 100) / 2)
    assert found.latency_ms == pytest.approx((500 * 100 + 500 * 100 + 600 * 300 + 400 * 100) / 600)
    assert found.sizing_share == pytest.approx(1.5 / 300)


def admitted(number, at_ms, start, end):
    return entry("epoch_admitted", at_ms, epoch=number, slices={"ids": [start, end]}, rows=end - start, time_ms=at_ms)


def test_under_load_a_row_waits_from_the_time_it_came():
    """A hundred rows a second from 1000 on. The second epoch is admitted late: its rows had waited half a second and more."""
    journal = [
        entry("app_started", 0, units=UNITS),
        admitted(1, 1100, 0, 10),
        epoch(1, 1200, 100, rows=10),
        admitted(2, 2000, 10, 50),  # which came from 1100 to 1500
        epoch(2, 2300, 300, rows=40),
    ]
    found = window(journal, 1000, 2000, rate=100.0)
    assert found.latency_ms == pytest.approx((10 * (50 + 100) + 40 * (700 + 300)) / 50)
    assert found.p99_ms == 700 + 300
    assert window(journal, 1000, 2000).latency_ms == pytest.approx((10 * 100 + 40 * 300) / 50), "from admission"
    assert pace(journal, 2000, 1000) == (40, 1.0) and pace(journal, 1000, 2000) == (25, 1.0)


def test_the_last_checkpoint_of_a_run_is_not_the_windows():
    found = window(JOURNAL, 1000, 2000)
    assert [c.reason for c in found.checkpoints] == ["minimum"]
    assert (found.rounds, found.bytes) == (1, 6700), "snapshots and epochs on their way"


def test_the_parts_of_a_checkpoint_are_those_of_the_unit_that_came_last():
    (first, _) = checkpoints(JOURNAL)
    assert first.ms == 390
    assert first.parts_ms == {"tokens": 300, "other": 15 + 8, "disk": 70 - 23, "commit": 20}
    assert sum(first.parts_ms.values()) == first.ms
    assert first.still == ((1700, 1710), (1900, 1915))
    assert first.writing == (1700, 1970)


def test_a_unit_that_is_saved_synchronously_forks_nothing():
    journal = [
        entry("checkpoint_decided", 100, checkpoint=1, reason="period"),
        ordered(1, "phones", 110, synchronous=True),
        forked(1, "phones", 150),
        written(1, 151, 1000),
        entry("checkpoint_committed", 160, checkpoint=1, bytes=1000),
    ]
    (one,) = checkpoints(journal)
    assert one.parts_ms == {"tokens": 10, "other": 4, "disk": 37, "commit": 9}
    assert one.still == ((110, 150),), "it stood still while it was written"


def test_the_longest_wait_for_a_child_is_time_that_a_unit_stood_still():
    waits = [
        entry("snapshot_awaited", at_ms, checkpoint=1, host=host, ms=ms)
        for at_ms, host, ms in [(1990, 1, 5), (1998, 2, 30)]
    ]
    (first, _) = checkpoints([*JOURNAL, *waits])
    assert first.still == ((1700, 1710), (1900, 1915), (1968, 1998))


def test_epochs_that_were_under_way_met_the_checkpoint():
    found = window(JOURNAL, 1000, 2000)
    assert found.during_ms == {3: 600}
    assert found.calm_ms == {1: 500, 2: 500, 4: 400}


def test_shares_of_the_window_count_what_overlaps_once():
    found = window(JOURNAL, 1000, 2000)
    assert found.still_share == pytest.approx(25 / 2000)
    assert found.writing_share == pytest.approx(270 / 2000)
    assert found.still_ms == 25


def test_under_baseline_a_checkpoint_of_every_unit_is_one_of_the_application():
    journal = [entry("app_started", 0, units=UNITS), epoch(1, 10, 5), epoch(2, 900, 5)]
    for number, (unit, at_ms) in enumerate([("phones", 100), ("modes", 300), ("phones", 500), ("modes", 700)], start=1):
        journal += [
            entry("checkpoint_decided", at_ms, checkpoint=number, reason="own_period", units=[unit]),
            ordered(number, unit, at_ms, synchronous=True),
            forked(number, unit, at_ms + 40),
            written(number, at_ms + 41, 2000),
            entry("checkpoint_committed", at_ms + 50, checkpoint=number, bytes=2000),
        ]
    found = window(journal, 0, 1000)
    assert found.rounds == 2
    assert (found.bytes, found.checkpoint_ms, found.still_ms) == (4000, 100, 80)


def test_a_checkpoint_that_failed_does_not_count():
    journal = [entry("app_started", 0, units=UNITS), epoch(1, 10, 5), *JOURNAL[3:7]]
    assert window(journal, 0, 3000).checkpoints == () and window(journal, 0, 3000).bytes == 0


def lost(killed_ms, *, reload):
    phases = {"detect": 40, "reload": reload, "read": 50, "deserialise": 5, "reconnect": 20, "catch_up": 200}
    return [
        entry("recovery_started", killed_ms + reload + 50, checkpoint=7),
        entry("recovery_finished", killed_ms + reload + 400, phases=phases),
    ]


def test_recovery_is_told_without_the_catching_up_that_follows_it():
    journal = [
        entry("checkpoint_committed", 900, checkpoint=7, bytes=4000),
        epoch(8, 990, 300),
        *lost(1000, reload=600),
        epoch(8, 2200, 0),
        epoch(9, 2400, 300),
    ]
    found = recovery(journal, [1000])
    assert (found.ms, found.catch_up_ms, found.bytes) == (800, 600, 4000), "epoch 8 is done again, 9 is new"
    assert found.parts_ms == {"detect": 125, "reload": 600, "read": 50, "deserialise": 5, "reconnect": 20}
    assert sum(found.parts_ms.values()) == found.ms


def test_of_several_kills_the_mean_is_told():
    journal = [
        entry("checkpoint_committed", 900, checkpoint=7, bytes=4000),
        epoch(8, 990, 300),
        *lost(1000, reload=800),
        *lost(3000, reload=100),
        *lost(5000, reload=300),
        epoch(9, 9000, 300),
    ]
    found = recovery(journal, [1000, 3000, 5000])
    assert found.parts_ms["reload"] == 400 and found.ms == 600 and found.bytes == 4000
    assert found.catch_up_ms == 9000 - 5000 - 500


def test_where_the_oracle_had_no_recording_it_is_no_oracle():
    unrecorded = [{**e, "reason": "unrecorded"} if e.get("reason") == "minimum" else e for e in JOURNAL]
    assert window(unrecorded, 1000, 2000).checkpoints == ()


def test_the_curve_is_in_megabytes():
    assert curve(JOURNAL)[0] == (1000, 10.0)


def test_without_a_recovery_nothing_is_made_up():
    with pytest.raises(AssertionError, match="did not come back"):
        recovery(JOURNAL, [2000])
