"""Journals of real runs, recorded once: what the dashboard is tested on.

``units``: two units; a host is killed, ``count`` is scaled from 2 to 4 shards, all hosts are killed, the application ends well.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[2] / "recorded"


def lines(name: str) -> list[bytes]:
    return gzip.decompress((RECORDED / f"{name}.jsonl.gz").read_bytes()).splitlines(keepends=True)


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(name)]


def root_with(folder: Path, journal: list[bytes], *, begun_ms: int = 1) -> str:
    """A root that has this journal and nothing else."""
    (folder / "journal").mkdir(parents=True)
    (folder / "journal" / f"00000001-000001-{begun_ms}.jsonl").write_bytes(b"".join(journal))
    return str(folder)
