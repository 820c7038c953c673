"""The daemon that Spark forks its Python workers from, with what every worker of Perseid needs already imported.

A worker, and so a host, is then ready in milliseconds instead of seconds. ``spark.python.daemon.module`` names it.

Spark puts its own ``pyspark.zip`` first on the path. A zip holds no compiled code, and Python reads its directory anew when a task begins.
Where the zip belongs to an installed pyspark, that one serves as well.

A daemon that Spark has given up stays until its last host has ended: hosts outlive it (``perseid.host.lifeline``), and stay below their
executor in the tree of processes, where people and ``perseid.testing`` look for them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from pathlib import Path


def _without_zips(path: list[str]) -> list[str]:
    """The path without zips that lie inside a pyspark package which the rest of the path leads to."""
    folders = [Path(entry) for entry in path if entry and not entry.endswith(".zip")]
    packages = [f / "pyspark" for f in folders if (f / "pyspark" / "__init__.py").is_file()]
    inside = [e for e in path if e.endswith(".zip") and packages and packages[0] in Path(e).resolve().parents]
    return [e for e in path if e not in inside] if any((f / "py4j").is_dir() for f in folders) else path


sys.path[:] = _without_zips(sys.path)
for entry in [e for e in sys.path_importer_cache if e.endswith(".zip") and e not in sys.path]:
    del sys.path_importer_cache[entry]

import numpy  # noqa: E402, F401
import pyarrow.compute  # noqa: E402
import pyarrow.parquet  # noqa: E402
import pyspark.sql.pandas.serializers  # noqa: E402
import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

from perseid.host.broken_pipes import quietly  # noqa: E402

if __name__ == "__main__":
    pyarrow.array([0])  # looks for pandas, and imports it where it is there
    quietly()
    gc.collect()
    gc.freeze()
    try:
        manager()
    finally:  # it has said farewell to its workers
        time.sleep(1)
        os.kill(0, signal.SIGHUP)  # and says it again to one that was just being forked
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)  # returns when there are none, for they end unseen (SIGCHLD is ignored)
