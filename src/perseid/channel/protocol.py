"""Which messages go over which connection (``perseid.engine.messages``), and what a host says when it comes.

``control``   a host dials the driver, registers, and tells what it does; the driver tells it what to do
``epochs``    a task asks the host of its shard; rows follow requests and answers
``backups``   a host fetches a snapshot that another one keeps
``copies``    a host sends another one the state of shards, or fetches the input that tasks kept on its machine
``heart``     the process beside a host tells the driver how the host is
"""

from __future__ import annotations

from dataclasses import dataclass

from perseid.channel.codec import Kinds
from perseid.engine.messages import (
    Address,
    ApplyEpoch,
    Beat,
    CopyShards,
    FetchRows,
    FetchSnapshot,
    FromHost,
    FromTask,
    Reply,
    Taken,
    ToHost,
)
from perseid.storage.process import Process


@dataclass(frozen=True, slots=True)
class Registration:
    """The first words of a host."""

    launch: int  # which of the driver's asking it answers
    address: Address
    executor: str
    process: Process


@dataclass(frozen=True, slots=True)
class HeartOf:
    """The first words of a heart: whose it is, by the name of the host's server."""

    name: str


REGISTRATION = Kinds[Registration](Registration)
TO_HOST = Kinds[ToHost](ToHost)
FROM_HOST = Kinds[FromHost](FromHost)
FROM_TASK = Kinds[FromTask](FromTask)
KEPT_REQUEST = Kinds[ApplyEpoch](ApplyEpoch)  # beside kept input
REPLY = Kinds[Reply](Reply)
FETCH = Kinds[FetchSnapshot](FetchSnapshot)
COPIES = Kinds[CopyShards | FetchRows](CopyShards | FetchRows)
TAKEN = Kinds[Taken](Taken)
HEART_OF = Kinds[HeartOf](HeartOf)
BEAT = Kinds[Beat](Beat)
