"""Shards of a running operator are divided anew, and whatever fails meanwhile, every row counts once (S3, S4)."""

from __future__ import annotations

from collections.abc import Iterator

import apps
import pytest
from apps import Begin, Folder
from pyspark.sql import SparkSession

from perseid.errors import GraphChanged, ScaleFailed
from perseid.testing import session

pytestmark = pytest.mark.spark

HALF, ROWS = 3_000, 6_000


@pytest.fixture(scope="module")
def perseid_spark() -> Iterator[SparkSession]:
    """With room for the hosts of new shards."""
    made = session(hosts=5, spares=1)
    yield made
    made.stop()


def test_an_operator_grows_and_shrinks_while_its_stream_runs(begin: Begin, folder: Folder) -> None:
    rows = 24_000
    running = begin(apps.counts(folder.out, rows, rate=1_500, shards=2), period=5)
    apps.wait_for_epoch(running, 3)
    grown = running.scale("count", shards=4)
    assert (grown.before, grown.shards) == (2, 4)
    apps.wait_until(lambda: len([h for h in running.progress().hosts if h.shards]) == 4, "a host for each shard")
    apps.wait_for_epoch(running, running.progress().epoch + 3)
    shrunk = running.scale("count", shards=2)
    assert (shrunk.before, shrunk.shards) == (4, 2)
    apps.wait_for_epoch(running, running.progress().epoch + 3)
    apps.end(running)
    apps.check_counts(folder.out, rows)
    print(grown, shrunk)
    assert max(grown.pause_ms, shrunk.pause_ms) < 1_000


def test_a_restart_with_another_number_of_shards_goes_on_from_what_the_others_saved(
    begin: Begin, folder: Folder
) -> None:
    for rows, shards in ((2_000, 2), (4_000, 5), (6_000, 1)):
        running = begin(apps.counts(folder.out, rows, shards=shards))
        apps.end(running)
        assert len({s for h in running.progress().hosts for s in h.shards}) == shards
    apps.check_counts(folder.out, 6_000)


def test_state_that_cannot_be_divided_is_named(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, HALF, operator=apps.Heavy(), shards=2))
    with pytest.raises(ScaleFailed, match=r"'count'.*field 'ballast' is a list.*split="):
        running.scale("count", 3)
    apps.end(running)
    with pytest.raises(GraphChanged, match=r"'count'.*field 'ballast' is a list.*split="):
        begin(apps.counts(folder.out, ROWS, operator=apps.Heavy(), shards=3))
    apps.end(begin(apps.counts(folder.out, ROWS, operator=apps.Heavy(), shards=2)))
    apps.check_counts(folder.out, ROWS)
