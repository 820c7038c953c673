"""Operators that raise: the epoch is tried again, then the application stops and can be resumed; or the rows are put aside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import apps
import pyarrow as pa
import pytest
from apps import Begin, Folder

from perseid import App, Operator
from perseid.cli.root_facts import gather
from perseid.errors import ApplicationFailed
from perseid.storage.store import Store
from perseid.testing import Clock, kill

pytestmark = pytest.mark.spark

ROWS, EPOCH_ROWS, BAD = 3_000, 250, 1_600


def breaking(folder: Folder, how: str) -> App:
    return apps.counts(folder.out, ROWS, operator=apps.Breaks(BAD, f"{folder.root}-mark", how))


def test_an_operator_that_raises_once_is_tried_again_and_loses_nothing(begin: Begin, folder: Folder) -> None:
    running = begin(breaking(folder, "once"))
    assert running.wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)
    assert "operator_failed" in folder.kinds()


def test_an_operator_that_keeps_raising_stops_the_application_which_resumes_after_a_fix(
    begin: Begin, folder: Folder
) -> None:
    Path(f"{folder.root}-mark").touch()
    running = begin(breaking(folder, "while"))
    with pytest.raises(ApplicationFailed) as caught:
        running.wait(apps.WAIT_S)
    message = str(caught.value)
    epoch = BAD // EPOCH_ROWS + 1
    shard = next(i for i in range(3) if f"shard {i}" in message)
    assert "operator 'count'" in message and f"epoch {epoch}" in message and "first rows" in message, message
    assert f"row {BAD} is more than I can take" in message and "'seq'" in message
    assert _counted_failures(folder) == [shard] * 3
    Path(f"{folder.root}-mark").unlink()
    again = begin(breaking(folder, "while"))
    assert again.wait(apps.WAIT_S)
    apps.check_counts(folder.out, ROWS)


def test_the_one_row_an_operator_cannot_take_is_put_aside_and_all_others_counted(begin: Begin, folder: Folder) -> None:
    running = begin(breaking(folder, "always"), dead_letters=True)
    assert running.wait(apps.WAIT_S)
    (aside,) = apps.dead_letters(folder.root, "count")
    why = f"ValueError: row {BAD} is more than I can take"
    assert (aside["seq"], aside["__perseid_error"]) == (BAD, why)
    picture = running.progress()
    assert picture.dead_letters == 1 and picture.dead_letter_error == f"count, epoch {BAD // EPOCH_ROWS + 1}: {why}"
    assert [(e["rows"], e["error"]) for e in folder.journal() if e["kind"] == "dead_letters"] == [(1, why)]
    apps.check_totals(folder.out, "key", Counter(n % apps.KEYS for n in range(ROWS) if n != BAD))


def test_only_the_keys_that_raise_lose_their_rows_whatever_takes_the_state_over(begin: Begin, folder: Folder) -> None:
    """Bad keys in two shards; then every host is killed and the operator is scaled: the same rows are missing, no others."""
    operator, clock = apps.PickyKeys(bad=(3, 40), epoch=4), Clock(1_000)
    running = begin(
        apps.counts(folder.out, ROWS, 1_500, operator=operator),
        dead_letters=True,
        checkpoint=apps.scheme("parallel", 600),
        clock=clock,
    )
    clock.advance(seconds=1.5)  # nine epochs
    apps.wait_for_epoch(running, 6)
    kill(running, host="all")
    apps.wait_for_epoch(running, 8)
    clock.advance(seconds=0.5)
    running.scale("count", 2)  # not refused, though no checkpoint covers the epoch yet
    clock.advance(seconds=1)
    kill(running, host="any")
    assert running.wait(apps.WAIT_S)
    aside = Counter(row["seq"] % apps.KEYS for row in apps.dead_letters(folder.root, "count"))
    slices = {e["epoch"]: e["slices"]["numbers"] for e in folder.journal() if e["kind"] == "epoch_admitted"}
    first, last = slices[4]
    assert aside == Counter(n % apps.KEYS for n in range(first, last) if n % apps.KEYS in operator.bad)
    apps.check_totals(folder.out, "key", Counter(n % apps.KEYS for n in range(ROWS)) - aside)
    facts = gather(Store.at(folder.root), verify=False)
    ((letters),) = facts.dead_letters
    assert (letters.rows, letters.epochs, letters.last_epoch) == (aside.total(), 1, 4)
    assert "cannot be" in letters.error


@pytest.mark.slow
def test_rows_put_aside_stay_aside_when_their_epoch_is_replayed(begin: Begin, folder: Folder) -> None:
    running = begin(breaking(folder, "always"), dead_letters=True, checkpoint=apps.scheme("parallel", 600))
    apps.wait_for_epoch(running, BAD // EPOCH_ROWS + 3)
    kill(running, host="all")
    assert running.wait(apps.WAIT_S)
    assert [row["seq"] for row in apps.dead_letters(folder.root, "count")] == [BAD]
    apps.check_totals(folder.out, "key", Counter(n % apps.KEYS for n in range(ROWS) if n != BAD))


def test_an_operator_that_raises_without_rows_stops_the_application_dead_letters_or_not(
    begin: Begin, folder: Folder
) -> None:
    running = begin(apps.counts(folder.out, ROWS, operator=apps.NeverWorks()), dead_letters=True)
    with pytest.raises(ApplicationFailed, match="it raises without any, too: RuntimeError: no model"):
        running.wait(apps.WAIT_S)
    assert not apps.dead_letters(folder.root, "count")


class WrongShape(Operator):
    def process(self, rows: pa.Table) -> pa.Table:
        return pa.table({"key": rows["key"], "added": ["many"] * len(rows), "total": [1] * len(rows)})


class Misspelt(apps.Count):
    def process(self, rows: pa.Table) -> pa.Table:
        return super().process(row)  # type: ignore[name-defined]  # noqa: F821


def test_code_that_is_wrong_is_not_tried_again(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS, operator=Misspelt()))
    with pytest.raises(
        ApplicationFailed, match=r"operator 'count'.*process raised NameError: name 'row' is not defined"
    ):
        running.wait(apps.WAIT_S)
    assert len(_counted_failures(folder)) == 1


def test_an_output_that_does_not_fit_its_schema_says_so_at_once_and_loses_nothing(begin: Begin, folder: Folder) -> None:
    running = begin(apps.counts(folder.out, ROWS, operator=WrongShape()))
    with pytest.raises(ApplicationFailed) as caught:
        running.wait(apps.WAIT_S)
    message = str(caught.value)
    assert "operator 'count'" in message and "'added'" in message and "declared int64" in message, message
    assert not any(apps.epochs_of(folder.out).values())
    assert len(_counted_failures(folder)) == 1


def _counted_failures(folder: Folder) -> list[int]:
    """Shards whose failures count as the operator's own: not those of an epoch that is given up anyway, since a host was lost.

    Spark 4.3 takes a task that is interrupted while its Python worker starts for a lost daemon, and ends all workers of the executor.
    """
    shards, lost = [], False
    for entry in folder.journal():
        if entry["kind"] in ("host_lost", "recovery_finished"):
            lost = entry["kind"] == "host_lost"
        elif entry["kind"] == "operator_failed" and not lost:
            shards.append(entry["shard"])
    return shards
