"""What a run wrote, as the benchmark's four files of answers, and how two sets of answers differ (S7)."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from perseid.apps.linear_road.oracle import Answers, Oracle
from perseid.errors import SettingsError

KINDS: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "toll": (0, ("vid", "time", "lav", "value")),
    "accident": (1, ("time", "xway", "seg", "dir", "vid")),
    "balance": (2, ("time", "qid", "value")),
    "daily": (3, ("time", "qid", "value")),
}

Lines = Mapping[str, Counter[str]]


@dataclass(frozen=True)
class Difference:
    """How the answers of one kind differ from those expected."""

    kind: str
    expected: int
    came: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    @property
    def same(self) -> bool:
        return not self.missing and not self.unexpected

    def __str__(self) -> str:
        if self.same:
            return f"{self.kind}: {self.came:,} lines, all as expected"
        shown = "; ".join(
            f"{len(lines):,} {what}, such as {lines[0]}"
            for what, lines in (("missing", self.missing), ("not expected", self.unexpected))
            if lines
        )
        return f"{self.kind}: {self.came:,} lines, {self.expected:,} expected: {shown}"


def differences(came: Lines, expected: Lines) -> list[Difference]:
    """One for each kind of answer; lines that come twice count twice."""
    return [
        Difference(
            kind,
            expected[kind].total(),
            came[kind].total(),
            tuple(sorted((expected[kind] - came[kind]).elements())),
            tuple(sorted((came[kind] - expected[kind]).elements())),
        )
        for kind in KINDS
    ]


def of_table(table: pa.Table) -> Lines:
    """The answers in a table of the sink's columns."""
    found = {}
    for kind, (number, columns) in KINDS.items():
        rows = table.filter(pc.equal(table["type"], number))
        values = (rows[column].to_pylist() for column in columns)
        found[kind] = Counter(",".join(map(str, row)) for row in zip(*values, strict=True))
    return found


def of_output(folder: Path) -> Lines:
    """The answers that a run wrote to its sink."""
    files = sorted(folder.glob("epoch=*/*.parquet"))
    if not files:
        raise SettingsError(f"{folder}: expected the output of a run (folders epoch=…), found none; run it first")
    columns = sorted({"type", *(column for _, columns in KINDS.values() for column in columns)})
    return of_table(pa.concat_tables([pq.ParquetFile(file).read(columns=columns) for file in files]))


def of_expected(folder: Path) -> Lines:
    """The answers in ``expected_<kind>.csv`` or ``.csv.gz``."""
    found = {}
    for kind in KINDS:
        files = [file for name in ("csv", "csv.gz") if (file := folder / f"expected_{kind}.{name}").exists()]
        if not files:
            raise SettingsError(
                f"{folder}: no expected_{kind}.csv(.gz); give a folder with expected files, or use --oracle"
            )
        found[kind] = Counter(line for line in text_lines(files[0]) if line)
    return found


def of_oracle(input_lines: Iterable[str], history: Iterable[str] = ()) -> tuple[Lines, Answers]:
    """The answers that the oracle works out."""
    oracle = Oracle(history)
    for line in input_lines:
        oracle.line(line)
    answers = oracle.end()
    return of_answers(answers), answers


def of_answers(answers: Answers) -> Lines:
    """The oracle's answers."""
    return {kind: Counter(",".join(map(str, row)) for row in getattr(answers, kind)) for kind in KINDS}


def text_lines(file: Path) -> Iterator[str]:
    """The lines of a text file, zipped or not, without their ends."""
    with gzip.open(file, "rt", errors="replace") if file.suffix == ".gz" else file.open(errors="replace") as lines:
        for line in lines:
            yield line.rstrip("\r\n")
