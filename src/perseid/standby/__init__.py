"""Standby: a second copy of an operator's shards takes over while a host is slow or dead. Give it to ``stateful`` as ``standby=``.

    counts = words.stateful("count", WordCount(), key="word", output="word string, n long", standby="hybrid")
    counts = words.stateful("count", …, standby=perseid.standby.hybrid(give_up=every(seconds=10)))

none      lost shards come back from the last checkpoint; the default
hybrid    a suspended copy takes over at the first missed heartbeat, and gives back when the host answers again
passive   the state is kept on a second host, and a new host is launched from it after three missed heartbeats
active    two copies work on every epoch, and the first answer counts

The modules of this package decide; they are pure. See ``docs/standby.md`` (H1 to H8).
"""

from perseid.standby.modes import Standby, active, hybrid, none, passive

__all__ = ["Standby", "active", "hybrid", "none", "passive"]
