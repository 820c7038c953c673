"""Whoever gives a copy no machine of its own is told, except where there is one machine by design."""

from typing import Literal

import pytest

from perseid.driver.same_fate import advice_on_place
from perseid.engine import notices
from perseid.vocabulary import HostId


def deploying(fate: Literal["machine", "executor"] | None) -> notices.CopyDeploying:
    return notices.CopyDeploying(HostId(1), HostId(2), fate)


@pytest.mark.parametrize("fate", ["machine", "executor"])
def test_a_copy_on_the_machine_of_its_primary_is_told_on_a_cluster(fate: Literal["machine", "executor"]) -> None:
    said = advice_on_place(deploying(fate), "spark://head:7077")
    assert said is not None and f"another {fate}" in said


def test_one_machine_by_design_is_not_worth_a_word() -> None:
    assert advice_on_place(deploying("machine"), "local[4]") is None
    assert advice_on_place(deploying("machine"), "local-cluster[2,3,1024]") is None


def test_a_copy_elsewhere_is_as_it_should_be() -> None:
    assert advice_on_place(deploying(None), "spark://head:7077") is None
