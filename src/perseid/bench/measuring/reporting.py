"""The frame of a benchmark that is made of parts: says what is being measured, goes on when a part fails, judges, writes it all down."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from perseid.bench.measuring import verdicts
from perseid.bench.measuring.contestant import SideFailed
from perseid.bench.measuring.machine import machine
from perseid.bench.measuring.results import Results
from perseid.errors import PerseidError

Part = Callable[[], None]


class Bench:
    """One run of a benchmark."""

    def __init__(self, quick: bool) -> None:
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console.width = max(self._console.width, 120)
        self._began = time.monotonic()
        self._about = {"quick": quick, **machine()}
        self.results = Results(self._tell)

    def _tell(self, line: str) -> None:
        self._console.print(f"  [dim]{time.monotonic() - self._began:5.0f} s[/dim]  {line}")

    @contextmanager
    def measuring(self, parts: int) -> Iterator[tuple[Path, Callable[[str, Part], None]]]:
        """A folder to work in, and what runs a part by its name under a bar that says so."""
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with (
            tempfile.TemporaryDirectory(prefix="perseid-bench-", ignore_cleanup_errors=True) as folder,
            Progress(*columns, console=self._console, transient=True) as progress,
        ):
            task = progress.add_task("", total=parts + 1)

            def part(name: str, measure: Part) -> None:
                progress.update(task, description=name, advance=1)
                try:
                    measure()
                except (SideFailed, AssertionError) as error:
                    self.results.failures[name] = str(error) or type(error).__name__
                    self.results.tell(f"[red]{name}: not measured[/red]")

            yield Path(folder), part

    def report(
        self,
        goals: tuple[verdicts.Goal, ...],
        json_path: Path | None,
        plot_path: Path | None,
        draw: Callable[[Results, str, Path], None],
        told: Callable[[Mapping[str, float]], Table] | None = None,
    ) -> None:
        """Show what was found, and write it down. Raises if a part could not be measured."""
        results, about = self.results, self._about
        about |= {
            "seconds": round(time.monotonic() - self._began),
            "load_after": round(os.getloadavg()[0], 2),
        }
        found = verdicts.judge(results.numbers, goals)
        if told is not None:
            self._console.print(told(results.numbers))
        self._console.print(verdicts.table(found))
        self._console.print(f"[dim]{title(about)}[/dim]")
        if json_path is not None:
            reached = {v.goal.what: v.reached for v in found}
            extra = {"reached": reached, "samples": results.samples, "failures": results.failures}
            json_path.write_text(json.dumps({**results.numbers, **about, **extra}, indent=2) + "\n")
        plot_path = plot_path or (json_path.with_suffix(".png") if json_path is not None else None)
        if plot_path is not None:
            draw(results, title(about), plot_path)
            self._console.print(f"[dim]figure: {plot_path}[/dim]")
        if results.failures:
            raise PerseidError(
                "these parts could not be measured:\n" + "\n".join(f"{p}: {e}" for p, e in results.failures.items())
            )


def title(about: dict[str, object]) -> str:
    """Where the numbers come from, in a line."""
    kind = "quick run, few repetitions" if about["quick"] else "full run"
    return (
        f"perseid {about['perseid']}, Spark {about['pyspark']}, {about['cores']} cores ({about['cpu']}), "
        f"{str(about['date'])[:10]}, {kind}, load before it {about['load_before']}"
    )
