"""Routers in runs: a slow group slows its senders alone, packing and priorities keep the order, what is refused is."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from click.testing import CliRunner

from isthmus.cli.check import command as check
from isthmus.cli.sim import command as sim
from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Kind
from isthmus.core.message import GroupId, SiteId
from isthmus.judge.judgement import judge
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.router import RouterPort
from isthmus.scenario.load import load_scenario, scenario_from_tables
from isthmus.scenario.model import Scenario
from isthmus.sim.run import SimRun
from isthmus.trace.schema import DESTINATIONS, KIND, NUMBER, ORIGIN, PROCESS, SENDER, TIME_NS, Row

EXAMPLES = Path(__file__).parents[2] / "examples"


def tables(names: str, stack: str = "token-site", members: int = 2, **given: Any) -> dict[str, Any]:
    """Groups named by letters around one IGP."""
    sites = [f"{name}-{number}" for name in names for number in range(members)] + [f"r{name}" for name in names]
    domain = {"name": "d", "wants": "fifo"} | given.pop("domain", {})
    groups = [{"name": name, "members": members, "stack": stack} for name in names]
    routers = [{"name": f"r{name}", "joins": [name, "i"]} for name in names]
    return {
        "name": "routers",
        "seed": 5,
        "duration_ms": 1000.0,
        "topology": {"name": "t", "clusters": [{"name": "lan", "sites": sites, "lan": {"delay": 1.0}}]},
        "composition": {
            "name": "star",
            "groups": groups,
            "igps": [{"name": "i", "stack": stack}],
            "routers": routers,
            "domains": [domain],
        },
        "workloads": [{"kind": "poisson", "rate_per_s": 20.0, "group": names[0], "to_groups": "all"}],
    } | given


def loaded(given: dict[str, Any]) -> Scenario:
    return scenario_from_tables(given, "test", Path())


def played(scenario: Scenario) -> tuple[SimRun, list[Row]]:
    rows: list[Row] = []
    run = SimRun(scenario, rows)
    run.execute()
    return run, rows


def latencies(rows: list[Row]) -> dict[tuple[int, int, int], float]:
    """The last delivery of each message after its submit, ms."""
    name = slice(ORIGIN, NUMBER + 1)
    submitted = {row[name]: row[TIME_NS] for row in rows if row[KIND] == Kind.SUBMIT}
    found: dict[Any, float] = {}
    for row in rows:
        if row[KIND] == Kind.DELIVER:
            found[row[name]] = max(found.get(row[name], 0), (row[TIME_NS] - submitted[row[name]]) / 1e6)
    return found


def slow_group(window: int) -> Scenario:
    """Readers of b take 20 ms a message; a-0 sends to b, a-1 sends to c."""
    given = tables("abc", members=2, duration_ms=2000.0, router={"window": window}, readers=[])
    given["readers"] = [{"sites": ["b-0", "b-1"], "consume_ms": 20.0}]
    given["workloads"] = [
        {"kind": "poisson", "rate_per_s": 200.0, "group": "a", "sites": ["a-0"], "to_groups": ["b"]},
        {"kind": "poisson", "rate_per_s": 50.0, "group": "a", "sites": ["a-1"], "to_groups": ["c"]},
        {"kind": "poisson", "rate_per_s": 20.0, "group": "c", "to_groups": "all"},
    ]
    given["workloads"][2]["to_groups"] = ["a", "c"]
    given["stack"] = {"name": "token-site", "credit": {"window": 16, "queue_max": 16}}
    given["drain_ms"] = 60_000.0
    return loaded(given)


def test_a_slow_group_slows_those_that_send_to_it_and_nobody_else() -> None:
    run, rows = played(slow_group(window=8))
    assert run.summary.undelivered_count() == 0
    times = latencies(rows)
    to_slow = [ms for (_, sender, _), ms in times.items() if sender == SiteId(0)]
    others = [ms for (_, sender, _), ms in times.items() if sender != SiteId(0)]
    assert mean(to_slow) > 500
    assert max(others) < 50


def test_queues_stay_within_the_window() -> None:
    scenario = slow_group(window=8)
    run = SimRun(scenario, [])
    most = 0
    for _ in run.steps():
        ports = [port.stack.layers[1] for site in run.sites for port in site.ports.values()]
        most = max([most, *(len(port.queue) for port in ports if isinstance(port, RouterPort))])
        sent = [len(way) for one in ports if isinstance(one, ComposedProcess) for way in one.under_way.values()]
        assert max(sent, default=0) <= 8
    assert most <= 8 * 2


def test_without_a_window_a_slow_group_fills_its_router() -> None:
    run = SimRun(slow_group(window=100_000), [])
    run.start()
    for _ in run.advance(2_000_000_000):
        pass
    assert len(run.sites[7].ports[GroupId(1)].stack.find(RouterPort).queue) > 100


@pytest.mark.parametrize("stack", ["ring", "token-site", "fifo"])
def test_packed_messages_keep_every_order(stack: str) -> None:
    given = tables("abc", stack, router={"pack_max": 8, "pack_ms": 2.0}, wire="codec", payloads="varied")
    given["workloads"] = [
        {"kind": "burst", "period_ms": 100.0, "burst_count": 12, "group": name, "to_groups": "all"} for name in "abc"
    ]
    run, rows = played(loaded(given))
    assert run.summary.undelivered_count() == 0
    assert {verdict.status for verdict in judge(run.scenario, rows).verdicts} == {"valid"}
    alone, _ = played(loaded(given | {"router": {}}))
    assert forwarded(run) < 0.5 * forwarded(alone)


def forwarded(run: SimRun) -> int:
    """The messages that routers have submitted in their nodes."""
    ports = [port for site in run.sites for port in site.ports.values()]
    return sum(port.number for port in ports if isinstance(port.stack.layers[1], RouterPort))


def test_a_router_twice_on_its_ring_hastens_messages_between_groups() -> None:
    found = {}
    for prioritised in (False, True):
        given = tables("abcd", "ring", members=4, domain={"prioritised": prioritised}, duration_ms=500.0)
        given["workloads"] = [
            {"kind": "poisson", "rate_per_s": 30.0, "group": name} | to
            for name in "abcd"
            for to in ({}, {"to_groups": "all"})
        ]
        run, rows = played(loaded(given))
        assert {verdict.status for verdict in judge(run.scenario, rows).verdicts} == {"valid"}
        name = slice(ORIGIN, NUMBER + 1)
        inter = {row[name] for row in rows if row[KIND] == Kind.SUBMIT and row[DESTINATIONS] is not None}
        found[prioritised] = mean(ms for key, ms in latencies(rows).items() if key in inter)
    assert found[True] < 0.95 * found[False]


def test_priorities_keep_each_author_s_order_within_a_kind() -> None:
    """Messages inside a group and between groups are two kinds; over both together FIFO is not promised."""
    given = tables("abc", "ring", members=3, domain={"prioritised": True}, duration_ms=400.0)
    given["workloads"] = [
        {"kind": "burst", "period_ms": 40.0, "burst_count": 15, "group": name} | to
        for name in "abc"
        for to in ({}, {"to_groups": "all"})
    ]
    given["stack"] = {"name": "ring", "ring": {"batch": 4}}
    run, rows = played(loaded(given))
    name = slice(ORIGIN, NUMBER + 1)
    inter = {row[name] for row in rows if row[KIND] == Kind.SUBMIT and row[DESTINATIONS] is not None}
    last: dict[tuple[int, ...], int] = {}
    for row in rows:
        if row[KIND] == Kind.DELIVER:
            key = (row[PROCESS], row[ORIGIN], row[SENDER], row[name] in inter)
            assert row[NUMBER] > last.get(key, -1)
            last[key] = row[NUMBER]
    assert run.summary.undelivered_count() == 0 and len(last) == 9 * (3 + 9)  # inside: 3 authors; between: all 9
    given["composition"]["domains"][0]["scope"] = "all"
    with pytest.raises(InputError, match="messages between groups have priority over those inside"):
        loaded(given)


def test_one_shared_queue_would_let_a_slow_output_hold_up_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A router in three groups, of which one takes nothing for a while: with one queue, neither do the others."""
    given = tables("abc", duration_ms=1500.0)
    given["composition"]["igps"] = []
    given["composition"]["routers"] = [{"name": "ra", "joins": ["a", "b", "c"]}]
    given["topology"]["clusters"][0]["sites"] = [f"{name}-{n}" for name in "abc" for n in range(2)] + ["ra"]
    given["readers"] = [{"sites": ["b-0"], "consume_ms": 40.0}]
    given["stack"] = {"name": "token-site", "credit": {"window": 1, "queue_max": 1}}
    given["workloads"] = [
        {"kind": "periodic", "rate_per_s": 40.0, "group": "a", "sites": [site], "to_groups": [to]}
        for site, to in (("a-0", "b"), ("a-1", "c"))
    ]
    given["drain_ms"] = 100_000.0
    _, rows = played(loaded(given))
    apart = max(ms for (_, sender, _), ms in latencies(rows).items() if sender == SiteId(1))
    forward = RouterPort.forward

    def one_queue(self: RouterPort) -> None:
        ports = self.router.ports.values()
        if all(port is self or not port.queue or port.below.writable() for port in ports):
            forward(self)
        elif not self.wake_armed:
            self.wake_armed = True
            self.host.set_timer(self, 0, 1_000_000)

    monkeypatch.setattr(RouterPort, "forward", one_queue)
    _, rows = played(loaded(given))
    together = max(ms for (_, sender, _), ms in latencies(rows).items() if sender == SiteId(1))
    assert together > 3 * apart


