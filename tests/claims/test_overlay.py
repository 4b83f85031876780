"""The figures of the overlay study by plain simulation: mean delays, sends per broadcast, order, crashes."""

from __future__ import annotations

from statistics import fmean

import pytest

from isthmus.sim.simulate import make_run
from isthmus.studies.overlay.claims import FIGURES, TOLERANCE
from isthmus.studies.overlay.setup import CONNECTIVITY, CRASH_NODES, MESSAGES, Protocol, overlay_scenario
from isthmus.topology.overlay.links import hypercube
from isthmus.topology.overlay.measures import connectivity, flooding_sends, link_count

pytest.importorskip("numba")
LARGE = [pytest.param(nodes, data, marks=pytest.mark.full if nodes > 100 else ()) for nodes, data in FIGURES]


@pytest.mark.parametrize("protocol", ["flooding", "vector"])
@pytest.mark.parametrize(("nodes", "data"), LARGE)
def test_the_mean_delay_is_that_of_the_model(nodes: int, data: int, protocol: Protocol) -> None:
    """Section 5.2, figures 3 to 5."""
    expected = FIGURES[nodes, data][protocol == "vector"]
    found = []
    for seed in (1, 2, 3):
        run = make_run(overlay_scenario(protocol, nodes, data, seed))
        assert run.execute().undelivered_count() == 0
        figures = run.figures()
        assert figures["violations"] == 0
        if protocol == "flooding":
            assert figures["sends"] == MESSAGES * flooding_sends(nodes, link_count(hypercube(nodes)))
            assert figures["queue_max"] == 0
        found.append(figures["delay_mean_ms"])
    assert fmean(found) == pytest.approx(expected, rel=TOLERANCE)


def test_the_connectivity_that_the_crashes_rest_on() -> None:
    assert connectivity(hypercube(CRASH_NODES)) == CONNECTIVITY
