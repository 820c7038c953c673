"""Second copies in simulated worlds: hosts of every kind are killed, stopped and cut off at every step, standby comes and goes."""

from __future__ import annotations

import pytest

from perseid.simulation.runs import simulate_seeds
from perseid.simulation.scenario import Options
from perseid.standby.modes import Mode

MODES: list[Mode | None] = [
    "hybrid",
    "active",
    "passive",
    None,
]  # None: drawn for every operator, and changed while it runs


def survives(mode: Mode | None, seeds: range) -> None:
    for outcome in simulate_seeds(seeds, Options(epochs=60, standby=mode)):
        chosen = f" --standby {mode}" if mode else ""
        assert outcome.broken is None, (
            f"{outcome.broken}: perseid simulate --seeds 1 --first {outcome.seed} --epochs 60{chosen}"
        )


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_standby_survives_its_seeds(mode: Mode | None, first_seed: int) -> None:
    survives(mode, range(first_seed, first_seed + 10))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(4))
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_every_standby_survives_a_thousand_seeds(mode: Mode | None, batch: int, first_seed: int) -> None:
    first = first_seed + 90_000 + 250 * batch
    survives(mode, range(first, first + 250))
