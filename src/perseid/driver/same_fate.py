"""A copy on the machine of its primary goes with it when the machine is lost: users of a cluster want to know, once.

An embedded cluster (``local[…]``, ``local-cluster[…]``) is one machine by design, and says nothing.
"""

from __future__ import annotations

from perseid.engine import notices


def advice_on_place(told: notices.Outcome, master: str) -> str | None:
    """What to tell the user of where a copy goes, if anything."""
    if not isinstance(told, notices.CopyDeploying) or told.same_fate is None or master.startswith("local"):
        return None
    return (
        f"a copy has to be on the {told.same_fate} of its primary, so one loss takes both: their shards then come back from the last"
        f" checkpoint; give the cluster another {told.same_fate} with task slots for hosts"
    )
