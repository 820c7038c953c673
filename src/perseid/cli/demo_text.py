"""The demo's text and its independent count: plain Python and pyarrow, no code shared with the rest of Perseid.

Every output row says ``(word, added, n)``: how often the word came in one epoch, and how often in all. So the rows of a
word, sorted by ``n``, must form a chain from 0 to the true count, each link starting where the one before ended. A lost
row leaves a gap, a doubled one an overlap, and neither can hide the other.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WORDS = 5_000
WORDS_PER_LINE = 8
LINES_PER_FILE = 500
FILE_EVERY_S = 0.5


class Writer(threading.Thread):
    """Writes a text file into ``folder`` several times a second, and counts the words it wrote."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(name="demo writer", daemon=True)
        self.counts: Counter[str] = Counter()
        self.lines = 0
        self._folder = folder
        self._random = random.Random(seed)
        self._end = threading.Event()

    def run(self) -> None:
        words = vocabulary(self._random)
        heights = [1 / (rank + 10) for rank in range(len(words))]  # some words are common, most are rare
        number = 0
        while not self._end.wait(FILE_EVERY_S):
            number += 1
            text = self._random.choices(words, heights, k=LINES_PER_FILE * WORDS_PER_LINE)
            lines = [" ".join(text[i : i + WORDS_PER_LINE]) for i in range(0, len(text), WORDS_PER_LINE)]
            hidden = self._folder / f".{number:06d}.tmp"
            hidden.write_text("\n".join(lines) + "\n")
            hidden.rename(self._folder / f"{number:06d}.txt")
            self.counts.update(text)
            self.lines += len(lines)

    def finish(self) -> None:
        """Write no more; the counts are final when this returns."""
        self._end.set()
        self.join()


def vocabulary(source: random.Random) -> list[str]:
    """Pronounceable words, all different."""
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllables = source.randint(1, 4)
        words["".join(source.choice("bdfgklmnprstvz") + source.choice("aeiou") for _ in range(syllables))] = None
    return list(words)


@dataclass(frozen=True)
class Verdict:
    """What the output says against the independent count."""

    rows_in: int
    rows_out: int
    lost: int
    doubled: int
    wrong_words: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return self.lost == 0 and self.doubled == 0 and not self.wrong_words


def verdict(expected: Counter[str], out: pa.Table) -> Verdict:
    """Follow the chain of every word; count what is missing from it and what is there more than once."""
    links: dict[str, list[tuple[int, int]]] = {}
    for word, added, total in zip(*(out[name].to_pylist() for name in ("word", "added", "n")), strict=True):
        links.setdefault(word, []).append((total - added, total))
    lost = doubled = 0
    wrong = []
    for word in expected.keys() | links.keys():
        reached, gap, overlap = 0, 0, 0
        for start, end in sorted(links.get(word, [])):
            gap += max(0, start - reached)
            overlap += max(0, min(reached, end) - start)
            reached = max(reached, end)
        gap += max(0, expected[word] - reached)
        overlap += max(0, reached - expected[word])
        if gap or overlap:
            wrong.append(word)
        lost += gap
        doubled += overlap
    return Verdict(sum(expected.values()), out.num_rows, lost, doubled, sorted(wrong))


class Output:
    """The parquet files of the output folder, each read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._added: dict[Path, int] = {}

    def files(self) -> list[Path]:
        """All committed files: what is being written has a name that starts with a dot or an underscore."""
        return sorted(file for file in self._folder.rglob("*.parquet") if self._visible(file))

    def _visible(self, file: Path) -> bool:
        return not any(part.startswith((".", "_")) for part in file.relative_to(self._folder).parts)

    def words_counted(self) -> int:
        """The sum of all increments so far."""
        for file in self.files():
            if file not in self._added:
                try:
                    table = pq.ParquetFile(file).read(columns=["added"])
                except (OSError, pa.ArrowInvalid):
                    continue  # replaced while we looked
                self._added[file] = sum(table["added"].to_pylist())
        return sum(self._added.values())

    def table(self) -> pa.Table:
        """Every row of the output, read afresh."""
        tables = [pq.ParquetFile(file).read(columns=["word", "added", "n"]) for file in self.files()]
        empty = pa.table(
            {"word": pa.array([], pa.string()), "added": pa.array([], pa.int64()), "n": pa.array([], pa.int64())}
        )
        return pa.concat_tables([empty, *tables])
