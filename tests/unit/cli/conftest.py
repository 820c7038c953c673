"""A checkpoint root as a short run leaves it, made with the storage package alone."""

import itertools
import json

import pytest

from perseid.duration import every
from perseid.state.codec import encode
from perseid.storage import layout
from perseid.storage.journal import Journal
from perseid.storage.lease import Lease
from perseid.storage.ledger import Admitted, Committed, Ledger
from perseid.storage.manifest import Checkpoints, Manifest, ShardSnapshot
from perseid.storage.snapshots import write_snapshot
from perseid.storage.store import Store

START_MS = 1_700_000_000_000

CAPTURED = [
    {"fields": {"counts": {"be": 4, "to": 3}, "seen": 7}, "keyed": None, "timers": []},
    {"fields": {"counts": {"or": 1, 7: 9}, "seen": 1}, "keyed": None, "timers": [("or", 5000, "event", "close")]},
]
KEYED = {"fields": {}, "keyed": {"names": ("clicks", "pages"), "values": {("ada", 1): (3, ["/a"])}}, "timers": []}


@pytest.fixture
def root(tmp_path):
    """Two checkpoints of epochs 3 and 5, seven epochs committed, eight admitted, one host lost."""
    store = Store.at(str(tmp_path / "root"))
    clock = itertools.count(START_MS, 250)
    lease = Lease.acquire(store, owner="words", now_ms=lambda: START_MS, timeout=every(seconds=10))
    fingerprint = {"sources": {"lines": {"unit": "main", "kind": "files"}}, "operators": {}, "sinks": {}, "streams": {}}
    store.write(layout.APP, [json.dumps(fingerprint).encode()])
    ledger = Ledger.open(store, lease)
    journal = Journal(store, lease.generation, now_ms=lambda: next(clock))
    journal.record("app_started", app="words", units=1, operators=2, hosts=2, restored=None, epoch=0)
    checkpoints = Checkpoints(store)
    for epoch in range(1, 9):
        ledger.append(Admitted(epoch, START_MS + epoch, {"lines": (epoch - 1, epoch)}))
        journal.record("epoch_admitted", epoch=epoch, slices={"lines": [epoch - 1, epoch]}, rows=100)
        if epoch < 8:
            ledger.append(Committed(epoch, "main"))
            journal.record("epoch_committed", epoch=epoch, ms=90, rows_in=100, rows_out=10)
        if epoch in (3, 5):
            committed = checkpoint(store, checkpoints, epoch)
            journal.record("checkpoint_committed", checkpoint=committed.id, bytes=1000, ms=30)
    journal.record("host_lost", host=1, reason="no heartbeat for 0.8 s")
    journal.record("moon_rose", where="east")
    journal.close()
    return tmp_path / "root"


def checkpoint(store, checkpoints, epoch):
    id = checkpoints.next_id()
    captured = [("count", 0, CAPTURED[0]), ("count", 1, CAPTURED[1]), ("visits", 0, KEYED)]
    shards = []
    for operator, index, state in captured:
        file = write_snapshot(store, layout.snapshot(id, operator, index), {}, encode(state), local=None)
        shards.append(ShardSnapshot(operator, index, (0, 256), epoch, file, 100))
    manifest = Manifest(id, "f", START_MS + epoch, {"main": epoch}, tuple(shards), (), {}, "parallel")
    checkpoints.commit(manifest)
    return manifest
