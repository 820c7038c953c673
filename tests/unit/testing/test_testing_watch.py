from perseid.engine.progress import Progress
from perseid.testing.watch import Watch


def pictures(watch, *seen):
    for now_s, phase, epoch, checkpoints in seen:
        watch.saw(Progress("app", phase, epoch=epoch, checkpoints=checkpoints), now_s)


def test_recoveries_are_counted_when_they_begin():
    watch = Watch()
    pictures(watch, (0, "starting", 0, 0), (1, "running", 0, 0), (2, "recovering", 1, 0), (3, "recovering", 1, 0))
    assert watch.recoveries == 1
    pictures(watch, (4, "running", 1, 0), (5, "recovering", 1, 0))
    assert watch.recoveries == 2
    assert watch.running_s(12) == 10


def test_the_longest_outage_lies_between_two_commits():
    watch = Watch()
    pictures(watch, (0, "starting", 0, 0), (20, "running", 1, 0), (21, "running", 2, 0), (26, "running", 3, 0))
    pictures(watch, (27, "running", 4, 0), (99, "stopping", 4, 0))
    assert watch.longest_outage_s == 5


def test_counts_go_on_over_a_crash_of_the_driver():
    watch = Watch()
    pictures(watch, (0, "running", 5, 2))
    watch.crashed(0)
    watch.saw(None, 1)
    pictures(watch, (9, "running", 5, 0), (10, "running", 6, 1))
    assert (watch.checkpoints, watch.starts, watch.longest_outage_s) == (3, 2, 10)


def test_time_stands_still_until_a_crashed_driver_is_heard_of_again():
    watch = Watch()
    pictures(watch, (10, "running", 1, 0))
    watch.crashed(14)
    watch.saw(None, 60)
    assert watch.running_s(60) == 4
    pictures(watch, (90, "starting", 0, 0))
    assert watch.running_s(91) == 5
