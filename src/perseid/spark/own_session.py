"""Perseid's own session beside the user's: the same Spark application, with SQL settings of its own.

An epoch is planned and run in the session of the DataFrame that is run. So what Perseid runs belongs to its own session, and what a
function of the user is given (a transform, ``foreach``, a sink of their own) belongs to theirs, with its temporary views and functions.
A union with nothing takes a DataFrame from one session to the other; Spark leaves the nothing out.

The user's session is only read: its settings at the start hold for the whole run, but for those that only change how fast an epoch is,
and those that would end or change a host.
"""

from __future__ import annotations

import contextlib

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from perseid.spark.jobs import task_slots

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
OWN = {
    "spark.sql.adaptive.enabled": "false",  # an epoch is small and planned often: adaptive execution only adds delay
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.arrow.compression.codec": "none",
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "false",
    "spark.sql.execution.pyspark.udf.idleTimeoutSeconds": "0",  # a host is idle most of the time
    "spark.sql.execution.pyspark.udf.killOnIdleTimeout": "false",
}
NOT_OURS = ("spark.sql.pyspark.udf.profiler", "spark.sql.pyspark.worker.logging.enabled")


def sibling_of(spark: SparkSession) -> SparkSession:
    """A session of Perseid's own beside this one; under Spark Connect, which has no such thing, this one."""
    try:
        own = _new_session(spark)
    except Exception:
        return spark
    for name, value in spark.conf.getAll.items():
        if value is not None and spark.conf.isModifiable(name):
            own.conf.set(name, value)
    slots = max(2, task_slots(spark) or 2)
    partitions = min(
        int(spark.conf.get(SHUFFLE_PARTITIONS) or slots), slots
    )  # no adaptive execution puts them together
    for name, value in {**OWN, SHUFFLE_PARTITIONS: str(partitions)}.items():
        with contextlib.suppress(Exception):  # a version of Spark that has no such setting
            own.conf.set(name, value)
    for name in NOT_OURS:
        own.conf.unset(name)
    return own


def _new_session(spark: SparkSession) -> SparkSession:
    from pyspark import RDD

    to_df = getattr(RDD, "toDF", None)
    own = spark.newSession()
    if to_df is not None:
        RDD.toDF = to_df  # type: ignore[method-assign]  # pyspark ties it to the newest session
    return own


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """No rows with these columns, in this session. Needs no job, and leaves the active session as it is."""
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in schema]
    return spark.range(0, 0, 1, 1).select(*columns).limit(0)


class Moved:
    """Takes the DataFrames of streams from one session to the other."""

    def __init__(self, schemas: dict[str, StructType]) -> None:
        self._schemas = schemas
        self._nothing: dict[tuple[str, int], DataFrame] = {}

    def to(self, spark: SparkSession, stream: str, df: DataFrame) -> DataFrame:
        """``df``, which is an epoch of ``stream``, in this session."""
        if df.sparkSession is spark:
            return df
        key = (stream, id(spark))
        if key not in self._nothing:
            self._nothing[key] = no_rows(spark, self._schemas[stream])
        return self._nothing[key].union(df)
