"""The data feeder: slices of whole seconds, as fast as they are taken or at the pace of the road (S7, M1).

A feed is a folder with one file per slice (lines of the benchmark as text, or their columns as parquet) and an index. Slice
n is offset n, so the source is preserved by reference. Epochs that hold whole seconds are what lets a query see all
reports of its second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from perseid.apps.linear_road.lines import DDL
from perseid.apps.linear_road.results import text_lines
from perseid.errors import SettingsError
from perseid.sources.ordered_scan import FileSlice, ordered_scan
from perseid.storage.store import Store
from perseid.vocabulary import Offset

INDEX: Final = "feed.json"
Format = Literal["text", "parquet"]


@dataclass(frozen=True, slots=True)
class Slice:
    """A file, the second up to which it reaches (that one included; -1: before all), and its rows."""

    file: str
    second: int
    rows: int


def write_index(folder: Path, format: Format, slices: Iterable[Slice]) -> None:
    """Make the files in the folder a feed: the last thing that is written."""
    index = {"format": format, "slices": [[s.file, s.second, s.rows] for s in slices]}
    (folder / f".{INDEX}").write_text(json.dumps(index))
    (folder / f".{INDEX}").rename(folder / INDEX)


def write_tables(folder: Path, tables: Iterable[tuple[int, pa.Table]]) -> int:
    """A feed of parquet files from tables, each with the last second it has. Returns the number of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    slices: list[Slice] = []
    for second, table in tables:
        name = f"{len(slices):06d}.parquet"
        pq.write_table(table, folder / name, compression="zstd", store_schema=False)
        slices.append(Slice(name, second, table.num_rows))
    write_index(folder, "parquet", slices)
    return sum(s.rows for s in slices)


def cut(lines: Iterable[str], folder: Path, *, history: Iterable[str] = (), least_rows: int = 2_000) -> int:
    """A feed of text files from lines in the order of time; whole seconds, at least so many lines. Returns the lines.

    A line that has no second stays with those around it; it is put aside when the feed runs. The toll history
    (``vid,day,xway,toll``) becomes lines of type 9 before all others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    slices: list[Slice] = []
    for second, part in _whole_seconds(lines, [_history_line(entry) for entry in history if entry.strip()], least_rows):
        name = f"{len(slices):06d}.csv"
        (folder / name).write_text("\n".join(part) + "\n")
        slices.append(Slice(name, second, len(part)))
    write_index(folder, "text", slices)
    return sum(s.rows for s in slices)


def _whole_seconds(lines: Iterable[str], before: list[str], least_rows: int) -> Iterator[tuple[int, list[str]]]:
    if before:
        yield -1, before
    part: list[str] = []
    second = 0
    for line in lines:
        if not line.strip():
            continue
        word = line.split(",", 2)[1:2]
        now = int(word[0]) if word and word[0].isascii() and word[0].isdigit() and len(word[0]) <= 9 else second
        if now > second:
            if len(part) >= least_rows:
                yield second, part
                part = []
            second = now
        part.append(line)
    if part:
        yield second, part


def _history_line(entry: str) -> str:
    vid, day, xway, toll = entry.strip().split(",")
    return f"9,0,{vid},-1,{xway},-1,-1,-1,-1,{toll},-1,-1,-1,-1,{day}"


@dataclass(eq=False)
class Feed:
    """A source over a feed. ``speed`` 1 is the pace of the road, 10 ten times that, None as fast as epochs take it."""

    folder: Path
    speed: float | None = None
    kind: str = field(default="linear-road-feed", init=False)
    format: Format = field(init=False)
    slices: list[Slice] = field(init=False, repr=False)
    began_ms: int | None = field(default=None, init=False)  # when second 0 of the feed would have been
    _spark: SparkSession = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder).absolute()
        if self.speed is not None and not self.speed > 0:
            raise SettingsError(f"linear road: expected a speed above 0, got {self.speed!r}")
        try:
            index = json.loads((self.folder / INDEX).read_text())
        except FileNotFoundError:
            raise SettingsError(
                f"{self.folder}: no feed is there ({INDEX} is missing); make one with: perseid linear-road generate"
            ) from None
        self.format = index["format"]
        self.slices = [Slice(*entry) for entry in index["slices"]]

    def open(self, spark: SparkSession, folder: str, store: Store) -> None:
        self._spark, self.began_ms = spark, None

    def end(self, start: Offset, max_rows: int | None, now_ms: int) -> Offset:
        end, rows = int(start), 0
        if self.speed is not None and self.began_ms is None and end < len(self.slices):
            self.began_ms = now_ms - int(max(0, self.slices[end].second) * 1000 / self.speed)
        while end < len(self.slices):
            one = self.slices[end]
            late = self.speed is None or now_ms >= (self.began_ms or 0) + (one.second + 1) * 1000 / self.speed
            if (one.second >= 0 and not late) or (end > start and max_rows is not None and rows + one.rows > max_rows):
                break
            end, rows = end + 1, rows + one.rows
        return Offset(end)

    def read(self, start: Offset, end: Offset) -> DataFrame:
        files = [self.folder / one.file for one in self.slices[start:end]]
        parts = [FileSlice(f"file://{file}", file.stat().st_size) for file in files]
        schema = StructType.fromDDL(DDL if self.format == "parquet" else "line string")
        assert isinstance(schema, StructType)
        reader = self._spark.read.format(self.format).schema(schema)
        return ordered_scan(self._spark, parts, reader.load, schema, parquet=self.format == "parquet")

    def rows(self, start: Offset, end: Offset) -> int | None:
        return sum(one.rows for one in self.slices[start:end])

    def finished(self, start: Offset) -> bool:
        return start >= len(self.slices)

    def trim(self, start: Offset) -> None:
        pass

    def close(self) -> None:
        pass


def feed_of(path: Path, folder: Path, *, history: Path | None = None, least_rows: int = 2_000) -> Path:
    """The feed that ``path`` is, or one made in ``folder`` from the file of lines it is (see ``cut``).

    At the pace of the road a slice must not wait for more than its second: ``least_rows=1``.
    """
    if (path / INDEX).exists():
        return path
    if path.is_dir():
        inputs = [file for name in ("input.dat", "input.dat.gz", "input.csv") if (file := path / name).exists()]
        history = history or next(iter(path.glob("tollhistory*.csv")), None)
        if not inputs:
            raise SettingsError(f"{path}: expected a feed ({INDEX}), or a folder with input.dat(.gz); found neither")
        path = inputs[0]
    if not path.exists():
        raise SettingsError(f"{path}: no such file; make traffic with: perseid linear-road generate {path}")
    if not (folder / INDEX).exists():
        cut(text_lines(path), folder, history=text_lines(history) if history else (), least_rows=least_rows)
    return folder
