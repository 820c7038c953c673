"""The graph of SignalGuru: phones, colour, shape and motion filter, voting, group, SVM (the paper's figure 4, M8).

Three units: phones (pictures and the three filters), signals (voting and the phases of each signal) and prediction. Colour
and shape filter are one transform, so that pictures are moved to Python once for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from perseid.application import App
from perseid.apps.columns import Mapped
from perseid.apps.pictures import pictures_of
from perseid.apps.signalguru.controller import changes_of
from perseid.apps.signalguru.filters import colour_filter, shape_filter
from perseid.apps.signalguru.generate import CYCLE_MS, INTERVAL_MS, SCHEMA, Town
from perseid.apps.signalguru.operators import (
    MOTION_OUTPUT,
    PHASES_OUTPUT,
    PREDICTION_OUTPUT,
    MotionFilter,
    Phases,
    SvmPrediction,
)
from perseid.apps.signalguru.view import SHAPE
from perseid.graph.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOMENTS_AT_ONCE = 64
PICTURES_AT_ONCE = 512
SPOTTED_SCHEMA = f"{SCHEMA}, spots array<float>"
FILES_SCHEMA = SCHEMA
"""A user's own pictures: raw red, green and blue bytes in ``frame``; ``leaves`` in a car's last; truth where it is known."""
EVENTS_SCHEMA = "TimeStamp timestamp_ntz, DeviceId long, EventId long, Parameter long"


def build(
    *,
    scale: float = 0.004,
    seed: int = 0,
    minutes: float = 1.0,
    windows: float | None = None,
    rate: float | None = None,
    input: str | PathLike[str] | None = None,
    events: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
    shards: int = 2,
) -> App:
    """SignalGuru.

    ``scale``    1.0 has the paper's state: 200 MB to 2 GB
    ``windows``  how many cycles are generated (None: no end); a cycle of the signals always takes a minute (``minutes``
                 is there to be called as the other applications are)
    ``rate``     moments of an intersection a second, each with the pictures of several cars (None: as fast as it goes)
    ``input``    a folder of parquet files with the columns of ``FILES_SCHEMA`` instead
    ``events``   or a folder of controller logs (``EVENTS_SCHEMA``): no pictures, only the prediction
    ``output``   a folder for ``colours/`` and ``predictions/`` (None: nowhere)
    """
    from perseid import sinks, sources

    app = App("signalguru")
    if events is not None:
        log = app.source("log", sources.files(events, schema=EVENTS_SCHEMA), unit="prediction")
        changes = log.transform("changes", changes_of)
    else:
        changes = _observed(app, scale, seed, windows, rate, input, output, shards)
    predicted = changes.stateful(
        "svm", SvmPrediction(), key="intersection", output=PREDICTION_OUTPUT, unit="prediction"
    )
    predicted.sink("predictions", sinks.noop() if output is None else sinks.parquet(Path(output, "predictions")))
    return app


def _observed(
    app: App,
    scale: float,
    seed: int,
    windows: float | None,
    rate: float | None,
    input: str | PathLike[str] | None,
    output: str | PathLike[str] | None,
    shards: int,
) -> Stream:
    """The changes of colour as phones see them."""
    from perseid import sinks, sources

    if input is None:
        town = Town.of(scale, seed)
        rows = None if windows is None else town.rows(windows)
        source = sources.generator({"id": "id"}, rate=rate, rows=rows, seed=seed, partitions=2)
        pictures = app.source("ids", source, unit="phones")
        filters = Mapped(Seen(town), SPOTTED_SCHEMA, MOMENTS_AT_ONCE)
    else:
        pictures = app.source("files", sources.files(input, schema=FILES_SCHEMA), unit="phones")
        filters = Mapped(lights, SPOTTED_SCHEMA, PICTURES_AT_ONCE)
    spotted = pictures.transform("colour-shape", filters)
    seen = spotted.stateful("motion", MotionFilter(), key="phone", shards=shards, output=MOTION_OUTPUT)
    votes = seen.transform("voting", voted, unit="signals")
    if output is not None:
        votes.sink("colours", sinks.parquet(Path(output, "colours")))
    return votes.stateful("phases", Phases(), key="intersection", output=PHASES_OUTPUT)


@dataclass(frozen=True)
class Seen:
    """Pictures of the moments of a town, drawn and filtered in one go: they need not leave Python between the two."""

    town: Town

    def __call__(self, moments: pa.RecordBatch) -> pa.RecordBatch:
        return lights(self.town.batch(moments))


def lights(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The colour and the shape filter: every picture with the spots in it that may be a traffic light."""
    spots = shape_filter(colour_filter(pictures_of(batch.column("frame"), SHAPE)))
    spots = spots[np.argsort(spots["picture"], kind="stable")]
    numbers = np.column_stack([spots["colour"], spots["row"], spots["column"]]).astype(np.float32).ravel()
    starts = 3 * np.searchsorted(spots["picture"], np.arange(batch.num_rows + 1)).astype(np.int32)
    return batch.append_column("spots", pa.ListArray.from_arrays(pa.array(starts), pa.array(numbers)))


def voted(df: DataFrame) -> DataFrame:
    """Selection through voting: of all phones that see a signal at a moment, the colour with the highest score."""
    from pyspark.sql import functions as F

    score = [F.sum(F.expr(f"if(colour = {colour}, score, 0)")).alias(f"for_{colour}") for colour in (1, 2, 3)]
    truth = [F.max("truth").alias("truth"), F.max("next_ms").alias("next_ms")]
    moments = df.where("colour > 0").groupBy("intersection", "at_ms").agg(*score, *truth)
    colour = "case when for_1 >= for_2 and for_1 >= for_3 then 1 when for_2 >= for_3 then 2 else 3 end as colour"
    return moments.selectExpr("intersection", "at_ms", colour, "truth", "next_ms")


def epoch_rows(*, scale: float, minutes: float, parts: int = 12) -> int:
    """How many rows an epoch has that is one of so many parts of a cycle."""
    return Town.of(scale, 0).intersections * (CYCLE_MS // INTERVAL_MS // parts)
