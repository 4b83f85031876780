"""Routes that are recomputed when a router fails: nothing is lost, repeated or reordered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.harness.recomputed_runs import recomputed_faults, recomputed_scenario
from tests.harness.router_failover import judged
from tests.planted.recomputed import PLANTED

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.judgement import judge
from isthmus.protocols.routing.router import SteeringPort
from isthmus.protocols.routing.wire import Steered
from isthmus.scenario.load import scenario_from_tables
from isthmus.scenario.model import Scenario
from isthmus.sim.run import SimRun
from isthmus.trace.schema import KIND, NUMBER, ORIGIN, TIME_NS, Row

LIGHT, FULL, CHUNK = 12, 800, 100
TRIES = 60  # schedules within which a wrong policy must be found


def found_in(seeds: range) -> list[str]:
    return [
        f"recomputed_faults(recomputed_scenario({seed})): {fault}"
        for seed in seeds
        for fault in recomputed_faults(recomputed_scenario(seed))[:1]
    ]


def test_nothing_is_lost_repeated_or_reordered() -> None:
    assert found_in(range(LIGHT)) == []


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, FULL, CHUNK))
def test_nothing_is_lost_in_hundreds_of_schedules(start: int) -> None:
    assert found_in(range(10_000 + start, 10_000 + start + CHUNK)) == []


@pytest.mark.parametrize("name", PLANTED)
def test_half_the_protocol_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    assert any(recomputed_faults(recomputed_scenario(seed)) for seed in range(TRIES))


def ring(**given: Any) -> dict[str, Any]:
    """Groups a, b and c in a ring, an IGP with two routers between a and b; all send to all."""
    names = "abc"
    routers = {"ra": ["a", "i"], "rb": ["i", "b"], "rbc": ["b", "c"], "rca": ["c", "a"]}
    sites = [f"{name}-{number}" for name in names for number in range(2)] + list(routers)
    crashed = given.pop("crashed", ())
    return {
        "name": "ring",
        "seed": 3,
        "duration_ms": 1500.0,
        "drain_ms": 10_000.0,
        "topology": {"name": "t", "clusters": [{"name": "lan", "sites": sites, "lan": {"delay": 1.0}}]},
        "composition": {
            "name": "ring",
            "groups": [{"name": name, "members": 2, "stack": "token-site"} for name in names],
            "igps": [{"name": "i", "kind": "link"}],
            "routers": [{"name": name, "joins": joins} for name, joins in routers.items()],
            "domains": [{"name": "d", "wants": "fifo", "scope": "all"} | given.pop("domain", {})],
        },
        "workloads": [
            {"kind": "poisson", "rate_per_s": 20.0, "group": name, "to_groups": to}
            for name in names
            for to in ("all", "other")
        ],
        "faults": [{"kind": "crash", "site": site, "at_ms": 700.0} for site in crashed],
        "router": {"routes": "recomputed"},
    } | given


def loaded(given: dict[str, Any]) -> Scenario:
    return scenario_from_tables(given, "test", Path())


@pytest.mark.parametrize("crashed", [("rbc",), ("rca",), ("ra",), ("ra", "rb")], ids="-".join)
def test_traffic_goes_round_the_other_way(crashed: tuple[str, ...]) -> None:
    """A router fails for good, or an IGP with all its routers: hundreds of messages, and none is missing."""
    scenario = loaded(ring(crashed=crashed))
    assert recomputed_faults(scenario) == []


@pytest.mark.parametrize("cut", [(("ra", "rb"),), (("rb", "ra"),), (("ra", "rb"), ("rb", "ra"))], ids=repr)
def test_a_silent_link_is_left_though_its_view_stands(cut: tuple[tuple[str, str], ...]) -> None:
    """Nothing gets through one way, or both, for five seconds, and views do not tell; later the link is used again."""
    given = ring(duration_ms=8_000.0)
    lost = {"kind": "loss", "at_ms": 1_000.0, "until_ms": 6_000.0, "probability": 1.0}
    given["faults"] = [lost | {"source": [source], "target": [target]} for source, target in cut]
    scenario = loaded(given)
    rows: list[Row] = []
    run = SimRun(scenario, rows)
    run.execute()
    assert judged(scenario, rows, run.summary.rejected_count) == [] and run.at_rest()
    name = slice(ORIGIN, NUMBER + 1)
    submitted = {row[name]: row[TIME_NS] / 1e6 for row in rows if row[KIND] == Kind.SUBMIT}
    late = [
        submitted[row[name]]
        for row in rows
        if row[KIND] == Kind.DELIVER and row[TIME_NS] / 1e6 - submitted[row[name]] > 100
    ]
    assert late and not any(3_500 < at_ms < 5_900 for at_ms in late), "it took too long to find out"


def test_validity_is_judged_where_a_way_is_left() -> None:
    """With all routers but one, or with none between a and the rest."""
    for crashed, is_judged in ((("rbc",), True), (("ra", "rca"), False)):
        scenario = loaded(ring(crashed=crashed))
        rows: list[Row] = []
        SimRun(scenario, rows).execute()
        found = [verdict.status for verdict in judge(scenario, rows).verdicts if verdict.property == "validity"]
        assert found == (["valid"] * 3 if is_judged else [])


def test_static_routes_lose_what_goes_through_a_router_that_fails() -> None:
    scenario = loaded(ring(crashed=("rbc",), router={"routes": "static"}))
    assert any(fault.startswith("lost") for fault in recomputed_faults(scenario))


def test_where_nothing_fails_nothing_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the routers know the ways."""
    entered: list[tuple[int, int, Steered]] = []
    enter = SteeringPort.enter

    def noted(self: SteeringPort, copy: Any) -> None:
        entered.append((self.host.site, self.host.group, copy))
        enter(self, copy)

    monkeypatch.setattr(SteeringPort, "enter", noted)
    assert recomputed_faults(loaded(ring())) == []
    assert len(entered) > 200
    assert len({(site, group, copy.author) for site, group, copy in entered}) == len(entered)


