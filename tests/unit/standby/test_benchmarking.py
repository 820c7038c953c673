"""A standard set of rows is timed where the processor is busy, and declares a failure once."""

from perseid.standby.benchmarking import Benchmarking


def test_an_idle_processor_is_not_bothered_with_the_set() -> None:
    assert not Benchmarking(1.0).wants_run(0.6)
    assert Benchmarking(1.0).wants_run(0.7)


def test_a_failure_is_declared_when_the_set_takes_too_long_and_only_once() -> None:
    detector = Benchmarking(1.0)
    assert [detector.failed(ms) for ms in (1.9, 2.1, 5.0, 1.0, 3.0)] == [False, True, False, False, True]


def test_after_a_quiet_time_a_failure_is_a_new_one() -> None:
    detector = Benchmarking(1.0)
    assert detector.failed(9.0)
    assert not detector.wants_run(0.1)
    assert detector.failed(9.0)
