"""A router without replicas crashes and comes back: what it had in hand is lost, and everything else goes on."""

from __future__ import annotations

import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.simulate.test_routers import tables

from isthmus.core.layer import Kind
from isthmus.core.message import GroupId
from isthmus.judge.judgement import judge
from isthmus.live.node.waiting import beyond
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.scenario.load import scenario_from_tables
from isthmus.sim.run import SimRun
from isthmus.trace.schema import DESTINATIONS, KIND, NUMBER, ORIGIN, PROCESS, TIME_NS, Row

BACK_MS = 1_600.0
LAST_MS = 2_000.0  # by then all routers are back for good, in random runs
SETTLED_MS = 4_000.0  # by then all that was lost is known to be


def crashed(failing: str, names: str = "abc", **given: Any) -> dict[str, Any]:
    """Groups around one IGP, of which one router is down from 1,000 to 1,600 ms; found out after 100 ms."""
    made = tables(names, **({"duration_ms": 4_000.0, "drain_ms": 20_000.0} | given))
    made["membership"] = {"detection_ms": 100.0}
    made["faults"] = [
        {"kind": "crash", "site": failing, "at_ms": 1_000.0},
        {"kind": "recover", "site": failing, "at_ms": BACK_MS},
    ]
    return made


def played(given: dict[str, Any]) -> tuple[SimRun, list[Row]]:
    rows: list[Row] = []
    run = SimRun(scenario_from_tables(given, "test", Path()), rows)
    run.execute()
    return run, rows


def missing(run: SimRun, rows: list[Row]) -> list[float]:
    """When messages were submitted that some process lacks, ms."""
    name = slice(ORIGIN, NUMBER + 1)
    had = {(row[name], row[PROCESS]) for row in rows if row[KIND] == Kind.DELIVER}
    processes = {group.id: group.processes for group in run.scenario.groups_of_run()}
    return [
        row[TIME_NS] / 1e6
        for row in rows
        if row[KIND] == Kind.SUBMIT
        and any((row[name], site) not in had for site in row[DESTINATIONS] or processes[row[ORIGIN]])
    ]


def none_broken(run: SimRun, rows: list[Row]) -> bool:
    return not any(verdict.status == "violated" for verdict in judge(run.scenario, rows).verdicts)


@pytest.mark.parametrize("router", ["ra", "rb"])
@pytest.mark.parametrize("rate_per_s", [20.0, 200.0])  # with the second all of a window is lost
def test_a_window_does_not_fill_with_what_is_lost(router: str, rate_per_s: float) -> None:
    """A message that never comes counted against its author for ever, so that the author stopped for good."""
    given = crashed(router, "ab", stack="fifo", members=1, router={"window": 16})
    given["workloads"] = [{"kind": "periodic", "rate_per_s": rate_per_s, "group": "a", "to_groups": ["b"]}]
    run, rows = played(given)
    lost = missing(run, rows)
    assert max(lost, default=0.0) < BACK_MS and run.summary.refused_count == 0 and none_broken(run, rows)


def test_messages_wait_while_their_own_router_is_away() -> None:
    """Only what was sent before the others knew is lost."""
    given = crashed("ra", "ab", stack="fifo", members=1)
    given["workloads"] = [{"kind": "periodic", "rate_per_s": 50.0, "group": "a", "to_groups": ["a", "b"]}]
    run, rows = played(given)
    assert 1 <= len(missing(run, rows)) <= 6 and max(missing(run, rows)) < 1_120 and none_broken(run, rows)


@pytest.mark.parametrize("window", [8, 1024])
@pytest.mark.parametrize("router", ["ra", "rb"])
def test_a_sender_does_not_wait_for_a_shadow_that_is_lost(router: str, window: int) -> None:
    """It held all that it sent later, also inside its own group, for ever."""
    domain = {"wants": "causal-total", "scope": "all", "forwarding": "shadow-and-hold"}
    given = crashed(router, domain=domain, router={"window": window})
    given["workloads"] = [
        {"kind": "poisson", "rate_per_s": 20.0, "group": name} | to
        for name in "abc"
        for to in ({}, {"to_groups": "all"}, {"to_groups": "others"})
    ]
    run, rows = played(given)
    lost = missing(run, rows)
    assert lost and max(lost) < BACK_MS + 500 and none_broken(run, rows)
    waits = [port.stack.find(ComposedProcess) for site in run.sites[:6] for port in site.ports.values()]
    assert not any(one.waiting or one.outstanding for one in waits)


