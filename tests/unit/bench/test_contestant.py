import os

import pytest

from perseid.bench.measuring.contestant import Contestant, SideFailed, in_a_line

SEEN: list[int] = []


def see(number: int) -> list[int]:
    SEEN.append(number)
    return SEEN


def fail() -> None:
    print("some words before the end")
    raise ValueError("broken on purpose")


def die() -> None:
    os.write(2, b"the last words\n")
    os._exit(1)


class Py4JJavaError(Exception):
    """As Py4J says it."""


def test_a_failure_is_told_in_one_line():
    java = (
        "An error occurred while calling o214.repartition.\n"
        ": org.apache.spark.sql.execution.state.StateRepartitionInvalidCheckpointError: the last batch is not committed\n"
        "\tat org.apache.spark.sql.execution.streaming.StateRewriter.run(StateRewriter.scala:52)\n\t... 12 more"
    )
    assert in_a_line(Py4JJavaError(java)) == (
        "org.apache.spark.sql.execution.state.StateRepartitionInvalidCheckpointError: the last batch is not committed"
    )
    assert in_a_line(ValueError("broken on purpose\nhere and there")) == "ValueError: broken on purpose"
    assert in_a_line(AssertionError()) == "AssertionError: no message"


def test_a_side_is_another_process_that_remembers_and_survives_a_failure(tmp_path):
    with Contestant("other", tmp_path) as side:
        assert side.call(os.getpid) != os.getpid()
        side.call(see, 1)
        with pytest.raises(SideFailed, match="broken on purpose"):
            side.call(fail)
        assert side.call(see, 2) == [1, 2] and SEEN == []
        with pytest.raises(SideFailed, match="the last words"):
            side.call(die)
        with pytest.raises(SideFailed):
            side.call(os.getpid)
