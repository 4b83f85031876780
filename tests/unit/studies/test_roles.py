"""The studies of total order by tickets: their grids, how claims read tables, and instances with their choices."""

from __future__ import annotations

import pytest

from isthmus.studies.dynamic_roles import study as dynamic_roles
from isthmus.studies.isolation import study as isolation
from isthmus.studies.model import figure_of, matching, numbers_of
from isthmus.studies.nine_scenarios import study as nine_scenarios
from isthmus.studies.nine_scenarios.tickets import PERIODIC, POISSON, SITES, five, workloads
from isthmus.studies.regret import study as regret
from isthmus.studies.regret.instances import CLOUDS, KINDS, NINE, cloud_setting, nine_setting

MODULES = (isolation, nine_scenarios, dynamic_roles, regret)
NAMES = ("latency", "cells", "phases", "every_phase", "costs", "regret", "runs")


@pytest.mark.parametrize("module", MODULES)
def test_claims_of_empty_tables_are_unknown(module) -> None:
    empty = {name: [] for name in NAMES}
    assert {claim.judge(empty).verdict for claim in module.STUDY.claims} == {"unknown"}


def test_the_network_of_the_nine_is_what_is_planned_for() -> None:
    topology, setting = five(), nine_setting("HLLLL")
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
    cell = dynamic_roles.cell(dynamic_roles.MINE, PERIODIC, 1, dynamic_roles.PHASE_MS["full"])
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
    assert isolation.crossover(isolated({isolation.TOKEN: [100, 300], isolation.PLAIN: [150, 250]})) == 100
    assert isolation.crossover(isolated({isolation.TOKEN: [100, 200], isolation.PLAIN: [150, 250]})) is None


def by_phase(**lines: list[float]) -> dict[str, list[dict[str, object]]]:
    names = {"token": dynamic_roles.TOKEN, "paper": dynamic_roles.THEIRS}
    return {
        "phases": [
            {"protocol": names[key], "source": POISSON, "scenario": f"{number} {load}", "latency_ms": value}
            for key, values in lines.items()
            for number, (load, value) in enumerate(zip(NINE, values, strict=True), 1)
        ]
    }


def test_phases_that_are_lost_are_counted() -> None:
    tables = by_phase(token=[550.0] * 9, paper=[540.0] * 4 + [560.0] * 5)
    assert dynamic_roles.phases_lost(tables, dynamic_roles.THEIRS, POISSON) == 5


def test_the_worst_cell_is_set_beside_its_best_rival() -> None:
    rows = [
        {"protocol": name, "source": PERIODIC, "scenario": f"{number} {load}", "latency_ms": value}
        for name, values in (("a", [2.0] * 8 + [3.0]), ("b", [1.0] * 9), ("c", [4.0] * 8 + [0.5]))
        for number, (load, value) in enumerate(zip(NINE, values, strict=True), 1)
    ]
    assert nine_scenarios.worst_beside_best({"cells": rows}, "a", PERIODIC, "b", "c") == 6


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
