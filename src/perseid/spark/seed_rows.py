"""Seed rows: in every epoch each shard gets one row of Perseid's own, which its task looks for and drops (``perseid.spark.shard_rows``).

Spark leaves out what it knows to be empty, when it plans and again while it runs. With a seed for each shard no input of an exchange is
ever empty, so the exchange takes place, and every shard with it, whatever Spark makes of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from perseid.channel.packed_layout import SEED_BIT
from perseid.channel.rows import ORDER, SEED, SHARD


class Seeds:
    """The seed rows of one operator under one division of its keys. They are made once, not in every epoch."""

    def __init__(self, spark: SparkSession, shards: int) -> None:
        self._spark, self._shards = spark, shards
        self._made: dict[tuple[str, ...], DataFrame] = {}

    def alone(self) -> DataFrame:
        """A partition for each shard with its seed and nothing else."""
        return self._spark.range(0, self._shards, 1, self._shards).select(seed_number(F.col("id")).alias(SHARD))

    def added(self, df: DataFrame, values: Mapping[str, Column], extra: tuple[str, ...]) -> DataFrame:
        """``df`` with a seed for each shard.

        ``values`` says what a seed has in which column, by ``id``, its shard; in others it has null. ``extra`` are the columns
        that ``df`` has only sometimes.
        """
        if extra not in self._made:
            columns = [values.get(f.name, F.lit(None).cast(f.dataType)).alias(f.name) for f in df.schema]
            self._made[extra] = self._spark.range(0, self._shards, 1, 1).select(*columns)
        return self._made[extra].union(df)


class Numbered:
    """Brings rows together by shard. Each carries the number of its shard in a column, and so does a seed."""

    def __init__(self, seeds: Seeds, shards: int) -> None:
        self._seeds, self._shards = seeds, shards
        self._plain = F.col(SHARD).bitwiseAND(F.lit(~SEED_BIT))
        shard = F.col("id").cast("int")
        self._seed = {SHARD: seed_number(shard), ORDER: F.lit(0).cast("long")}
        self._flagged = {SHARD: shard, SEED: F.lit(True)}

    def of(self, df: DataFrame, extra: tuple[str, ...]) -> DataFrame:
        """``df`` has the number of the shard in ``SHARD``."""
        return self._seeds.added(df, self._seed, extra).repartitionById(self._shards, self._plain)

    def flagged(self, df: DataFrame, extra: tuple[str, ...]) -> DataFrame:
        """The same with ``SHARD`` as it is, and a column ``SEED`` that tells seeds from rows: Spark knows then that rows with one ``SHARD``
        are together."""
        df = self._seeds.added(df.select("*", F.lit(False).alias(SEED)), self._flagged, extra)
        return df.repartitionById(self._shards, SHARD)


def seed_number(shard: Column) -> Column:
    """What a seed has where a row has the number of its shard."""
    return shard.cast("int").bitwiseOR(F.lit(SEED_BIT))
