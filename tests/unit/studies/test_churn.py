"""The study of members that come and go: what its runs change, which links it counts, and claims that fail."""

from __future__ import annotations

from collections import defaultdict

from isthmus.scenario.faults import Crash, Leave, Recover
from isthmus.studies.churn import setup
from isthmus.studies.churn.claims import CLAIMS, DYNAMIC, HISTORY, STACKS, VIEWS
from isthmus.studies.churn.measure import overlay_links

Row = dict[str, object]


def test_one_leaves_one_crashes_and_then_one_returns_for_each_that_goes() -> None:
    faults = setup.changes(["a", "b", "c"], 2.0)
    kinds = [(type(fault), getattr(fault, "site", "")) for fault in faults]
    assert kinds[:4] == [(Leave, "a"), (Crash, "b"), (Recover, "a"), (Leave, "c")]
    assert len(faults) == 8
    assert all(setup.WARM_UP_MS < fault.at_ms < setup.LAST_MS for fault in faults)
    up, away = {"a", "b", "c"}, set[object]()
    for fault, (kind, site) in zip(faults, kinds, strict=True):
        before, after = (away, up) if isinstance(fault, Recover) else (up, away)
        assert site in before, (kind, site)
        before.remove(site)
        after.add(site)
    assert {type(fault) for fault in faults} == {Leave, Crash, Recover}


def test_those_that_stay_send_the_same_whatever_changes() -> None:
    few, many = (setup.scenario_of(stack, 8, rate, 1) for stack, rate in ((DYNAMIC, 0.0), (HISTORY, 4.0)))
    assert few.workloads == many.workloads
    sites = {site.name for site in few.topology.sites}
    assert not {fault.site for fault in many.faults} & set(few.workloads[0].sites)
    assert {*few.workloads[0].sites, *few.workloads[1].sites} == sites


def test_links_follow_from_ids_by_site_or_by_place() -> None:
    square = {(0, 1), (0, 2), (1, 3), (2, 3)}  # ids that differ in one bit
    for stack, members in ((VIEWS, [7, 4, 6, 5]), (DYNAMIC, [4, 5, 6, 7])):
        links = overlay_links(stack, members)
        assert links is not None
        assert {(link >> 16, link & 0xFFFF) for link in links} == {(4 + a, 4 + b) for a, b in square}
    assert overlay_links(DYNAMIC, [7, 4, 6, 5]) != overlay_links(DYNAMIC, [4, 5, 6, 7])
    assert overlay_links(HISTORY, [4, 5]) is None


def rows(**changed: object) -> dict[str, list[Row]]:
    """Figures with which all claims hold, but for those of flooding-dynamic that are changed."""
    usual: Row = {"latency_mean_ms": 5.0, "latency_p99_ms": 10.0, "gap_ms": 30.0, "packets_each": 3.0, "lost": 0.0}
    usual |= {"refused_staying": 0.0, "links_each": 4.0, "links_max": 6.0, "moved": 8.0, "asked": 8}
    slow: Row = {"latency_mean_ms": 9.0, "latency_p99_ms": 90.0, "gap_ms": 100.0, "links_each": 9.0}
    found = []
    for stack in STACKS:
        for rate in (0.0, 2.0, 4.0):
            row = {"protocol": stack, "sites": 8, "changes_per_s": rate, **usual}
            found.append(row | (slow if stack != DYNAMIC and rate else {}) | (changed if stack == DYNAMIC else {}))
    return {"figures": found}


def failed(tables: dict[str, list[Row]]) -> list[str]:
    return [claim.statement for claim in CLAIMS if claim.judge(tables).verdict != "holds"]


def test_every_claim_can_hold_and_can_fail() -> None:
    assert failed(rows()) == []
    worse = {"latency_p99_ms": 95.0, "packets_each": 5.0, "lost": 1.0, "refused_staying": 2.0}
    worse |= {"links_each": 10.0, "links_max": 30.0, "moved": 7.0}
    broken = rows(**worse)
    for row in broken["figures"]:
        if row["protocol"] == DYNAMIC:
            row["gap_ms"] = 90.0 if row["changes_per_s"] else 30.0
        else:
            row |= {"gap_ms": 30.0, "latency_mean_ms": 4.0 if row["changes_per_s"] else 5.0}
    assert failed(broken) == [claim.statement for claim in CLAIMS]


def test_claims_of_empty_tables_are_unknown() -> None:
    empty: defaultdict[str, list[Row]] = defaultdict(list)
    assert {claim.judge(empty).verdict for claim in CLAIMS} == {"unknown"}
