"""Spark jobs with a name by which they can be cancelled, in classic Spark and in Spark Connect."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

SETTLED_S = 2.0


def _context(spark: SparkSession) -> Any | None:
    """The SparkContext; None under Spark Connect, where sessions tag and cancel."""
    try:
        return spark.sparkContext
    except Exception:
        return None


@contextlib.contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Jobs this thread starts inside can be cancelled by ``cancel(spark, tag)``."""
    context = _context(spark)
    target = spark if context is None else context
    add, remove = ("addTag", "removeTag") if context is None else ("addJobTag", "removeJobTag")
    getattr(target, add)(tag)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # the session may be gone
            getattr(target, remove)(tag)


def cancel(spark: SparkSession, tag: str) -> None:
    """Cancel the jobs with this tag, if there are any."""
    context = _context(spark)
    with contextlib.suppress(Exception):
        if context is None:
            spark.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)


def task_slots(spark: SparkSession) -> int | None:
    """How many tasks can run at once, where Spark tells."""
    context = _context(spark)
    return None if context is None else int(context.defaultParallelism)


def worker_python(spark: SparkSession) -> str:
    """The Python that Spark's workers run, as far as it is known here."""
    return str(getattr(_context(spark), "pythonExec", "python3"))


def settled_slots(spark: SparkSession, wanted: int, *, exactly: bool, timeout_s: float) -> int | None:
    """The task slots once the cluster's executors are there: ``wanted``, or (not ``exactly``) as many as come within moments."""
    slots = task_slots(spark)
    master = spark.conf.get("spark.master", "local") or "local"
    if slots is None or master == "local" or master.startswith("local["):
        return slots
    until = time.monotonic() + timeout_s
    changed = time.monotonic()
    while time.monotonic() < until and (slots < wanted or (not exactly and time.monotonic() - changed < SETTLED_S)):
        time.sleep(0.1)
        now = task_slots(spark) or 0
        if now != slots:
            slots, changed = now, time.monotonic()
    return slots
