"""The state sizes of a run before, read back from its journal: what the oracle knows (the paper's figure 14)."""

from __future__ import annotations

from perseid.checkpoint.oracle import Recording


def recording(root: str) -> Recording:
    """The curve of the state size in the last run on a checkpoint root, for ``perseid.oracle``."""
    from perseid.storage.journal import read_journal  # hosts import perseid, and can do without
    from perseid.storage.store import Store

    records = list(read_journal(Store.at(root)))
    starts = [place for place, record in enumerate(records) if record.get("kind") == "app_started"]
    return Recording.from_journal(records[starts[-1] :] if starts else records)
