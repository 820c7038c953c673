"""The failure table as a model, and what a site's year comes to."""

from __future__ import annotations

import random

import pytest

from perseid.errors import SettingsError
from perseid.simulation import datacenter
from perseid.simulation.faults import Kill
from perseid.simulation.year import simulate_year


def test_the_model_has_the_failures_of_the_table() -> None:
    found = datacenter.afn100()
    assert 300 < found["network"] < 330
    assert 100 <= found["environment"] <= 150
    assert found["ooops"] == pytest.approx(100)
    assert 1.7 <= found["disk"] <= 8.6
    assert found["memory"] == pytest.approx(1.3, abs=0.05)


def test_a_drawn_year_has_about_as_many_node_failures_as_the_table_says() -> None:
    place = datacenter.site(2400)
    plan, counts = datacenter.year(random.Random(1), place, 365)
    hit = sum(len(place.hit(planned.fault.target)) for planned in plan.faults)  # type: ignore[union-attr,misc]
    assert hit / 24 == pytest.approx(sum(datacenter.afn100().values()), rel=0.25)
    assert counts["software or people"] == pytest.approx(2400, rel=0.1)
    bursts = [p for p in plan.faults if isinstance(p.fault, Kill) and p.fault.target.kind == "power"]
    assert all(len(place.hit(p.fault.target)) == 400 for p in bursts)  # type: ignore[union-attr]


@pytest.mark.parametrize("scheme", ["source", "parallel"])
def test_a_month_of_a_small_site_is_survived(scheme: str) -> None:
    month = simulate_year(scheme, hosts=60, days=30, seed=2)
    assert month.recoveries > 0 and 0.9 < month.availability < 1.0
    assert month.rows == pytest.approx(30 * 86_400 * 100_000, rel=0.01), "every row that came was processed"
    assert month.replayed_rows < month.rows / 100
    assert (month.stopped_share > 0) == (scheme == "source"), "only a synchronous scheme stands still for snapshots"


def test_a_site_of_no_hosts_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 4 hosts"):
        simulate_year("parallel", hosts=1)
