"""Advice for a network and its traffic, and what simulations say of it."""

from __future__ import annotations

import pytest

from isthmus.advise.order.simulation import BySender, duration_ms, simulate_option
from isthmus.advise.order.total import PAPER, SYMMETRIC, TOKEN_SITE, advise, stack_tables
from isthmus.core.layer import Kind
from isthmus.core.validation import BadValue, convert
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.studies.tickets.instances import as_topology, as_workloads, nine_setting
from isthmus.studies.tickets.labels import NINE
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh


def advice_for(load: str, spec: HybridSpec | None = None):
    setting = nine_setting(load)
    return advise(as_topology(setting), as_workloads(setting), spec)


@pytest.mark.parametrize("load", NINE)
def test_advice_is_at_least_as_good_as_all_it_is_set_beside(load: str) -> None:
    advice = advice_for(load)
    assert [option.name for option in advice.options] == ["planned", TOKEN_SITE, SYMMETRIC, PAPER]
    assert advice.recommended.mean_ms == min(option.mean_ms for option in advice.options)
    assert advice.notes == ()


def test_the_simplest_stack_that_does_it_is_recommended() -> None:
    silent = HybridSpec(null_ms=0)
    stacks = {load: advice_for(load, silent).recommended.stack for load in ("LLLHL", "HLLHL", "HHHHH")}
    names = {load: stack.name for load, stack in stacks.items()}
    assert names == {"LLLHL": "token-site", "HLLHL": "hybrid", "HHHHH": "symmetric"}
    assert stacks["LLLHL"].sequencer == "s3"


def test_nulls_make_a_slow_site_worth_while_as_a_sequencer() -> None:
    """Of LLLHL, s0 with nulls lets three slow sites wait for 540 instead of 1080 ms, and s3 for 12 ms more."""
    with_nulls = advice_for("LLLHL").recommended
    assert with_nulls.choice.roles.sequencer == (0, 0, 0, 3, 3)
    assert with_nulls.mean_ms < advice_for("LLLHL", HybridSpec(null_ms=0)).recommended.mean_ms


def test_where_tickets_wait_the_token_site_stack_still_sends_them_at_once() -> None:
    advice = advice_for("HLLLL", HybridSpec(eager=False, null_ms=0))
    token = advice.options[1]
    assert token.choice.prediction.site_ms == pytest.approx((540, 560, 560, 1080, 1080))
    assert advice.recommended.stack.name == "token-site"


@pytest.mark.parametrize("load", ["LLLHL", "HLLHL", "HHHHH"])
@pytest.mark.parametrize("spec", [HybridSpec(), HybridSpec(null_ms=0, eager=False, clock="lamport")])
def test_a_stack_written_and_read_again_is_the_same(load: str, spec: HybridSpec) -> None:
    advice = advice_for(load, spec)
    for option in advice.options:
        again = convert(stack_tables(option.stack), StackSpec, "plan.toml")
        assert again == option.stack
        Scenario(topology=advice.topology, workloads=advice.workloads, stack=again)


def test_traffic_that_flow_control_would_stop_is_noted() -> None:
    net = mesh(2, 1, Channel(Constant(1)), Channel(Constant(1000)))
    notes = advise(net, (Poisson(rate_per_s=500),)).notes
    assert len(notes) == 1 and "credit.window" in notes[0]


def test_traffic_without_senders_is_refused() -> None:
    net = mesh(2, 1, Channel(Constant(1)), Channel(Constant(50)))
    with pytest.raises(BadValue, match="no site that sends"):
        advise(net, ())


def test_a_simulation_of_each_option_is_what_was_predicted() -> None:
    net = mesh(2, 2, Channel(Constant(2)), Channel(Constant(60)))
    traffic = (Poisson(rate_per_s=60, sites=("c0-0", "c1-0")), Poisson(rate_per_s=5, sites=("c0-1", "c1-1")))
    advice = advise(net, traffic)
    shares: list[float] = []
    for option in advice.options:
        measured = simulate_option(advice, option, (1, 2), 12_000, shares.append)
        assert measured.undelivered == 0 and measured.messages > 2_000
        assert measured.mean_ms == pytest.approx(option.mean_ms, rel=0.03)
    assert shares[-1] == 1 and all(0 < share <= 1 for share in shares)


def test_a_lossy_network_is_simulated_too() -> None:
    net = mesh(2, 1, Channel(Constant(1)), Channel(Constant(50), loss=0.1))
    advice = advise(net, (Poisson(rate_per_s=20),))
    measured = simulate_option(advice, advice.recommended, (1,), 5_000)
    assert measured.undelivered == 0 and (measured.mean_ms or 0) > advice.recommended.mean_ms


def test_simulations_are_long_enough_for_the_slow_and_short_enough_for_the_many() -> None:
    assert duration_ms(advice_for("HLLHL").setting) == 40_000
    assert duration_ms(advice_for("HHHHH").setting) == 10_000


def test_a_message_counts_when_the_last_has_it() -> None:
    sink = BySender(2, 1.0, 9.0)

    def row(process: int, time_ms: float, kind: Kind, number: int) -> None:
        sink.append((0, process, 0, round(time_ms * 1e6), kind, 0, 0, number, 0, 1, (), 0, 0, 0, 0))

    for number, time_ms in ((1, 0.5), (2, 2.0), (3, 3.0), (4, 9.5)):
        row(0, time_ms, Kind.SUBMIT, number)
    for number in (1, 2, 4):
        row(0, 10.0, Kind.DELIVER, number)
        row(1, 12.0, Kind.DELIVER, number)
    row(0, 11.0, Kind.DELIVER, 3)
    assert sink.counts == [1, 0] and sink.total_ms == [10.0, 0.0] and list(sink.meter.open) == [(0, 0, 3)]
