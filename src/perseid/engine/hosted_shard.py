"""A shard as its host holds it: where it stands, its state, the answers and the input it keeps, what is to be told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic

from perseid.checkpoint.size_watch import SizeWatch
from perseid.engine.host_effects import Answer, Live
from perseid.engine.kept_input import KeptInput
from perseid.engine.messages import FromHost, Report
from perseid.engine.shard import ShardLog
from perseid.vocabulary import Epoch, SlotRange


@dataclass(frozen=True, slots=True)
class Sent:
    """A host was sent the shard's state of this epoch."""

    to: str
    epoch: Epoch
    state: object  # what the effects must know of it to find what has changed since


@dataclass(slots=True)
class HostedShard(Generic[Live, Answer]):
    """A shard as its host holds it."""

    log: ShardLog[Answer]
    slots: SlotRange
    live: Live
    watch: SizeWatch
    kept: KeptInput = field(default_factory=KeptInput)
    report: Report | None = None  # of its last epoch
    searched: bool = False  # it raised, and there are no rows to blame
    short_of_room: bool = False  # for its answers
    notices: list[FromHost] = field(default_factory=list)  # to be told when its epoch is done
    both: bool = False  # two hosts answer for it (active standby)
    sent: Sent | None = None  # what another host has of it
