"""The graph of transportation mode inference: source, Pair, map, group, k-means, shares (the paper's figure 2, M8).

Three units, as the paper's operators are spread over nodes: phones (positions and Pair), modes (map, group and k-means)
and city (shares).
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from perseid.application import App
from perseid.apps.columns import Mapped
from perseid.apps.tmi.generate import BLOCK_M, INTERVAL_MS, MODES, SCHEMA, City
from perseid.apps.tmi.operators import (
    MODES_OUTPUT,
    PAIR_OUTPUT,
    SHARES_OUTPUT,
    KMeansModes,
    ModeShares,
    Pair,
)
from perseid.duration import every
from perseid.operators.event_time import event_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TAIL = 0.4
"""How much of a further window is generated: a window is closed by what comes after it."""
FILES_SCHEMA = "phone long, at_ms long, x double, y double, truth string"
"""A user's own positions: milliseconds since 1970, metres, and the true mode where it is known."""


def build(
    *,
    scale: float = 0.02,
    seed: int = 0,
    minutes: float = 10.0,
    windows: float | None = None,
    rate: float | None = None,
    input: str | PathLike[str] | None = None,
    output: str | PathLike[str] | None = None,
    modes: Sequence[str] = MODES,
    pools: int = 4,
    shards: int = 2,
) -> App:
    """Transportation mode inference.

    ``minutes``  length of a window, the paper's N
    ``scale``    1.0 has the paper's state: 300 MB in a window of ten minutes
    ``windows``  how many are generated (None: no end), at ``rate`` positions a second (None: as fast as it goes)
    ``input``    a folder of parquet files with the columns of ``FILES_SCHEMA`` instead
    ``output``   a folder for ``modes/`` and ``shares/`` (None: nowhere)
    ``modes``    what is told apart, from slow to fast; ``pools``: how many groups of phones are clustered each alone
    """
    from perseid import sinks, sources

    city = City.of(scale, minutes, seed)
    app = App("tmi")
    if input is None:
        rows = None if windows is None else city.rows(windows + TAIL)
        ids = app.source("ids", sources.generator({"id": "id"}, rate=rate, rows=rows, seed=seed), unit="phones")
        positions = ids.transform("positions", Mapped(city.batch, SCHEMA))
    else:
        found = app.source("files", sources.files(input, schema=FILES_SCHEMA), unit="phones")
        positions = found.transform("positions", coded)
    paired = positions.stateful("pair", Pair(), key="phone", shards=shards, output=PAIR_OUTPUT)
    mapped = paired.transform("map", nearest_stop, unit="modes")
    grouped = mapped.transform("group", lambda df: df.selectExpr("*", f"cast(pmod(phone, {pools}) as int) as pool"))
    inferred = grouped.stateful(
        "kmeans",
        KMeansModes(city.window_ms, modes, seed),
        key="pool",
        shards=shards,
        output=MODES_OUTPUT,
        event_time=event_time("at_ms", delay=every(milliseconds=INTERVAL_MS)),
    )
    shares = inferred.stateful("shares", ModeShares(), key="pool", output=SHARES_OUTPUT, unit="city")
    if output is not None:
        inferred.sink("modes", sinks.parquet(Path(output, "modes")))
    shares.sink("shares-out", sinks.noop() if output is None else sinks.parquet(Path(output, "shares")))
    return app


def epoch_rows(*, scale: float, minutes: float, parts: int = 20) -> int:
    """How many rows an epoch has that is one of so many parts of a window."""
    city = City.of(scale, minutes, 0)
    return city.phones * max(1, round(city.window_ms / INTERVAL_MS / parts))


def nearest_stop(df: DataFrame) -> DataFrame:
    """How far the nearest bus stop is (the paper's GoogleMap operator, with a map of its own: stops on a grid)."""
    away = [f"{axis} - {BLOCK_M} * rint({axis} / {BLOCK_M})" for axis in ("x", "y")]
    return df.selectExpr("*", f"cast(hypot({away[0]}, {away[1]}) as float) as stop_m")


def coded(df: DataFrame) -> DataFrame:
    """Labels as numbers."""
    modes = ", ".join(f"'{mode}'" for mode in MODES)
    truth = f"coalesce(nullif(cast(array_position(array({modes}), truth) as int), 0) - 1, -1) as truth"
    return df.selectExpr("phone", "at_ms", "x", "y", truth)