@pytest.mark.parametrize("stack", ["symmetric", "token-site"])
@pytest.mark.parametrize("seed", range(3))
def test_a_router_may_be_back_before_it_is_missed(stack: str, seed: int) -> None:
    """Its crash and its return are one change of view. What the layers below handed up while they closed the old view
    was taken for messages of the new one, so that nobody was told that they are lost, and their authors held for ever.
    """
    domain = {"wants": "causal-total", "scope": "all", "forwarding": "shadow-and-hold"}
    given = tables("ab", stack, domain=domain, seed=seed) | {"duration_ms": 1_200.0, "drain_ms": 20_000.0}
    given["membership"] = {"detection_ms": 20.0}
    given["workloads"] = [
        {"kind": "poisson", "rate_per_s": 40.0, "group": name} | to
        for name in "ab"
        for to in ({}, {"to_groups": "all"})
    ]
    given["faults"] = [
        {"kind": "crash", "site": "ra", "at_ms": 500.0 + 7 * seed},
        {"kind": "recover", "site": "ra", "at_ms": 503.0 + 7 * seed},
    ]
    run, rows = played(given)
    members = [layer for site in run.sites for port in site.ports.values() for layer in port.stack.layers]
    assert not any(one.waiting or one.outstanding for one in members if isinstance(one, ComposedProcess))
    assert none_broken(run, rows)


def test_a_lower_router_of_a_hierarchy_may_fail() -> None:
    """The sender's own group is told of it by nobody: the view that changes is that of an IGP above."""
    path = Path(__file__).parents[2] / "examples" / "composed-regions.toml"
    text = path.read_text(encoding="utf-8").replace("duration_ms = 3000", "duration_ms = 6000\ndrain_ms = 30000")
    faults = (
        '\n[[faults]]\nkind = "crash"\nsite = "europe-world"\nat_ms = 1000\n'
        '\n[[faults]]\nkind = "recover"\nsite = "europe-world"\nat_ms = 1600\n'
    )
    made = tables_of(text + faults)
    run, rows = played(made)
    lost = missing(run, rows)
    assert lost and max(lost) < SETTLED_MS and none_broken(run, rows)


def tables_of(text: str) -> dict[str, Any]:
    made = tomllib.loads(text)
    made["composition"] = tomllib.loads(
        (Path(__file__).parents[2] / "examples" / "composition-hierarchical.toml").read_text(encoding="utf-8")
    )
    return made


def test_datagrams_between_groups_lose_messages_and_stop_nobody() -> None:
    """A domain that wants nothing may use them; what is lost counts against nobody's window."""
    given = tables("ab", "fifo", duration_ms=4_000.0, drain_ms=5_000.0, router={"window": 8}, domain={"wants": "none"})
    given["composition"]["igps"] = [{"name": "i", "kind": "datagrams"}]
    given["workloads"] = [
        {"kind": "periodic", "rate_per_s": 50.0, "group": name, "to_groups": "others"} for name in "ab"
    ]
    lost = {"kind": "loss", "at_ms": 500.0, "until_ms": 2_500.0}
    given["faults"] = [
        lost | {"probability": 0.2, "source": ["ra"], "target": ["rb"]},
        lost | {"probability": 1.0, "source": ["rb"], "target": ["ra"], "until_ms": 1_000.0},
    ]
    run, rows = played(given)
    assert 20 < len(missing(run, rows)) < 200 and max(missing(run, rows)) < 2_501
    assert run.summary.refused_count == 0 and none_broken(run, rows)


@pytest.mark.parametrize(
    ("forwarding", "told"),
    [
        ("plain", "a router to b, which is not in the view"),
        ("shadow-and-hold", "an earlier message to b to come back from where it is ordered"),
    ],
)
def test_what_is_waited_for_is_told(forwarding: str, told: str) -> None:
    given = crashed("ra", "ab", domain={"wants": "fifo", "forwarding": forwarding})
    given["workloads"] = [
        {"kind": "periodic", "rate_per_s": 50.0, "group": "a", "sites": ["a-0"]} | to
        for to in ({"to_groups": ["b"]}, {})
    ]
    run = SimRun(scenario_from_tables(given, "test", Path()), [])
    run.start()
    for _ in run.advance(1_500_000_000):
        pass
    assert beyond(run.sites[0].ports[GroupId(0)].stack) == [told]


def crashed_process(seed: int) -> dict[str, Any]:
    """A process that sends inside its group and beyond it crashes, and comes back before what it sent is ordered."""
    random = Random(f"crashed process/{seed}")
    domain = {"wants": "causal-total", "scope": "all", "forwarding": "shadow-and-hold"}
    given = tables("abc", domain=domain, seed=seed) | {"duration_ms": 1_500.0, "drain_ms": 30_000.0}
    given["composition"]["igps"] = [{"name": "i", "stack": "symmetric"}]  # which hears of all before it orders
    sites = given["topology"]["clusters"][0]["sites"]
    near = [site for site in sites if "b" in site]
    given["topology"] = {
        "name": "far",
        "defaults": {"lan": {"delay": 0.5}, "wan": {"delay": 150.0}},
        "clusters": [{"name": "here", "sites": near}, {"name": "there", "sites": [x for x in sites if x not in near]}],
    }
    given["membership"] = {"detection_ms": 5.0}
    given["workloads"] = [
        {"kind": "poisson", "rate_per_s": 60.0, "group": name} | to
        for name in "abc"
        for to in ({}, {"to_groups": "all"})
    ]
    down_ms = random.uniform(200.0, 1_000.0)
    site = random.choice(["b-0", "b-1"])
    given["faults"] = [
        {"kind": "crash", "site": site, "at_ms": down_ms},
        {"kind": "recover", "site": site, "at_ms": down_ms + random.uniform(10.0, 60.0)},
    ]
    if random.random() < 0.3:
        given["faults"].append({"kind": "crash", "site": "rb", "at_ms": down_ms + 5})
        given["faults"].append({"kind": "recover", "site": "rb", "at_ms": down_ms + 100})
    return given


