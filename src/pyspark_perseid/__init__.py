"""Makes ``spark.read.format("perseid")`` known: Spark looks for ``DefaultSource`` in packages whose name begins with ``pyspark_``."""

from perseid.datasource import PerseidDataSource as DefaultSource

__all__ = ["DefaultSource"]
