"""What causal order is predicted to cost, by tables that can be checked by hand, and beside simulations."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from isthmus.advise.order.causal import advise_causal, simulate_causal
from isthmus.advise.order.metadata import SETS_MAX, CausalSetting, SenderFlow, fixed_sizes, history_sizes
from isthmus.core.validation import BadValue
from isthmus.studies.causal.setup import LAN, WAN, group_traffic
from isthmus.topology.shapes import lan_ring


def ring(lans: int, hosts: int = 4, delay_ms: float = 50.0) -> CausalSetting:
    """LANs in a ring: each host sends to its LAN, and the first of each to the next LAN too."""
    zones = tuple(lan for lan in range(lans) for _ in range(hosts))
    sites = range(len(zones))
    delays = tuple(tuple(0.0 if a == b else 1.0 if zones[a] == zones[b] else delay_ms for b in sites) for a in sites)
    inside = [frozenset(site for site in sites if zones[site] == lan) for lan in range(lans)]
    flows = [SenderFlow(site, inside[zones[site]], 0.008) for site in sites]
    across = [frozenset((lan * hosts, (lan + 1) % lans * hosts + 1)) for lan in range(lans)]
    flows += [SenderFlow(site, one, 0.002) for one in across for site in sorted(one)]
    return CausalSetting(delays, zones, tuple(flows), 30)


def test_vectors_and_matrices_have_an_entry_for_each_member_or_pair():
    setting = ring(3)
    assert fixed_sizes(setting, matrix=False).entries == 12 and fixed_sizes(setting, matrix=True).entries == 144
    many = msgspec.structs.replace(setting, count=1000)
    assert fixed_sizes(many, matrix=False).stamp_bytes == 24  # two bytes a counter


def test_one_busy_group_on_a_lan_tells_of_its_last_message():
    """Without delay all but the sender's own message are told by whoever comes first: the last one, of n senders."""
    flows = tuple(SenderFlow(site, frozenset(range(4)), 0.01) for site in range(4))
    found = history_sizes(CausalSetting(((0.0,) * 4,) * 4, (0,) * 4, flows, 30), separators=False)
    assert found is not None and found.entries == pytest.approx(3 / 4) and found.history == 4


def test_far_apart_everybody_tells_of_everybody():
    """Where nothing comes round in time, a sender tells of each that spoke since it did itself: half of the others."""
    far = tuple(tuple(0.0 if a == b else 1e6 for b in range(4)) for a in range(4))
    flows = tuple(SenderFlow(site, frozenset(range(4)), 0.01) for site in range(4))
    found = history_sizes(CausalSetting(far, (0,) * 4, flows, 30), separators=False)
    assert found is not None and found.entries == pytest.approx(3 / 2)


def test_with_separators_nothing_grows_with_the_number_of_lans():
    sizes = {(lans, cut): history_sizes(ring(lans), separators=cut) for lans, cut in product((3, 12), (False, True))}
    assert all(found is not None for found in sizes.values())
    assert sizes[12, True].entries == pytest.approx(sizes[3, True].entries)
    assert sizes[12, True].history == pytest.approx(sizes[3, True].history)
    assert sizes[12, False].history > 2 * sizes[3, False].history
    assert sizes[12, True].entries < sizes[12, False].entries and sizes[12, True].history < sizes[12, False].history


def test_too_many_sets_are_not_predicted_and_no_traffic_is_refused():
    flows = tuple(SenderFlow(0, frozenset((1, 2 + number)), 0.01) for number in range(SETS_MAX + 1))
    width = SETS_MAX + 4
    assert history_sizes(CausalSetting(((0.0,) * width,) * width, (0,) * width, flows, 1), separators=False) is None
    with pytest.raises(BadValue, match="sends"):
        CausalSetting(((0.0,),), (0,), (), 1)


def test_the_prediction_is_near_the_simulation_for_groups_in_a_ring():
    topology = lan_ring(3, 4, LAN, WAN)
    workloads = [msgspec.structs.replace(one, count=None) for one in group_traffic(3, 4)]
    advice = advise_causal(topology, workloads, 3000.0)
    assert advice.recommended == "causal-separators" and list(advice.left_out) == ["causal-vector"]
    for option in advice.options[1:]:
        found = simulate_causal(topology, workloads, option.stack, [1], 3000.0)
        assert option.sizes is not None and found.entries is not None
        assert option.sizes.entries == pytest.approx(found.entries, rel=0.5), option.stack
        assert option.latency_ms < found.latency_ms
