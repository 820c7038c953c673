"""No tracebacks when Spark ends: it closes the pipes of its Python workers, and its daemon would tell of every one.

Spark's daemon prints a traceback when a worker cannot flush its last bytes. Those of a host nobody waits for: the application has
ended, or the host was given up.
"""

from __future__ import annotations

import builtins
import sys
import traceback
from types import ModuleType
from typing import Any

_GONE = (BrokenPipeError, ConnectionResetError)


def quietly() -> None:
    """In this process Spark's daemon does not tell any more that Spark has closed a pipe."""
    for name in ("pyspark.daemon", "__main__"):
        daemon = sys.modules.get(name)
        if isinstance(daemon, ModuleType) and hasattr(daemon, "manager") and hasattr(daemon, "worker"):
            vars(daemon).update(print=_print, traceback=_Traceback)


def _print(*values: Any, **options: Any) -> None:
    if not isinstance(sys.exc_info()[1], _GONE):
        builtins.print(*values, **options)


class _Traceback:
    """What ``pyspark.daemon`` uses of the module of this name."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], _GONE):
            traceback.print_exc()
