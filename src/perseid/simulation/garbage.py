"""Python's collector stands still while a world is lived through: little in it is garbage before its end, and much would be looked
through again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect nothing until the end; then what came since, once."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.collect(0)
        if collecting:
            gc.enable()
