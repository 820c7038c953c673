"""The graph of bus capacity prediction: cameras, historical images with counting, crowding (the paper's figure 3, M8).

Two units: cameras (pictures and their history) and lines (crowding). What the paper does in further operators, the noise
filter and the counter, is part of the historical images here, so that pictures are moved only once.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from perseid.application import App
from perseid.apps.bcp.generate import SCHEMA, Campus
from perseid.apps.bcp.operators import COUNTS_OUTPUT, CROWDING_OUTPUT, Crowding, HistoricalImages
from perseid.apps.bcp.scene import SHAPE
from perseid.apps.columns import Mapped

PICTURES_AT_ONCE = 1024
FILES_SCHEMA = SCHEMA
"""A user's own pictures: raw grey bytes in ``frame``; ``bus`` and ``onboard`` where a bus comes; truth where it is known."""


def build(
    *,
    scale: float = 0.02,
    seed: int = 0,
    minutes: float = 10.0,
    windows: float | None = None,
    rate: float | None = None,
    input: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
    shape: tuple[int, int] = SHAPE,
    shards: int = 2,
) -> App:
    """Bus capacity prediction.

    ``minutes``  between two buses of a line
    ``scale``    1.0 has the paper's state: 100 to 700 MB with a bus every ten minutes
    ``windows``  how many headways are generated (None: no end), at ``rate`` pictures a second (None: as fast as it goes)
    ``input``    a folder of parquet files with the columns of ``FILES_SCHEMA`` instead, pictures of ``shape``
    ``output``   a folder for ``counts/`` and ``forecasts/`` (None: nowhere)
    """
    from perseid import sinks, sources

    app = App("bcp")
    if input is None:
        campus = Campus.of(scale, minutes, seed)
        rows = None if windows is None else campus.rows(windows)
        source = sources.generator({"id": "id"}, rate=rate, rows=rows, seed=seed, partitions=2)
        ids = app.source("ids", source, unit="cameras")
        pictures = ids.transform("pictures", Mapped(campus.batch, SCHEMA, PICTURES_AT_ONCE))
    else:
        pictures = app.source("files", sources.files(input, schema=FILES_SCHEMA), unit="cameras")
    counts = pictures.stateful("history", HistoricalImages(shape), key="stop", shards=shards, output=COUNTS_OUTPUT)
    crowding = counts.stateful("crowding", Crowding(), key="line", output=CROWDING_OUTPUT, unit="lines")
    if output is not None:
        counts.sink("counts", sinks.parquet(Path(output, "counts")))
    crowding.sink("forecasts", sinks.noop() if output is None else sinks.parquet(Path(output, "forecasts")))
    return app


def epoch_rows(*, scale: float, minutes: float, parts: int = 15) -> int:
    """How many rows an epoch has that is one of so many parts of a headway."""
    campus = Campus.of(scale, minutes, 0)
    return campus.stops * max(1, round(campus.headway / parts))
