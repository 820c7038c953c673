"""A Spark session with the settings that suit Perseid, for applications that do not bring their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",  # an epoch is small and planned often: adaptive execution only adds delay
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.cache.maxEntries": "1000",  # of 100, many operators push each other's code out in every epoch
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.python.task.killTimeout": "200ms",  # how long a cancelled task of a lost host may hold its slot
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "perseid.spark.daemon",
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",  # its own keeps what was freed, see perseid.host.allocators
    "spark.speculation": "false",
    "spark.task.maxFailures": "4",
    "spark.excludeOnFailure.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
    "spark.cleaner.periodicGC.interval": "2min",
    "spark.broadcast.blockSize": "256k",  # each takes a whole block: 4 MB for a few KB, several times an epoch, keep the GC busy
}


def spark_session(
    master: str | None = None,
    *,
    hosts: int = 1,
    spares: int = 1,
    app_name: str = "perseid",
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session with the settings that suit Perseid, and room for ``hosts`` and ``spares`` beside the tasks of epochs.

    ``master=None`` runs embedded: ``local[n]`` with a slot for every host and every core. ``config`` adds settings of Spark.

        spark = perseid.spark_session("spark://master:7077", hosts=4, spares=1)
        app.run(spark, root="hdfs:///roots/words", hosts=4, spares=1)
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is None:
        master = f"local[{hosts + spares + max(2, os.cpu_count() or 2)}]"
    builder = SparkSession.builder.master(master).appName(app_name)
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for key, value in {**SETTINGS, **(config or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF" if not os.environ.get("PERSEID_SPARK_LOG") else "WARN")
    return spark
