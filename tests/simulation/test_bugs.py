"""Deliberate bugs in the engine are found, each within a thousand seeds, and by the checker that is there for it."""

from __future__ import annotations

import pytest
from bugs import BUGS

from perseid.simulation.runs import first_broken
from perseid.simulation.scenario import Options
from perseid.simulation.world import Engine

OPTIONS = Options(hosts=3, epochs=60, settings={"shards": 24, "spares": 1})

FOUND_BY = {
    "trims one epoch too early": "trimming",
    "trims by the newest checkpoint": "trimming",
    "applies an epoch twice": "sinks",
    "commits a manifest before its snapshots": "restores",
    "commits a manifest before its epochs": "commits",
    "forgets event times where a checkpoint is faster": "commits",
    "restores mixed versions": "restores",
    "loses epochs in flight": "restores",
    "forgets to fence a host that wakes up": "hosts",
    "switches before new shards have caught up": "scaling",
    "gives two attempts to scale one version": "restores",
    "believes every task": "sinks",
}


HARD_TO_FIND = ("commits a manifest before its epochs", "gives two attempts to scale one version")
"""Hundreds of seeds, or large ones."""


@pytest.mark.parametrize("bug", [pytest.param(b, marks=pytest.mark.slow) if b in HARD_TO_FIND else b for b in BUGS])
def test_a_deliberate_bug_is_found_within_a_thousand_seeds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BUGS[bug]
    if not isinstance(broken, Engine):
        broken(monkeypatch)
    found = first_broken(range(1000), OPTIONS, broken if isinstance(broken, Engine) else None)
    assert found is not None, f"an engine that {bug} was not found out"
    print(f"an engine that {bug} is found out by seed {found.seed} after {found.at_ms} ms: {found.broken}")
    assert found.broken is not None and found.broken.startswith(FOUND_BY[bug]), found.broken
    assert found.story, "there is a story to tell"
