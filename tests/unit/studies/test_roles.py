"""The studies of total order by tickets: their grids, how claims read tables, and instances with their choices."""

from __future__ import annotations

from collections import defaultdict

import pytest

from isthmus.studies.catalogue import STUDIES
from isthmus.studies.claim import crossing, figure_of, matching, numbers_of
from isthmus.studies.dynamic_roles import setup as dynamic_roles
from isthmus.studies.dynamic_roles.claims import phases_lost
from isthmus.studies.isolation.claims import crossover
from isthmus.studies.nine_scenarios import setup as nine_scenarios
from isthmus.studies.nine_scenarios.claims import worst_ratio
from isthmus.studies.regret import setup as regret
from isthmus.studies.tickets import labels
from isthmus.studies.tickets.instances import CLOUDS, KINDS, cloud_setting, nine_setting
from isthmus.studies.tickets.labels import NINE, PERIODIC, POISSON
from isthmus.studies.tickets.setup import SITES, WITH_NULLS, five_sites, workloads


@pytest.mark.parametrize(
    "name", ["isolation", "nine-scenarios", "dynamic-roles", "regret", "optimistic", "composition"]
)
def test_claims_of_empty_tables_are_unknown(name: str) -> None:
    empty: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    claims = [claim for claim in STUDIES[name].claims if not claim.source.text.startswith("theorem")]
    assert {claim.judge(empty).verdict for claim in claims} == {"unknown"}


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_networks_are_drawn_from_the_runs(study) -> None:
    assert {network.name for network in study.networks()} <= {
        cell.scenario.topology.name for cell in study.grid("full", [1])
    }


def test_the_null_of_the_labels_is_the_default() -> None:
    assert WITH_NULLS.null_ms == labels.NULL_MS


def test_the_network_of_the_nine_is_what_is_planned_for() -> None:
    topology, setting = five_sites(), nine_setting("HLLLL")
    for a in range(5):
        for b in range(5):
            if a != b:
                assert topology.mean_ms(a, b) == pytest.approx(setting.delays_ms[a][b])


def test_a_load_is_a_rate_for_each_site() -> None:
    found = workloads("HLLHL", POISSON, 10.0, 20.0)
    assert [one.sites for one in found] == [(site,) for site in SITES]
    assert [one.rate_per_s for one in found] == [100, 1, 1, 100, 1]
    assert {(one.start_ms, one.stop_ms) for one in found} == {(10.0, 20.0)}


def test_heavy_sites_are_active_in_the_hybrid_and_the_papers_has_no_nulls() -> None:
    paper, ours = (nine_scenarios.stack(name, "HLLHL").hybrid for name in ("hybrid, no nulls", "hybrid, nulls"))
    assert paper.active == ours.active == ("A", "D")
    assert (paper.null_ms, paper.eager) == (0, False)
    assert ours.null_ms > 0 and ours.eager


def test_the_phases_of_a_dynamic_run_follow_each_other() -> None:
    cell = dynamic_roles.cell(labels.DYNAMIC, PERIODIC, 1, dynamic_roles.PHASE_MS["full"])
    assert cell.scenario.duration_ms == 9 * 16_000
    assert [(one.start_ms, one.stop_ms) for one in cell.scenario.workloads[::5]] == [
        (place * 16_000, (place + 1) * 16_000) for place in range(9)
    ]


def test_cells_are_found_by_their_values_or_not_at_all() -> None:
    rows = [{"a": 1, "v": 2.0}, {"a": 1, "v": None}, {"a": 2, "v": 3.0}]
    assert len(matching(rows, a=1)) == 2
    assert numbers_of(rows, "v", a=1) == [2.0]
    assert figure_of(rows, "v", a=2) == 3.0
    with pytest.raises(LookupError):
        matching(rows, a=3)


def isolated(lines: dict[str, list[float]]) -> dict[str, list[dict[str, object]]]:
    delays = (50.0, 150.0)
    rows = [
        {"protocol": name, "source": PERIODIC, "delay_ms": delay, "latency_ms": value}
        for name, values in lines.items()
        for delay, value in zip(delays, values, strict=True)
    ]
    return {"latency": rows}


def test_the_crossover_lies_between_the_delays_around_it() -> None:
    assert crossover(isolated({labels.TOKEN_SITE: [100, 300], labels.SYMMETRIC: [150, 250]})) == 100
    with pytest.raises(LookupError):
        crossover(isolated({labels.TOKEN_SITE: [100, 200], labels.SYMMETRIC: [150, 250]}))
    assert crossing([(0.0, 1.0), (10.0, -1.0)]) == 5


def by_phase(**lines: list[float]) -> dict[str, list[dict[str, object]]]:
    names = {"token": labels.TOKEN_SITE, "paper": labels.DYNAMIC_PAPER}
    return {
        "phases": [
            {"protocol": names[key], "source": POISSON, "scenario": f"{number} {load}", "latency_ms": value}
            for key, values in lines.items()
            for number, (load, value) in enumerate(zip(NINE, values, strict=True), 1)
        ]
    }


def test_phases_that_are_lost_are_counted() -> None:
    tables = by_phase(token=[550.0] * 9, paper=[540.0] * 4 + [560.0] * 5)
    assert phases_lost(POISSON)(tables) == 5


def test_the_worst_cell_is_set_beside_its_best_rival() -> None:
    rows = [
        {"protocol": name, "source": PERIODIC, "scenario": f"{number} {load}", "latency_ms": value}
        for name, values in (("a", [2.0] * 8 + [3.0]), ("b", [1.0] * 9), ("c", [4.0] * 8 + [0.5]))
        for number, (load, value) in enumerate(zip(NINE, values, strict=True), 1)
    ]
    assert worst_ratio("a", PERIODIC, "b", "c")({"cells": rows}) == 6


@pytest.mark.parametrize("name", CLOUDS)
def test_clouds_are_symmetric_and_of_cloud_size(name: str) -> None:
    setting = cloud_setting(name, "poisson")
    sites = range(setting.count)
    assert setting.count == len(CLOUDS[name][1]) and 6 <= setting.count <= 8
    for a in sites:
        assert len(CLOUDS[name][0]) == setting.count - 1
        for b in sites:
            assert setting.delays_ms[a][b] == setting.delays_ms[b][a]
            assert a == b or 5 <= setting.delays_ms[a][b] <= 150


def test_every_set_of_active_sites_is_simulated() -> None:
    setting = nine_setting("HLLHL", null_ms=regret.NULL_MS)
    choices = regret.fixed_choices(setting, regret.SETS_MAX)
    assert len({choice.roles.active for choice in choices}) == 31
    assert [choice.mean_ms for choice in choices] == sorted(choice.mean_ms for choice in choices)


def test_instances_have_one_name_each_and_both_kinds() -> None:
    for scale in ("quick", "full"):
        found = list(regret.instances(scale))
        assert len({instance.name for instance in found}) == len(found)
        assert {instance.family for instance in found} == {"nine", "drawn", "cloud"}
        assert {instance.kind for instance in found} == set(KINDS)