def test_a_router_that_comes_back_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []
    enter = SteeringPort.enter

    def noted(self: SteeringPort, copy: Any) -> None:
        if self.routes.composition.routers[self.router.number].name == "rbc":
            used.append(self.host.now_ns / 1e6)
        enter(self, copy)

    monkeypatch.setattr(SteeringPort, "enter", noted)
    given = ring(crashed=("rbc",))
    given["faults"].append({"kind": "recover", "site": "rbc", "at_ms": 1000.0})
    assert recomputed_faults(loaded(given)) == []
    assert [time for time in used if time < 700] and [time for time in used if time > 1100]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"domain": {"wants": "causal"}}, "a domain that wants causal"),
        ({"domain": {"groups": ["a", "b"]}}, "groups outside the domain"),
        ({"domain": {"igps": ["i"]}}, "a domain that names its IGPs"),
    ],
)
def test_what_must_not_change_is_refused(change: dict[str, Any], told: str) -> None:
    given = ring(**change)
    composition = given["composition"]
    if "causal" in told:  # of a ring no more than FIFO is given at all: a tree, that it is refused for this alone
        composition["routers"] = composition["routers"][:3]
    if "outside" in told:
        given["workloads"] = given["workloads"][:1]
    with pytest.raises(InputError, match=f"router.routes: found 'recomputed' with {told}"):
        loaded(given)


def test_only_compositions_have_routes() -> None:
    given = ring()
    del given["composition"]
    given["stack"] = {"name": "fifo"}
    given["workloads"] = [{"kind": "poisson", "rate_per_s": 5.0}]
    with pytest.raises(InputError, match=r"router\.routes"):
        loaded(given)
    with pytest.raises(InputError, match="routes"):
        loaded(ring(router={"routes": "sometimes"}))
