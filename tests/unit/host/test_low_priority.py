"""Work that gives way runs in a thread of its own, and is otherwise as any."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from perseid.host.low_priority import NICE, at_low_priority


def test_it_returns_and_raises_what_the_work_does() -> None:
    assert at_low_priority(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        at_low_priority(lambda: 1 / 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has a priority of its own")
def test_only_the_thread_that_works_gives_way() -> None:
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    there = at_low_priority(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
    assert there == max(mine, NICE) or there == mine + NICE
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == mine
