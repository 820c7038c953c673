"""Signals that tell by themselves: event logs of traffic-signal controllers, as changes of colour (M8).

High-resolution controller logs (Indiana's enumeration) have a row ``TimeStamp, DeviceId, EventId, Parameter`` for all that
happens; of a phase (``Parameter``) begin of green is event 1, of yellow 8, of red clearance 10. With these in place of
cameras only the prediction is left to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from perseid.apps.signalguru.generate import AMBER, GREEN, RED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COLUMNS = ("TimeStamp", "DeviceId", "EventId", "Parameter")
_COLOUR_OF = {1: GREEN, 8: AMBER, 10: RED}


def changes_of(events: DataFrame) -> DataFrame:
    """The changes of colour of all phases, as the SVM prediction takes them: a transform of the graph."""
    pairs = ", ".join(f"{event}, {colour}" for event, colour in _COLOUR_OF.items())
    return events.where(f"EventId in ({', '.join(map(str, _COLOUR_OF))})").selectExpr(
        "DeviceId * 100 + Parameter as intersection",
        "unix_millis(cast(TimeStamp as timestamp)) as at_ms",
        f"map({pairs})[cast(EventId as int)] as colour",
    )


def changes_in(events: pa.Table) -> pa.Table:
    """The same for a table in memory."""
    events = events.filter(pc.is_in(events["EventId"], pa.array(list(_COLOUR_OF), pa.int64())))
    colours = [_COLOUR_OF[event] for event in events["EventId"].to_pylist()]
    at_ms = events["TimeStamp"].cast(pa.timestamp("ms")).cast(pa.int64()).to_numpy()
    places = events["DeviceId"].to_numpy() * 100 + events["Parameter"].to_numpy()
    return pa.table({"intersection": places, "at_ms": at_ms, "colour": np.array(colours, np.int32)})
