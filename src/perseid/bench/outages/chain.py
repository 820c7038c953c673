"""The application of the paper: eight operators in a chain, two to a unit, each gives one row for one row (selectivity 1).

Every operator counts what it is handed on whichever host it works, so that the rows that a second copy gets are counted, too.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.compute as pc

import perseid
from perseid import App, Operator, state
from perseid.bench.outages.sizes import ELEMENTS, UNITS
from perseid.standby.benchmarking import EVERY_MS, ROWS, Benchmarking
from perseid.standby.modes import Standby

_COUNTED = struct.Struct("<qq")  # rows, bytes
_handled: dict[Path, _Handled] = {}  # in this process, by file
_watching = threading.Lock()


@dataclass(slots=True)
class _Handled:
    file: int
    rows: int = 0
    bytes: int = 0


class Step(Operator):
    """Counts by key; passes every row on."""

    ordered = False
    counts: dict[int, int] = state(default_factory=dict)
    ballast: list[bytes] = state(default_factory=list)

    def __init__(self, label: str, folder: str, ballast_mb: int, *, benchmarked: bool) -> None:
        self.label, self.folder, self.ballast_mb, self.benchmarked = label, folder, ballast_mb, benchmarked

    def process(self, rows: pa.Table) -> pa.Table:
        self._handed(rows)
        if self.benchmarked:
            _watch(Path(self.folder))
        if self.ballast_mb and not self.ballast:
            self.ballast = [os.urandom(1_000_000) for _ in range(self.ballast_mb)]
        count_into(self.counts, rows)
        return rows

    def _handed(self, rows: pa.Table) -> None:
        path = Path(self.folder, f"handled-{os.getpid()}-{self.label}")
        if path not in _handled:
            _handled[path] = _Handled(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        counted = _handled[path]
        counted.rows, counted.bytes = counted.rows + rows.num_rows, counted.bytes + rows.nbytes
        os.pwrite(counted.file, _COUNTED.pack(counted.rows, counted.bytes), 0)  # at once: it is read meanwhile


def count_into(counts: dict[int, int], rows: pa.Table) -> None:
    """What an operator does with rows."""
    for pair in pc.value_counts(rows["key"].combine_chunks()).to_pylist():
        counts[pair["values"]] = counts.get(pair["values"], 0) + pair["counts"]


def handled(folder: Path) -> tuple[int, int]:
    """Rows and bytes that operators were handed so far, on all hosts."""
    found = [_COUNTED.unpack(data) for file in folder.glob("handled-*") if len(data := file.read_bytes()) == 16]
    return sum(rows for rows, _ in found), sum(size for _, size in found)


def chain(
    work: Path,
    rate: float,
    standby: Mapping[int, Standby],
    *,
    units: int = UNITS,
    ballast_mb: int = 0,
    benchmarked: bool = False,
) -> App:
    """``standby`` by unit, from 1 on. ``ballast_mb``: beside the state of the first operator of every unit with standby."""
    folder = work / "handled"
    folder.mkdir(parents=True, exist_ok=True)
    app = App("chain")
    columns = {"key": f"id % {ELEMENTS}", "id": "id"}
    stream = app.source("rows", perseid.sources.generator(columns, rate=rate, partitions=2), unit="unit-1")
    for number in range(1, units + 1):
        unit, mode = f"unit-{number}", standby.get(number, perseid.standby.none())
        for place in ("first", "second"):  # hosts are given shards by turns, so a unit's are on one
            name, mb = f"{place}-{number}", ballast_mb if place == "first" and number in standby else 0
            operator = Step(name, str(folder), mb, benchmarked=benchmarked and name == f"first-{units - 1}")
            stream = stream.stateful(name, operator, key="key", output="key long, id long", standby=mode, unit=unit)
    stream.sink("out", perseid.sinks.parquet(str(work / "out")))
    return app


def check(work: Path, rows: int) -> tuple[int, int]:
    """Of the first so many rows: how many did not come out, and how many came out once too often."""
    import pyarrow.parquet as pq

    folders = sorted((work / "out").glob("epoch=*"))
    parts = [file for folder in folders for file in folder.glob("[!._]*.parquet")]
    if not parts:
        return rows, 0
    ids = pa.concat_arrays([c for f in parts for c in pq.ParquetFile(f).read(columns=["id"])["id"].chunks])
    distinct = len(pc.unique(ids))
    return rows - distinct, len(ids) - distinct


def _watch(folder: Path) -> None:
    """Have a thread of this host time the standard set, as the paper's second detector does; once in a process."""
    if _watching.acquire(blocking=False):
        threading.Thread(target=_time_sets, args=(folder,), name="benchmarking", daemon=True).start()


def _time_sets(folder: Path) -> None:
    rows = pa.table({"key": [n % ELEMENTS for n in range(ROWS)], "id": list(range(ROWS))})
    detector = Benchmarking(min(_set_ms(rows) for _ in range(200)))
    psutil.cpu_percent()
    with (folder / f"alarms-{os.getpid()}").open("a", buffering=1) as alarms:
        while True:
            time.sleep(EVERY_MS / 1000)
            if detector.wants_run(psutil.cpu_percent() / 100) and detector.failed(_set_ms(rows)):
                alarms.write(f"{time.time() * 1000:.0f}\n")


def _set_ms(rows: pa.Table) -> float:
    began = time.perf_counter()
    count_into({}, rows)
    return (time.perf_counter() - began) * 1000


def alarms_ms(work: Path) -> list[float]:
    """When the second detector declared a failure."""
    files = (work / "handled").glob("alarms-*")
    return sorted(float(line) for file in files for line in file.read_text().split())


def parameters(mode: str, heartbeat_ms: int, refresh_ms: int, share: int = 1) -> Standby:
    """A standby with the times of an experiment, as far as its mode has a use for them."""
    makers: dict[str, Any] = {
        "none": lambda: perseid.standby.none(),
        "passive": lambda: perseid.standby.passive(
            heartbeat=heartbeat_ms / 1000, refresh=refresh_ms / 1000, share=share
        ),
        "active": lambda: perseid.standby.active(heartbeat=heartbeat_ms / 1000, share=share),
        "hybrid": lambda: perseid.standby.hybrid(heartbeat=heartbeat_ms / 1000, refresh=refresh_ms / 1000, share=share),
    }
    made: Standby = makers[mode]()
    return made