def test_the_example_runs_and_its_domain_is_judged(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(sim, [str(EXAMPLES / "composed-regions.toml"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "all-sites" in done.output
    judged = CliRunner().invoke(check, [str(out), "--property", "total", "-o", str(tmp_path / "proof"), "--json"])
    assert judged.exit_code == 0 and '"all-sites"' in judged.output


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "more than it gives": ({"domain": {"wants": "causal-total", "scope": "all", "forwarding": "total"}}, "is not kept"),
    "a group that no domain has": (
        {"workloads": [{"kind": "poisson", "rate_per_s": 1.0, "to_groups": ["x"]}]},
        "a group of the composition",
    ),
    "an unknown word": ({"workloads": [{"kind": "poisson", "rate_per_s": 1.0, "to_groups": "any"}]}, "one of all"),
    "an IGP as a sender": ({"workloads": [{"kind": "poisson", "rate_per_s": 1.0, "group": "i"}]}, "a group of the"),
    "no such flow": ({"domain": {"flows": [{"from": "b", "to": ["a"]}]}}, "no such flow"),
    "a node that is none": ({"groups": [{"name": "x", "stack": {"name": "ring"}}]}, "a node"),
    "a weaker stack": ({"groups": [{"name": "a", "stack": {"name": "fifo"}}]}, "a stack that keeps fifo-total"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_one_sentence(name: str) -> None:
    change, words = REFUSED[name]
    with pytest.raises(InputError) as error:
        loaded(tables("ab", **change))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_closed_group_takes_nothing_from_outside() -> None:
    given = tables("abc")
    given["composition"]["groups"][1]["open"] = False
    given["workloads"] = [{"kind": "poisson", "rate_per_s": 5.0, "group": "b", "to_groups": "all"}]
    run, rows = played(loaded(given))
    assert run.summary.undelivered_count() == 0
    given["workloads"] = [{"kind": "poisson", "rate_per_s": 5.0, "group": "a", "to_groups": ["b"]}]
    with pytest.raises(InputError, match="b is closed"):
        loaded(given)
    application = run.sites[0].ports[GroupId(0)].stack.layers[0]
    with pytest.raises(LocalError, match="b is closed"):
        application.multicast(b"x", [GroupId(1)])  # type: ignore[attr-defined]
    assert not any(row[KIND] == Kind.DELIVER and row[SENDER] == SiteId(0) for row in rows)


def test_the_same_seed_gives_the_same_rows() -> None:
    scenario = load_scenario(EXAMPLES / "composed-regions.toml", seed=9)
    assert played(scenario)[1] == played(scenario)[1]


def test_a_composition_needs_its_sites() -> None:
    given = tables("ab")
    given["topology"]["clusters"][0]["sites"] = ["a-0", "a-1", "b-0", "b-1", "ra"]
    with pytest.raises(InputError, match="'rb', which is no site"):
        loaded(given)
