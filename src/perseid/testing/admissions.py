"""Which rows made which epoch of a run, and the same epochs for another run: how a run with faults gets a fault-free twin.

Results depend on where epochs begin and end and on their times. So the twin does not choose its own: its root starts with the ledger's
admissions of the first run, and nothing else. It computes all of them from the first row on.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from perseid.clocks import wall_ms
from perseid.duration import every
from perseid.errors import FaultError, PerseidError
from perseid.storage import layout
from perseid.storage.lease import Lease
from perseid.storage.ledger import Ledger
from perseid.storage.records import Admitted
from perseid.storage.store import Store
from perseid.testing.storage import folder_of
from perseid.vocabulary import Epoch


class Admissions:
    """Collects what a run admits, before its ledger is trimmed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.epochs: dict[Epoch, Admitted] = {}

    def look(self) -> None:
        """Read what is new. A root that cannot be read now is read next time."""
        from perseid.storage.local import LocalStore

        try:
            ledger = Ledger.view(LocalStore(folder_of(self._root)))
        except (PerseidError, OSError):
            return
        first = max(self.epochs, default=0) + 1
        for epoch in range(max(first, ledger.trimmed_to + 1), ledger.last_admitted + 1):
            admitted = ledger.admitted(Epoch(epoch))
            assert admitted is not None
            self.epochs[Epoch(epoch)] = admitted

    @property
    def ends(self) -> dict[str, int]:
        """Where each source stood at last."""
        return {str(name): int(end) for _, a in sorted(self.epochs.items()) for name, (_, end) in a.slices.items()}

    def twin(self, root: str) -> None:
        """Make a root for the same epochs, none of which is done."""
        wanted = list(range(1, max(self.epochs, default=0) + 1))
        missing = [epoch for epoch in wanted if epoch not in self.epochs]
        if missing:
            raise FaultError(f"the admission of epoch {missing[0]} was trimmed from the ledger before it was read")
        kept = folder_of(self._root) / layout.SOURCES
        if kept.is_dir():
            shutil.copytree(kept, Path(root, layout.SOURCES))
        store = Store.at(root)
        lease = Lease.acquire(store, owner="twin", now_ms=wall_ms, timeout=every(seconds=10))
        Ledger.open(store, lease).append(*(self.epochs[Epoch(epoch)] for epoch in wanted))
        lease.release()
