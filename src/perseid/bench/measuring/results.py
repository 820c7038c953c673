"""What a run has found so far, and where it says so: single numbers by their JSON names, and the samples they are medians of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from perseid.bench.measuring.timings import middle


@dataclass(slots=True)
class Results:
    """Numbers, samples, and failures by part."""

    tell: Callable[[str], None]  # a line for whoever watches
    numbers: dict[str, float] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def sample(self, name: str, *values: float, unit: str) -> None:
        """Measured once more; its number is the median of all samples so far."""
        found = self.samples.setdefault(name, [])
        found += [round(value, 3) for value in values]
        self.numbers[name] = round(middle(found), 3)
        shown = middle(values)
        self.tell(f"{_words(name)}: {shown:,.0f} {unit}" if shown >= 100 else f"{_words(name)}: {shown:.2f} {unit}")

    def number(self, name: str, value: float, unit: str) -> None:
        """A number that is no median."""
        self.numbers[name] = round(value, 3)
        self.tell(f"{_words(name)}: {value:,.2f} {unit}")

    def series(self, name: str, values: Sequence[float]) -> None:
        """Something to draw."""
        self.samples[name] = [round(value, 3) for value in values]


def _words(name: str) -> str:
    """``longest_stall_ms`` → ``longest stall``: the unit is told with the number."""
    for unit in ("_rows_per_s", "_percent", "_ms", "_mb", "_s"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")
