import os

import pytest

from perseid.bench.measuring.side import Side, SideFailed

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


def test_a_side_is_another_process_that_remembers_and_survives_a_failure(tmp_path):
    with Side("other", tmp_path) as side:
        assert side.call(os.getpid) != os.getpid()
        side.call(see, 1)
        with pytest.raises(SideFailed, match="broken on purpose"):
            side.call(fail)
        assert side.call(see, 2) == [1, 2] and SEEN == []
        with pytest.raises(SideFailed, match="the last words"):
            side.call(die)
        with pytest.raises(SideFailed):
            side.call(os.getpid)
