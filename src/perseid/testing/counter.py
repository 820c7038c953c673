"""How many real faults were injected, by kind: what a test session may claim.

Every fault is one line in a file, so that processes which a test starts count, too. The file is named by ``PERSEID_FAULT_LOG``;
without it only this process is counted.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

ENVIRONMENT = "PERSEID_FAULT_LOG"

_here: Counter[str] = Counter()


def count_fault(kind: str) -> None:
    """One more fault of this kind was injected."""
    _here[kind] += 1
    log = os.environ.get(ENVIRONMENT)
    if log:
        with Path(log).open("a") as file:  # one short write each: lines of several processes do not mix
            file.write(f"{kind}\n")


def injected() -> Counter[str]:
    """Faults so far by kind, of this session and what it started."""
    log = os.environ.get(ENVIRONMENT)
    if log and Path(log).exists():
        return Counter(Path(log).read_text().split())
    return Counter(_here)
