"""Lines of JSON and CSV files that do not fit their schema: put aside, refused, or read as nulls.

Spark says in a column of its own which line it could not read. While a slice is not known to have such lines, reading one fails the Spark
job: that costs nothing where all lines are good. The worker of the unit then has the slice's bad lines put aside, and reads it again
without them. Which files have bad lines is durable before the epoch is done, so a replay leaves out the same lines, and each of them is in
the dead letters once: one file of dead letters for each file of input, written whole.

    dead-letters/<source>/file=<number>.jsonl     {"file": …, "block": …, "row": …, "line": …}
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from perseid.sources.ordered_scan import GROUP_FILES, FileSlice
from perseid.sources.record_log import RecordLog
from perseid.storage import layout
from perseid.storage.store import Store
from perseid.vocabulary import Offset

Malformed = Literal["aside", "fail", "null"]
Load = Callable[[list[str]], DataFrame]

COLUMN = "__perseid_malformed"
MARKER = "PERSEID-MALFORMED"
SHOWN = 200
"""Characters of a line that a message shows."""

_COLLECTED = 50_000
_FOUND = re.compile(MARKER + r"(\{.*?\})" + MARKER, re.DOTALL)
_NEVER = "\u0000"  # what no row looks like as text

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Aside:
    """What was put aside of a slice."""

    lines: int
    files: tuple[str, ...]
    first: str  # the first such line, or its beginning


def malformed_line(error: str) -> dict[str, str] | None:
    """The source, file and line in the message of a job that met one; None for other failures."""
    found = _FOUND.search(error)
    try:
        return dict(json.loads(found[1])) if found else None
    except ValueError:
        return {"source": "", "file": "?", "line": found[1][:SHOWN] if found else ""}


def with_column(schema: StructType) -> StructType:
    """The schema Spark reads by, with room for a line it cannot read."""
    return StructType([*schema.fields, StructField(COLUMN, StringType())])


@dataclass(slots=True)
class MalformedLines:
    """The bad lines of one source, and how each of its files is read."""

    mode: Malformed
    columns: Sequence[str]
    store: Store
    name: str  # of the source, as a folder
    _modes: RecordLog = field(init=False)
    _log: RecordLog = field(init=False)
    _lines: dict[int, int] = field(default_factory=dict, init=False)  # by file that has any
    _look_first: bool = field(default=False, init=False)
    _told: bool = field(default=False, init=False)

    @classmethod
    def open(cls, mode: Malformed, schema: StructType, store: Store, folder: str) -> MalformedLines:
        made = cls(mode, schema.fieldNames(), store, folder.rpartition("/")[2])
        made._modes = RecordLog.open(store, f"{folder}/malformed-modes")
        made._log = RecordLog.open(store, f"{folder}/malformed")
        made._lines = {record["file"]: record["lines"] for record in made._log.records}
        return made

    @property
    def total(self) -> int:
        """Lines put aside since the root was new."""
        return sum(self._lines.values())

    def begin(self, start: Offset) -> None:
        """Slices from here on are read in the mode of this start; those before are read as they were, whenever they are read again."""
        last = self._modes.records[-1]["mode"] if len(self._modes) else None
        if last != self.mode:
            self._modes.append([{"from": int(start), "mode": self.mode}])

    def mode_of(self, start: Offset) -> Malformed:
        """How a slice is read. Where it failed before, nothing came of it, so it is read as is wanted now."""
        found: Malformed = self.mode if not len(self._modes) else "null"
        for record in self._modes.records:
            if record["from"] <= start:
                found = record["mode"]
        return self.mode if found == "fail" else found

    def loader(self, load: Load, start: Offset, end: Offset) -> Load:
        """``load``, which reads with the column, without the bad lines of a slice; if it is not known to have any, one fails the job."""
        known = any(number in self._lines for number in range(start, end))
        return lambda paths: self._only_good(load(paths), known)

    def looks_first(self, start: Offset, end: Offset) -> bool:
        """Is it likely that the slice has bad lines? The one before had. Then failing first is a waste."""
        return self._look_first and not any(number in self._lines for number in range(start, end))

    def set_aside(self, load: Load, start: Offset, files: Sequence[FileSlice]) -> Aside | None:
        """Write the bad lines of a slice to the dead letters; None if it has none that are not there."""
        found: dict[int, int] = {}
        first: str | None = None
        for at in range(0, len(files), GROUP_FILES):
            group = {int(start) + at + i: file for i, file in enumerate(files[at : at + GROUP_FILES])}
            for number, rows in self._bad_lines(load, group):
                lines = [_letter(row, group[number]) for row in rows]
                first = first if first is not None else str(json.loads(lines[0])["line"])[:SHOWN]
                path = f"{layout.DEAD_LETTERS}/{self.name}/file={number:08d}.jsonl"
                self.store.write(path, [(line + "\n").encode() for line in lines])
                found[number] = len(lines)
        self._look_first = bool(found)
        news = {number: lines for number, lines in found.items() if number not in self._lines}
        self._log.append({"file": number, "lines": lines} for number, lines in news.items())
        self._lines |= news
        if not news:
            return None
        aside = Aside(sum(news.values()), tuple(files[n - start].path for n in news), first or "")
        if not self._told:
            self._told = True
            logger.warning(
                "source %s: %d lines of %s do not fit the schema and were put aside in %s (malformed=%r; further ones are only"
                ' counted); "fail" stops there, "null" reads them as nulls. The first: %s',
                self.name, aside.lines, aside.files[0], self.store.uri(f"{layout.DEAD_LETTERS}/{self.name}"), self.mode,
                aside.first,
            )  # fmt: skip
        return aside

    def _bad_lines(self, load: Load, group: dict[int, FileSlice]) -> Iterator[tuple[int, Iterable[Row]]]:
        frames = {number: self._marked(load([file.escaped]), number) for number, file in group.items()}
        counts = _union(list(frames.values())).groupBy("number").count().collect()
        if not counts:
            return
        bad = _union([frames[row["number"]] for row in sorted(counts)])
        if sum(row["count"] for row in counts) <= _COLLECTED:
            rows = iter(sorted(bad.collect(), key=lambda row: (row["number"], row["block"], row["row"])))
        else:
            rows = bad.toLocalIterator()
        yield from groupby(rows, key=lambda row: int(row["number"]))

    def _marked(self, df: DataFrame, number: int) -> DataFrame:
        block = df.metadataColumn("_metadata")["file_block_start"]
        row = F.monotonically_increasing_id().bitwiseAND(F.lit((1 << 33) - 1).cast("long"))
        own = [F.lit(number).alias("number"), block.alias("block"), (row + 1).alias("row"), F.col(COLUMN).alias("line")]
        bad = F.when(F.col(COLUMN).isNull(), F.lit(False)).otherwise(self._as_text() != F.lit(_NEVER))
        return df.select(*own, bad.alias("bad")).where("bad").drop("bad")

    def _only_good(self, df: DataFrame, known: bool) -> DataFrame:
        line = F.col(COLUMN)
        if known:
            otherwise = self._as_text() == F.lit(_NEVER)
        else:
            path = df.metadataColumn("_metadata")["file_path"]
            what = F.struct(
                F.lit(self.name).alias("source"), path.alias("file"), F.left(line, F.lit(SHOWN)).alias("line")
            )
            shown = F.concat(
                F.lit(MARKER), F.to_json(what), F.lit(f"{MARKER} read as "), F.left(self._as_text(), F.lit(SHOWN))
            )
            otherwise = F.raise_error(shown).cast("boolean")
        good = F.when(line.isNull(), F.lit(True)).otherwise(otherwise)
        # Not deterministic for Spark, so that it does not put the application's own conditions before it.
        return df.where((F.monotonically_increasing_id() >= 0) & good).drop(COLUMN)

    def _as_text(self) -> Column:
        """All columns, so that Spark reads all of them: whether a line is good must not depend on which columns are wanted."""
        return F.struct(*(F.col(f"`{name}`") for name in self.columns)).cast("string")


def _letter(row: Row, file: FileSlice) -> str:
    said: dict[str, Any] = {"file": file.path, "block": row["block"], "row": row["row"], "line": row["line"]}
    return json.dumps(said, ensure_ascii=False)


def _union(parts: list[DataFrame]) -> DataFrame:
    df = parts[0]
    for part in parts[1:]:
        df = df.unionAll(part)
    return df
