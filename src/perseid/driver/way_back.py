"""What may be trimmed while a checkpoint is kept for the old code: all that the way back does not need.

It needs that checkpoint with the files it names, and the ledger and the input of sources from its boundaries on. Checkpoints between it and
the newest ones may go, and so may everything before it.

Invariant: nothing is trimmed that would not have been trimmed without a kept checkpoint. What was withheld is deleted with the next
trim after the checkpoint was let go.
"""

from __future__ import annotations

from dataclasses import replace

from perseid.engine import commands as do
from perseid.engine.root_history import needs
from perseid.storage.kept_state import kept_state
from perseid.storage.manifest import Checkpoints
from perseid.storage.store import Store
from perseid.vocabulary import CheckpointId


class WayBack:
    """Looks at the root before every trim: another process lets the checkpoint go."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._withheld: frozenset[CheckpointId] = frozenset()

    def spared(self, trim: do.Trim) -> do.Trim:
        """The same without what the kept checkpoint needs. Raises ``CorruptData`` if that cannot be told: then nothing may go."""
        kept = kept_state(self._store)
        delete = self._withheld | set(trim.delete)
        if kept is None:
            self._withheld = frozenset()
            return replace(trim, delete=tuple(sorted(delete)))
        manifest = Checkpoints(self._store).read(kept.checkpoint)
        needed = needs(manifest.id, manifest.shards, (epoch.path for epoch in manifest.inflight))
        self._withheld = delete & needed
        first = min(manifest.units.values())  # of a unit that is new: it reads what others did
        cuts = {unit: min(cut, manifest.units.get(unit, first)) for unit, cut in trim.oldest.cuts.items()}
        return do.Trim(tuple(sorted(delete - needed)), replace(trim.oldest, cuts=cuts))
