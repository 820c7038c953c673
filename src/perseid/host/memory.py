"""How much memory this process has, as the operating system counts it."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes() -> int | None:
    """Memory that is in RAM now; None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
