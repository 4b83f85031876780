"""The planner on measured networks, where their data is beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from isthmus.advise.order.simulation import simulate_option
from isthmus.advise.order.total import advise
from isthmus.scenario.workload import Poisson
from isthmus.topology.inputs.round_trips import load_measured

DATA = Path(__file__).parents[3] / "shared" / "data"
NETWORKS = ("cloud/aws_2020_06.csv", "cloud/gcp_2019_09.csv", "planetlab/subsetA_40_median_ms.csv")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_measured_network_is_planned_for_and_takes_what_is_predicted(name: str) -> None:
    """Detours are faster than the direct way between some of these places; every fourth site sends a lot."""
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is not there")
    topology = load_measured(DATA / name, sites=1)[0]
    busy = tuple(site.name for site in topology.sites[::4])
    advice = advise(topology, (Poisson(rate_per_s=2), Poisson(rate_per_s=50, sites=busy)))
    assert advice.recommended.mean_ms == min(option.mean_ms for option in advice.options)
    measured = simulate_option(advice, advice.recommended, (1,), 6_000)
    assert measured.undelivered == 0
    assert measured.mean_ms == pytest.approx(advice.recommended.mean_ms, rel=0.05)
