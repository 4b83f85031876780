"""Members that agree on views keep every promise of their stack, and come to rest once faults end.

A failure prints what broke and the command that replays it.
"""

from __future__ import annotations

import pytest

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_S
from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.judge import judge, judge_run
from isthmus.fuzz.scenarios import replay_command
from isthmus.fuzz.watch import WatchedRun
from isthmus.scenario.faults import Crash, Leave
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Periodic
from isthmus.stacks.registry import STACKS
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, TIME_NS, VALUE, Row

AGREEING = [*STACKS]

REGRESSIONS = {
    ("fifo", 10): "a life that knew its successor decided handed it on, and the next one spoke before it had a stack",
    (
        "optimistic",
        10,
    ): "a deadline that passed in the grace after a pause was looked at for ever at one moment",
    ("hybrid", 5): "a frame held ahead of a gap followed on one of the cut, was not in it, and was handed up with it",
    (
        "causal-separators",
        26,
    ): "each view left out somebody whose promise was lost on its way, as links of 27 % loss lie in a row, and a joiner"
    " never had the answers of all members at the same time",
    (
        "flooding-dynamic",
        400,
    ): "all that had view 5 were dead, and the directory of a later era began with view 4",
    **{
        ("flooding-dynamic", seed): "states were compared at views, which are no barrier there and hand over no state"
        for seed in (0, 1, 2)
    },
    ("flooding-dynamic", 386): "it once did not come to rest",
    (
        "flooding-dynamic",
        668,
    ): "a site that passed over the first record never knew that a life it had heard was over, and asked it for ever",
    (
        "flooding-dynamic",
        1234,
    ): "a keeper came back by its file, without a record that it had announced; another one got the same version",
    ("optimistic", 41): "all lives ended, two in living processes, and each went on with the state of its own program",
    ("hybrid", 77): "the one holder of a frame was asked once, and by an unlucky rhythm of turns never again",
}
CHUNK = 25
QUICK = range(0, 25, CHUNK)  # of each stack
FULL = range(25, 2500, CHUNK)


def broken(stack: str, first: int) -> list[str]:
    failures: list[str] = []
    telling = 0
    for seed in range(first, first + CHUNK):
        judged = judge(agreed_scenario(stack, seed))
        failures += [f"{replay_command(stack, seed, 'agreed')}: {failure}" for failure in judged.violations()]
        telling += all(verdict.status == "valid" for verdict in judged.verdicts)
    return failures if telling >= CHUNK // 3 else [*failures, f"only {telling} of {CHUNK} runs could be judged"]


@pytest.mark.parametrize("stack", AGREEING)
@pytest.mark.parametrize("first", QUICK)
def test_some_agreed_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.full
@pytest.mark.parametrize("stack", AGREEING)
@pytest.mark.parametrize("first", FULL)
def test_all_agreed_scenarios(stack: str, first: int) -> None:
    assert broken(stack, first) == []


@pytest.mark.parametrize(("stack", "seed"), REGRESSIONS)
def test_regression(stack: str, seed: int) -> None:
    assert judge(agreed_scenario(stack, seed)).violations() == [], REGRESSIONS[stack, seed]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_may_leave_at_once(count: int) -> None:
    """They went through hundreds of views with the same members: nobody could leave, and all kept asking."""
    topology = mesh(1, count, Channel(Constant(1)), Channel(Constant(1)))
    names = [site.name for site in topology.sites]
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site"),
        workloads=(Periodic(rate_per_s=50, stop_ms=900),),
        membership=Membership(kind="agreed"),
        faults=tuple(Leave(at_ms=1_000, site=name) for name in names),
        duration_ms=2_000,
    )
    rows: list[Row] = []
    judged = judge_run(WatchedRun(scenario, rows), rows)
    assert judged.violations() == []
    assert max(row[VALUE] for row in rows if row[KIND] == Kind.VIEW) <= count + 1


def test_an_idle_group_sends_little_and_knows_a_silent_site_soon() -> None:
    """At most 20 packets per site and second at five sites; a site that stops is out of the view within 0.5 s."""
    topology = mesh(1, 5, Channel(Constant(0.1)), Channel(Constant(0.1)))
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site"),
        workloads=(Periodic(rate_per_s=1, stop_ms=1),),
        membership=Membership(kind="agreed"),
        faults=(Crash(at_ms=25_000, site=topology.sites[3].name),),
        duration_ms=30_000,
    )
    rows: list[Row] = []
    run = WatchedRun(scenario, rows)
    run.start()
    counts = []
    for until_s in (5, 25):
        list(run.advance(until_s * NS_PER_S))
        counts.append(run.network.packet_count)
    assert (counts[1] - counts[0]) / 5 / 20 <= 20
    assert {row[KIND] for row in rows} & {Kind.SUSPECT, Kind.REJECT} == set()
    list(run.advance(26 * NS_PER_S))
    views = [row[TIME_NS] for row in rows if row[KIND] == Kind.VIEW and row[TIME_NS] >= 25 * NS_PER_S]
    assert len(views) == 4 and max(views) <= 25.5 * NS_PER_S
