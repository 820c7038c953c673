"""Linear Road as an application: feeder, forwarder, toll calculator, toll assessment, balance account, collector, sink (S7).

The chain is one stream, so nothing is computed twice: what an operator does not answer it passes on. By default toll
assessment and balance account, both keyed by vid, share a stage and the collector is part of it; ``seven=True`` gives each of
the paper's operators a node of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import perseid
from perseid.application import App
from perseid.apps.linear_road import lines
from perseid.apps.linear_road.accounts import ANSWERS, ASSESSED, Accounts, BalanceAccount, TollAssessment
from perseid.apps.linear_road.calculator import OUTPUT, TollCalculator
from perseid.apps.linear_road.feed import Feed
from perseid.graph.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from perseid.sinks.sink import Sink


def linear_road(
    feed: Feed,
    out: str,
    *,
    shards: int = 2,
    seven: bool = False,
    malformed: str | None = None,
    sink: Sink | None = None,
) -> App:
    """The application. Answers go to ``out`` (or to ``sink``); lines that are none, of a feed of text, to ``malformed``."""
    app = App("linear-road")
    feeder = app.source("feeder", feed)
    if feed.format == "text":
        read = feeder.transform("reader", parsed)
        rows = read.transform("forwarder", lambda df: forwarded(df.where("malformed IS NULL")))
        aside = read.transform("aside", lambda df: df.where("malformed IS NOT NULL").select("malformed"))
        aside.sink(
            "malformed", perseid.sinks.json(malformed or str(Path(out).with_name(Path(out).name + "-malformed")))
        )
    else:
        rows = feeder.transform("forwarder", forwarded)
    answered(rows, shards=shards, seven=seven).sink("sink", sink or perseid.sinks.parquet(out))
    return app


def answered(rows: Stream, *, shards: int = 2, seven: bool = False) -> Stream:
    """The answers to a stream of reports and queries (columns ``lines.COLUMNS``)."""
    crossings = rows.stateful("toll-calculator", TollCalculator(), key=("xway", "dir"), shards=shards, output=OUTPUT)
    if not seven:
        return crossings.stateful("accounts", Accounts(), key="vid", shards=shards, output=ANSWERS)
    assessed = crossings.stateful("toll-assessment", TollAssessment(), key="vid", shards=shards, output=ASSESSED)
    answers = assessed.stateful("balance-account", BalanceAccount(), key="vid", shards=shards, output=ANSWERS)
    return answers.transform("collector", lambda df: df.where("value >= 0 OR type = 1"))


def forwarded(df: DataFrame) -> DataFrame:
    """The forwarder: reports, queries and history go on, what nobody answers does not."""
    return df.where(f"type <> {lines.TRAVEL_TIME}").select(*lines.COLUMNS)


def parsed(df: DataFrame) -> DataFrame:
    """Lines of text as columns; of a line that is none, ``malformed`` is the line itself."""
    from pyspark.sql import functions as F

    words = F.split("line", ",")
    whole = F.size(words) == len(lines.FIELDS)
    numbers = whole & F.forall(words, lambda word: word.rlike(lines.NUMBER))
    values = [
        F.expr(f"try_cast(get(split(line, ','), {lines.FIELDS.index(name)}) AS {kind})").alias(name)
        for name, kind in lines.COLUMNS.items()
    ]
    read = df.where("trim(line) <> ''").select("line", numbers.alias("numbers"), *values)
    fits = F.col("numbers") & F.coalesce(F.expr(lines.VALID), F.lit(False))
    return read.select(*lines.COLUMNS, F.when(~fits, F.col("line")).alias("malformed"))
