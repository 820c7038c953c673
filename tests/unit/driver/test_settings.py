"""Settings of a run: sensible without any, and refused when they cannot work."""

from __future__ import annotations

import pytest

from perseid.checkpoint.policy import Reason
from perseid.checkpoint.schemes import adaptive, baseline, oracle, parallel, source
from perseid.driver.settings import Settings
from perseid.duration import every
from perseid.errors import SettingsError


def test_the_default_scheme_is_adaptive() -> None:
    scheme = Settings().checked().checkpoint
    assert scheme.name == "adaptive" and scheme.period == every(seconds=10)
    assert not scheme.synchronous and not scheme.individual


@pytest.mark.parametrize("make", [adaptive, parallel, source, baseline, lambda period: oracle([(1, 1)], period)])
def test_a_period_shorter_than_an_epoch_is_refused(make: object) -> None:
    scheme = make(every(seconds=1))  # type: ignore[operator]
    with pytest.raises(SettingsError, match="a period of 1 s is shorter than an epoch, which takes 5 s"):
        Settings(checkpoint=scheme, trigger=every(seconds=5)).checked()
    assert Settings(checkpoint=scheme, trigger=every(seconds=1)).checked().checkpoint is scheme


def test_baseline_is_synchronous_and_alone_every_two_hundred_seconds() -> None:
    scheme = baseline()
    assert scheme.period == every(seconds=200) and scheme.synchronous and scheme.individual


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "4"])
def test_profile_periods_are_a_whole_number(wrong: object) -> None:
    with pytest.raises(SettingsError, match="profile_periods"):
        adaptive(profile_periods=wrong)  # type: ignore[arg-type]


def test_every_reason_is_told_in_words() -> None:
    from perseid.cli.journal_text import _REASONS

    assert set(_REASONS) == {str(reason) for reason in Reason}
