"""The daemon that Spark forks its Python workers from, with what every worker of Perseid needs already imported.

A worker, and so a host, is then ready in milliseconds instead of a second. ``spark.python.daemon.module`` names it.
"""

from __future__ import annotations

import gc

import numpy  # noqa: F401
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import perseid.sinks
import perseid.spark.host  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
