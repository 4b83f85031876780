"""Members take over the state of a group while views change, givers crash and pieces go wrong; wrong readings show."""

from __future__ import annotations

import pytest
from tests.harness.state_runs import GIVER, JOINER, STORIES, again, failures, transfer_ms
from tests.planted.transfer import PLANTED_TRANSFER

from isthmus.core.message import ONLY_GROUP, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.scenario.model import Agreed, Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.membership.agreed import AgreedMembership
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import Row

LEAVE = {"a snapshot fails": (GIVER,), "a snapshot never ends": (GIVER,), "all restores fail": (JOINER,)}


@pytest.mark.parametrize("story", STORIES)
def test_a_state_arrives_or_its_site_leaves(story: str) -> None:
    assert failures(STORIES[story], gone=LEAVE.get(story, ())) == []


@pytest.mark.parametrize("name", PLANTED_TRANSFER)
def test_wrong_readings_are_found(name: str) -> None:
    story, patches = PLANTED_TRANSFER[name]
    found = failures(STORIES[story], patches)
    assert found, name
    print(f"{name}: {found[0]}")


@pytest.mark.parametrize(("loss", "most_ms"), [(0.0, 1_000), (0.01, 1_300)])
def test_a_transfer_takes_little_longer_than_its_bytes(loss: float, most_ms: float) -> None:
    """1 MB at 10 Mbit/s with round trips of 40 ms, after the layers' state: 0.86 s for the bytes alone."""
    assert 860 < transfer_ms(1_000_000, mbps=10.0, one_way_ms=20.0, loss=loss, seed=1) < most_ms


@pytest.mark.parametrize(("stack", "seed"), [("fifo", 0), ("optimistic", 2), ("token-site", 0)])
@pytest.mark.parametrize("crashed", [(), (0, 1)])
def test_all_go_on_with_the_state_of_one_where_all_lives_end(stack: str, seed: int, crashed: tuple[int, ...]) -> None:
    """Each member of the restart view went on with what its own program had been given, and they differed for good."""
    scenario = Scenario(
        topology=mesh(1, 5, Channel(Constant(10)), Channel(Constant(10))),
        stack=StackSpec(name=stack),
        seed=seed,
        workloads=(Poisson(rate_per_s=100, payload_bytes=20),),
        membership=Membership(kind="agreed", agreed=Agreed(file=True)),
        faults=tuple(fault for site in crashed for fault in again(f"c0-{site}", 1_500 + site, 200)),
        duration_ms=3_000,
        drain_ms=20_000,
    )
    rows: list[Row] = []
    run = WatchedRun(scenario, rows)

    def end_life(site: SiteId) -> None:
        membership = run.services[0]
        assert isinstance(membership, AgreedMembership)
        run.sites[site].ports[ONLY_GROUP].run(lambda: membership.layers[site].end_life(None, keep_seat=True))

    ending = [site for site in run.site_ids if site not in crashed]
    for site in ending:
        run.scheduler.at(round((1_500 + 3 * site) * NS_PER_MS), lambda *_, site=site: end_life(site))
    assert judge_run(run, rows).violations() == []
    assert run.states is not None
    kept = [keeper.state for keeper in run.states.keepers.values()]
    assert all(state is not None and state.root == 1 for state in kept), "the state of the living processes is lost"