def test_a_process_that_comes_back_does_not_overtake_itself() -> None:
    """Its next life holds what would overtake what the last one had under way, as far as that is not lost."""
    for seed in range(8):
        run, rows = played(crashed_process(seed))
        assert none_broken(run, rows), seed
        layers = [port.stack.layers[1] for site in run.sites for port in site.ports.values()]
        waits = [one for one in layers if isinstance(one, ComposedProcess) and (one.waiting or one.outstanding)]
        assert not waits, seed


def random_crashes(seed: int) -> dict[str, Any]:
    """Any router crashes, again and again, and comes back."""
    random = Random(f"lone routers/{seed}")
    forwarding = random.choice(["plain", "total", "shadow-and-hold"])
    wants = {"plain": "fifo", "total": "total", "shadow-and-hold": "causal-total"}[forwarding]
    scope = "all" if forwarding == "shadow-and-hold" else "inter"
    given = tables("abc", domain={"wants": wants, "scope": scope, "forwarding": forwarding}, seed=seed)
    given |= {"duration_ms": 3_500.0, "drain_ms": 30_000.0, "router": {"window": random.choice([4, 1024])}}
    given["membership"] = {"detection_ms": random.choice([20.0, 200.0])}
    given["workloads"] = [
        {"kind": "poisson", "rate_per_s": 15.0, "group": name} | to
        for name in "abc"
        for to in ({}, {"to_groups": "all"}, {"to_groups": "other"})
    ]
    times = sorted(random.uniform(200.0, LAST_MS) for _ in range(random.randint(1, 3) * 2))
    given["faults"] = []
    for down_ms, back_ms in zip(times[::2], times[1::2], strict=True):
        site = random.choice(["ra", "rb", "rc"])
        given["faults"].append({"kind": "crash", "site": site, "at_ms": down_ms})
        given["faults"].append({"kind": "recover", "site": site, "at_ms": back_ms})
    return given


def faults_of(seeds: range) -> list[str]:
    found = []
    for seed in seeds:
        run, rows = played(random_crashes(seed))
        found += [f"seed {seed}: an order is broken"] * (not none_broken(run, rows))
        late = max(missing(run, rows), default=0.0)
        found += [f"seed {seed}: a message of {late:.0f} ms is missing"] * (late > LAST_MS + 700)
    return found


def test_random_crashes_break_no_order_and_stop_nobody() -> None:
    """What is sent once all routers have been back for a while arrives."""
    assert faults_of(range(6)) == []


@pytest.mark.full
def test_hundreds_of_random_crashes_break_no_order_and_stop_nobody() -> None:
    assert faults_of(range(1_000, 1_300)) == []


@pytest.mark.parametrize("kind", ["partition", "pause"])
@pytest.mark.parametrize("seed", range(6))
def test_a_lossy_link_of_two_routers_heals_by_itself(kind: str, seed: int) -> None:
    """Of two, either may leave out the other; a member that lost a question and its repeat once stayed out for good,
    and with it the link. What was on its way is lost; what is sent once both are back arrives.
    """
    random = Random(f"link/{seed}")
    given = tables("ab", seed=seed) | {"duration_ms": 14_000.0, "drain_ms": 20_000.0}
    sides = [["a-0", "a-1", "ra"], ["b-0", "b-1", "rb"]]
    given["topology"] = {
        "name": "offices",
        "defaults": {"lan": {"delay": 0.5}, "wan": {"delay": 5.0, "loss": 0.05}},
        "clusters": [{"name": f"lan{number}", "sites": sites} for number, sites in enumerate(sides)],
    }
    given["composition"]["igps"] = [{"name": "i", "kind": "link"}]
    given["workloads"] = [{"kind": "poisson", "rate_per_s": 8.0, "group": name, "to_groups": "others"} for name in "ab"]
    given["membership"] = {"kind": "agreed"}
    given["faults"], at_ms = [], 500.0
    for _ in range(3):
        until_ms = at_ms + random.uniform(300.0, 1_800.0)
        if kind == "pause":
            given["faults"].append(
                {"kind": kind, "site": random.choice(["ra", "rb"]), "at_ms": at_ms, "until_ms": until_ms}
            )
        else:
            given["faults"].append({"kind": kind, "groups": sides, "at_ms": at_ms})
            given["faults"].append({"kind": "heal", "at_ms": until_ms})
        at_ms = until_ms + random.uniform(50.0, 1_500.0)
    run, rows = played(given)
    ends = [port for site in run.sites for port in site.ports.values() if port.group == GroupId(2)]
    assert len({port.stack.view for port in ends}) == 1 and len(ends[0].stack.view.members) == len(ends) == 2
    assert max(missing(run, rows), default=0.0) < at_ms + 2_500 and none_broken(run, rows)
