"""Whatever fails: sinks hold what they hold when nothing fails, and none of the checkers has anything to say."""

from __future__ import annotations

import pytest

from perseid.simulation.runs import simulate_seeds
from perseid.simulation.scenario import Options

EPOCHS = 60


def survive(first: int, seeds: int, options: Options) -> None:
    for outcome in simulate_seeds(range(first, first + seeds), options):
        assert outcome.broken is None, (
            f"after {outcome.at_ms} ms: {outcome.broken}\n"
            f"repeat: perseid simulate --seeds 1 --first {outcome.seed} --epochs {options.epochs}"
            + (f" --hosts {options.hosts}" if options.hosts else "")
            + (f" --scheme {options.scheme}" if options.scheme else "")
        )


@pytest.mark.parametrize("batch", range(6))
def test_three_hundred_worlds_are_survived(batch: int, first_seed: int) -> None:
    survive(first_seed + 50 * batch, 50, Options(epochs=EPOCHS))


@pytest.mark.parametrize("scheme", ["source", "parallel"])
def test_twenty_hosts_and_two_hundred_epochs_are_survived(scheme: str, first_seed: int) -> None:
    survive(first_seed, 8, Options(hosts=20, epochs=200, scheme=scheme))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(40))
def test_ten_thousand_worlds_are_survived(batch: int, first_seed: int) -> None:
    survive(first_seed + 10_000 + 250 * batch, 250, Options(epochs=EPOCHS))
