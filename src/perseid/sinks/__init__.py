"""Where rows go. Each sink is told the epoch and commits it as a whole; some skip what they hold already (X2).

parquet, json    folders of files, one folder per epoch, exactly once
memory           in the driver, exactly once while the process lives
console, noop    to be looked at, or not at all
foreach          a function (epoch, df) of yours, which makes it idempotent by the epoch

A sink of your own is any object with the methods of ``Sink``. It is given ``Epoch`` numbers, and the ``Store`` of the checkpoint root.
"""

from perseid.sinks.console import console
from perseid.sinks.foreach import foreach
from perseid.sinks.json import json
from perseid.sinks.memory import memory
from perseid.sinks.noop import noop
from perseid.sinks.parquet import parquet
from perseid.sinks.sink import MappedSink, Sink
from perseid.storage.store import Store
from perseid.vocabulary import Epoch

__all__ = ["Epoch", "MappedSink", "Sink", "Store", "console", "foreach", "json", "memory", "noop", "parquet"]
