"""Shards that hold several times the memory they may use are snapshot, killed, restored and divided like any others (S2)."""

from __future__ import annotations

import apps
import pytest
from apps import Begin, Folder, Hoard, KeyedHoard

from perseid import Operator
from perseid.testing import kill

pytestmark = pytest.mark.spark

ROWS = 18_000
LIMIT = 96 << 10


@pytest.mark.parametrize(
    "operator", [Hoard(), pytest.param(KeyedHoard(), marks=pytest.mark.slow)], ids=["fields", "by key"]
)
def test_a_killed_host_with_more_state_than_memory_costs_no_row_and_doubles_none(
    begin: Begin, folder: Folder, operator: Operator
) -> None:
    running = begin(apps.hoards(folder.out, ROWS, operator), max_rows_per_epoch=500)
    apps.wait_for_checkpoint(running, 2)
    apps.wait_until(lambda: running.progress().state_bytes > 2 * 4 * LIMIT, "several times the limit in two shards")
    kill(running, host="hoard/0")
    apps.wait_until(lambda: running.progress().faults, "the loss to be noticed")
    apps.wait_for_checkpoint(running, running.progress().checkpoints + 1)
    kill(running, host="all")
    apps.end(running)
    apps.check_hoards(folder.out, ROWS)


@pytest.mark.slow
def test_more_state_than_memory_is_divided_and_merged_while_the_stream_runs(begin: Begin, folder: Folder) -> None:
    running = begin(apps.hoards(folder.out, ROWS, Hoard()), max_rows_per_epoch=500, period=1.5)
    apps.wait_for_checkpoint(running)
    for shards in (3, 1):
        running.scale("hoard", shards=shards)
        apps.wait_for_epoch(running, running.progress().epoch + 3)
    kill(running, host="all")
    apps.end(running)
    apps.check_hoards(folder.out, ROWS)
