"""Admission and commits: whoever needs the commits in the ledger first writes them, whole."""

from __future__ import annotations

import threading
from pathlib import Path

from perseid import sources
from perseid.clocks import EpochTime
from perseid.driver.admission import AdmissionThread, SourceInput
from perseid.driver.settings import Settings
from perseid.duration import every
from perseid.engine import events as on
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted, Committed
from perseid.storage.store import Store
from perseid.vocabulary import Offset

PATIENCE_S = 30


class SlowSource:
    """Somebody looks for new rows, and looks."""

    def __init__(self) -> None:
        self.looking, self.found = threading.Event(), threading.Event()

    def end(self, start: int, max_rows: int | None, now_ms: int) -> int:
        self.looking.set()
        assert self.found.wait(PATIENCE_S)
        return start + 10


def test_a_checkpoint_need_not_wait_for_a_slow_source_to_have_its_epochs_committed_with_their_event_times(
    tmp_path: Path,
) -> None:
    store = Store.at(str(tmp_path))
    lease = Lease.acquire(store, owner="test", now_ms=lambda: 0, timeout=every(seconds=10))
    ledger, source, heard = Ledger.open(store, lease), SlowSource(), threading.Event()

    def post(event: on.Event) -> None:
        assert event == on.EpochAdmitted(4)  # type: ignore[arg-type]
        heard.set()

    for epoch in (1, 2, 3):
        ledger.append(Admitted(epoch, 0, {"in": (10 * epoch - 10, 10 * epoch)}))  # type: ignore[arg-type,dict-item]
    admission = AdmissionThread(
        {"in": source}, ["main"], ledger, threading.Lock(), Settings(), EpochTime(lambda: 0), lambda *_: False, post, lambda _: None  # type: ignore[dict-item,list-item]
    )  # fmt: skip
    admission.go_on(4)  # type: ignore[arg-type]
    assert source.looking.wait(PATIENCE_S)
    for epoch in (1, 2, 3):
        admission.commit(Committed(epoch, "main", {"op": 100 * epoch}))  # type: ignore[arg-type,dict-item]
    admission.write_commits()
    assert ledger.committed("main") == 3, "while the source is still being looked at"  # type: ignore[arg-type]
    assert ledger.event_times_ms(3) == {"op": 300}  # type: ignore[arg-type]
    source.found.set()
    assert heard.wait(PATIENCE_S) and ledger.last_admitted == 4
    admission.stop()


def test_rows_that_wait_behind_an_epoch_are_counted_where_the_source_knows_them() -> None:
    now_ms = 0
    rows = sources.generator({"n": "id"}, rate=100, rows=1_000)
    source = SourceInput(rows, 30, lambda: now_ms)
    assert source.end(Offset(0)) == 0 and source.counts(Offset(0), Offset(0)) == (0, 0)
    now_ms = 2_000
    assert source.end(Offset(0)) == 30 and source.counts(Offset(0), Offset(30)) == (30, 170)
    now_ms = 60_000
    assert source.end(Offset(30)) == 60 and source.counts(Offset(30), Offset(60)) == (30, 940)
    everything = SourceInput(sources.generator({"n": "id"}), 30, lambda: now_ms)
    assert everything.counts(Offset(0), Offset(30)) == (30, 0), "without a rate rows are made when they are asked for"
