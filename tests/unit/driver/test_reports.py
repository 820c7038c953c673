"""Reports of shards: who waits for one that cannot come is released as soon as nobody wants it any more."""

from __future__ import annotations

import threading

import pytest

from perseid.driver.reports import Reports
from perseid.engine.reports import NoReport
from perseid.engine.unit_job import Cancelled
from perseid.vocabulary import Epoch, OperatorName, ShardId

SHARD = ShardId(OperatorName("count"), 0)


def test_a_wait_for_a_lost_hosts_report_ends_with_the_epoch_that_was_taken_back() -> None:
    taken_back, ended = threading.Event(), threading.Event()

    def check() -> None:
        if taken_back.is_set():
            raise Cancelled

    def wait() -> None:
        with pytest.raises(Cancelled):
            Reports().of_epoch([SHARD], Epoch(1), timeout_s=3_600, check=check)
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not ended.wait(0.3)
    taken_back.set()
    assert ended.wait(30)


def test_a_report_that_does_not_come_is_named() -> None:
    with pytest.raises(NoReport, match=r"epoch 7: no report from shards count/0 within 0.1 s"):
        Reports().of_epoch([SHARD], Epoch(7), timeout_s=0.1)
