"""Who uses the clock service: delay estimates, ticket clocks, stamps; each falls back where it does not run."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.clock_runs import clocks, lans, run, scenario

from isthmus.core.layer import ClockState, Reading
from isthmus.core.message import SiteId
from isthmus.judge.judgement import judge
from isthmus.measure.optimism import guesses
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.clocks import Synchronised
from isthmus.protocols.total.together import own_stamp, stamp_here
from isthmus.scenario.clocks import Clocks
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.trace.schema import Row

MS = 1_000_000
WAYS = {"delay": 55, "back": {"delay": 5}}  # ms from LAN a to LAN b, and back


def made(stack: StackSpec, world: Clocks, references: tuple[int, int] = (1, 1)) -> Scenario:
    rounds = 20.0
    given = {"stack": stack, "workloads": (Poisson(rate_per_s=2),), "trace": "events", "drain_ms": 20_000}
    served = world if world.service is not None else clocks()
    plain = scenario(lans(*references, sites=2, wan=WAYS), served, rounds, **given)
    return Scenario(**{name: getattr(plain, name) for name in plain.__struct_fields__} | {"clocks": world})


def delays_ms(world: Clocks, references: tuple[int, int] = (1, 1)) -> tuple[float, float]:
    """What a site of LAN a thinks of its way to one of LAN b, and the other way round."""
    done = run(made(StackSpec(name="dynamic-hybrid"), world, references), [])
    found = []
    for here, there in ((0, 2), (2, 0)):
        estimator = next(iter(done.sites[here].ports.values())).stack.find(Estimator)
        delay = estimator.delay_ns(SiteId(there))
        assert delay is not None
        found.append(delay / MS)
    return found[0], found[1]


def test_delays_are_one_way_where_clocks_are_synchronised_and_half_round_trips_elsewhere() -> None:
    there, back = delays_ms(clocks())
    assert there == pytest.approx(55, abs=3) and back == pytest.approx(5, abs=3), "the first probe came too early"
    assert delays_ms(Clocks()) == pytest.approx((30, 30), abs=1)


def test_clocks_that_are_off_by_as_much_as_they_measure_are_not_used_for_delays() -> None:
    """LAN b has its time by round trips over that very way: its error is half of one."""
    assert delays_ms(clocks(), (1, 0)) == pytest.approx((30, 30), abs=1)


@pytest.mark.parametrize(
    "stack",
    [
        StackSpec(name="symmetric", hybrid=HybridSpec(clock="synchronised")),
        StackSpec(name="dynamic-hybrid", hybrid=HybridSpec(clock="synchronised")),
        StackSpec(name="optimistic"),
    ],
    ids=lambda stack: stack.name,
)
def test_orders_are_kept_with_clocks_of_the_service(stack: StackSpec) -> None:
    rows: list[Row] = []
    one = made(stack, clocks(1e-4))
    run(one, rows)
    assert {verdict.status for verdict in judge(one, rows).verdicts} == {"valid"}


def test_stamps_of_synchronised_clocks_guess_as_well_as_those_of_clocks_that_are_right() -> None:
    hits = []
    for world in (Clocks(), clocks(1e-3)):
        rows: list[Row] = []
        run(made(StackSpec(name="optimistic"), world), rows)
        found = guesses(rows)
        assert found is not None
        hits.append(found.hit)
    assert hits[1] >= hits[0] - 0.05


class Telling:
    """As much of a host as a clock's users look at."""

    def __init__(self, now_ns: int, time_ns: int, state: ClockState | None) -> None:
        self.now_ns, self.time_ns, self.state = now_ns, time_ns, state

    def clock(self) -> Reading:
        return Reading(self.time_ns, 5, self.state)


FREE, SERVED = ClockState.FREE_RUNNING, ClockState.SYNCHRONISED


def test_a_ticket_clock_goes_by_rate_until_the_service_is_synchronised() -> None:
    clock: Any = Synchronised()
    assert clock.reading(Telling(5 * MS, 900 * MS, FREE)) == 0
    assert clock.reading(Telling(6 * MS, 100 * MS, FREE)) == 1_000
    clock.heard(5_000, 2 * MS, Telling(6 * MS, 100 * MS, FREE))
    assert clock.reading(Telling(6 * MS, 100 * MS, FREE)) == 7_000
    assert clock.reading(Telling(7 * MS, 900 * MS, SERVED)) == 900_000
    untold: Any = Synchronised()
    assert untold.reading(Telling(5 * MS, 900 * MS, None)) == 900_000, "without a service, as it is"


def test_a_stamp_is_translated_where_the_receiver_knows_the_time() -> None:
    host: Any = Telling(70 * MS, 1_000 * MS, SERVED)
    assert own_stamp(host, True) == 1_000 * MS and own_stamp(host, False) == 70 * MS
    assert stamp_here(990 * MS, host, True) == 60 * MS, "ten milliseconds ago, on the clock here"
    assert stamp_here(990 * MS, host, False) == 990 * MS
    free: Any = Telling(70 * MS, 1_000 * MS, FREE)
    assert stamp_here(990 * MS, free, True) == 990 * MS
