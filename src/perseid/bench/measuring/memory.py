"""Memory of the processes of a running application: what a host holds beside its state, and whether the driver grows.

A host is counted with the children it forks for snapshots, by its proportional share of every page (PSS), so that a page
shared between parent and child counts once and a page copied on write counts twice. The spare host, the same program without
state, is what a host costs anyway.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

import psutil
from pyspark.sql import SparkSession

from perseid.driver.running import Running

SAMPLE_S = 0.1
MB = 1_000_000


@dataclass(slots=True)
class HostMemory:
    """Samples the hosts while it is open: the most one with shards had, with and without its children, and one without shards."""

    running: Running
    full: int = 0
    alone: int = 0
    empty: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, name="bench-memory", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            for host in self.running.progress().hosts:
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(host.pid)
                    if host.shards:
                        self.full = max(self.full, _kept_bytes(process))
                        self.alone = max(self.alone, process.memory_info().rss)
                    else:
                        self.empty = max(self.empty, _kept_bytes(process))


@dataclass(frozen=True, slots=True)
class DriverMemory:
    """The driver at one moment, garbage collected: its Python process and what lives on the JVM's heap."""

    python: int
    heap: int

    @classmethod
    def read(cls, spark: SparkSession) -> Self:
        gc.collect()
        jvm: Any = spark.sparkContext._jvm
        for _ in range(2):  # what the first finds dead, Spark's cleaner lets go, and the second finds that
            jvm.java.lang.System.gc()
            time.sleep(0.3)
        runtime = jvm.java.lang.Runtime.getRuntime()
        return cls(psutil.Process(os.getpid()).memory_info().rss, runtime.totalMemory() - runtime.freeMemory())


def _kept_bytes(process: psutil.Process) -> int:
    """A child that comes or goes between two readings takes its share of the parent's pages with it, or gives it back: so the parent
    is read before and after its children, and the reading that was taken while they shared counts."""
    before, children = _share(process), process.children()
    held = 0
    for child in children:
        with contextlib.suppress(psutil.Error):
            held += _share(child)
    return held + (min(before, _share(process)) if children else before)


def _share(process: psutil.Process) -> int:
    return int(process.memory_full_info().pss)
