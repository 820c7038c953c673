"""How much of what decides is run by simulated worlds: ``make simulate-coverage``. Fails below 90 % of lines."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import coverage

PACKAGES = ("engine", "checkpoint", "recovery", "scaling")
SEEDS, EPOCHS, LEAST_PERCENT = 300, 60, 90.0


def main(seeds: int) -> int:
    found_at = find_spec("perseid")
    assert found_at is not None and found_at.origin is not None
    root = Path(found_at.origin).parent
    measured = coverage.Coverage(data_file=None, config_file=False, source=[str(root / name) for name in PACKAGES])
    measured.start()
    from perseid.simulation.runs import simulate_seed
    from perseid.simulation.scenario import SCHEMES, UNCHECKPOINTED, Options

    schemes = [*SCHEMES, *UNCHECKPOINTED]
    broken = []
    for seed, scheme in zip(range(seeds), cycle(schemes)):
        outcome = simulate_seed(Options(epochs=EPOCHS, scheme=scheme), None, seed)
        broken += [f"seed {seed}, {scheme}: {outcome.broken}"] if outcome.broken else []
    measured.stop()
    found = []
    for name in sorted(str(path) for package in PACKAGES for path in (root / package).rglob("*.py")):
        _, lines, _, missing, _ = measured.analysis2(name)
        if lines:
            found.append((Path(name), len(lines), missing))
    for path, count, missing in sorted(found, key=lambda f: len(f[2]), reverse=True):
        share = 100 * (1 - len(missing) / count)
        print(f"{share:5.1f} %  {path.parent.name}/{path.name}  {_spans(missing)}")
    total, lacking = sum(f[1] for f in found), sum(len(f[2]) for f in found)
    share = 100 * (1 - lacking / total)
    print(f"{share:.1f} % of {total} lines in {', '.join(PACKAGES)}, by {seeds} seeds of {EPOCHS} epochs")
    print(*broken, sep="\n")
    return int(share < LEAST_PERCENT or bool(broken))


def _spans(lines: list[int]) -> str:
    """Lines that were not run, as ranges."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in spans)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS))
