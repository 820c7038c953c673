"""A type checker finds mistakes in a user's program, and nothing wrong in a good one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).parents[3]

GOOD = """
import pyarrow as pa
import perseid
from perseid import App, KeyedOperator, Operator, PerseidError, Progress, Running, Scaled, TakenCheckpoint, every, state
from perseid.checkpoints import comparison


class Count(Operator):
    n: dict[str, int] = state(default_factory=dict)

    def process(self, rows: pa.Table) -> pa.Table:
        return rows


def build() -> App:
    app = App("words")
    lines = app.source("lines", perseid.sources.files("in/", schema="line string", format="text"))
    counts = lines.stateful("count", Count(), key="line", output="line string")
    counts.sink("out", perseid.sinks.parquet("out/"))
    return app


def watch(running: Running) -> tuple[Progress, Scaled, TakenCheckpoint]:
    return running.progress(), running.scale("count", shards=2), running.checkpoint_state()


try:
    watch(build().start(hosts=2, checkpoint=perseid.checkpoints.adaptive(every(seconds=5)), journal_size="1 GB"))
    build().run(perseid.spark_session(), root="root", scaling=perseid.scaling.auto(most=8), max_rows_per_epoch=None)
    build().run(checkpoint=comparison.baseline(), clock=perseid.testing.Clock())
except PerseidError as error:
    print(error)
"""

BAD = """
import perseid
from perseid import App, every

app = App("words")
app.run(hots=3)  # did you mean "hosts"?
app.start(queues=3)  # did you mean "queue"?
app.run(hosts="3")  # incompatible type "str"
app.run(trigger=1)  # incompatible type "int"; expected "Duration | None"
app.run(checkpoint=every(seconds=3))  # incompatible type "Duration"; expected "Scheme"
app.run(checkpoint=perseid.parallel())  # has no attribute "parallel"
app.run(checkpoint=perseid.checkpoints.paralel())  # has no attribute "paralel"
app.start().progress().epok  # has no attribute "epok"
app.source("lines", perseid.sinks.noop())  # incompatible type "NoopSink"; expected "Source"
"""


def checked(file: Path, text: str) -> list[tuple[int, str]]:
    """What mypy has to say: line and message."""
    file.write_text(text)
    cache = TOP / ".mypy_cache" / "users"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), file.name]
    done = subprocess.run(command, cwd=file.parent, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return [(int(line), said) for line, said in re.findall(r":(\d+): error: (.*)", done.stdout)]


def test_a_good_program_has_no_mistakes(tmp_path: Path) -> None:
    mistakes = checked(tmp_path / "good.py", GOOD)
    assert [said for _, said in mistakes if "pyarrow" not in said] == [], "pyarrow itself has no types"


def test_a_source_and_a_sink_of_ones_own_have_the_types_they_need(tmp_path: Path) -> None:
    example = (TOP / "examples" / "own_source_and_sink.py").read_text()
    mistakes = checked(tmp_path / "own.py", example)
    assert [said for _, said in mistakes if "pyarrow" not in said] == []


def test_every_mistake_is_found(tmp_path: Path) -> None:
    expected = [
        (number, line.partition("  # ")[2]) for number, line in enumerate(BAD.splitlines(), 1) if "  # " in line
    ]
    found = checked(tmp_path / "bad.py", BAD)
    assert [line for line, _ in found] == [line for line, _ in expected], found
    for (_, said), (_, words) in zip(found, expected, strict=True):
        assert words in said
