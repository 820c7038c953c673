"""Numbers in Prometheus' text format (0.0.4), which OpenMetrics readers take, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Family:
    """One metric with its samples."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, labels: Mapping[str, object]) -> None:
        """A number that is not known has no sample."""
        if value is not None and value == value:
            self.samples.append(({name: str(said) for name, said in labels.items()}, float(value)))


def text(families: Iterable[Family]) -> str:
    """All of them, as ``/metrics`` gives them. Those without a sample are left out."""
    lines: list[str] = []
    for family in families:
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += [f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "\n".join(lines) + "\n" if lines else ""


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
