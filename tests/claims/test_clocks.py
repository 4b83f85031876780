"""Claims of the clock service (paper 000, section 3), by plain simulation of the study's quick grid."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from isthmus.scenario.load import load_scenario
from isthmus.sim.run import SimRun
from isthmus.studies.claim import Rows, Tables
from isthmus.studies.clocks.claims import CLAIMS, FIGURES
from isthmus.studies.clocks.measure import BOUNDS, SHOWN, WORST
from isthmus.studies.clocks.setup import cell, clocks, grid, network

BY = {
    "drift": ("drift_ppm", "tightness_us", "period_s"),
    "access": ("access_ms",),
    "lans": ("lans",),
    "ways": ("way",),
    "references": ("way",),
    "hold-over": ("holdover_s",),
    "tightness": ("tightness_us",),
}


def worst(runs: Iterable[dict[str, Any]], by: tuple[str, ...]) -> Rows:
    """The worst figures over seeds, as the study's tables have them."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for run in runs:
        key = tuple(run[name] for name in by)
        row = found.setdefault(key, dict(zip(by, key, strict=True)))
        for name in (*WORST, *BOUNDS):
            value = run[name] if name in BOUNDS else run[f"clock_{name}"]
            row[name] = max(value, row.get(name, 0.0))
    return list(found.values())


@pytest.fixture(scope="module")
def tables() -> Tables:
    runs = []
    for one in grid("quick", (1, 2, 3)):
        done = SimRun(one.scenario)
        done.execute()
        runs.append({**one.parameters, **done.figures()})
    made = {part.replace("-", "_"): worst([run for run in runs if run["part"] == part], by) for part, by in BY.items()}
    made["tightness"] = [
        {"tightness_us": row["tightness_us"], "what": what, "us": row[column]}
        for row in made["tightness"]
        for what, column in SHOWN.items()
    ]
    made["promises"] = [{"misses": run["clock_misses"], "backwards": run["clock_backwards"]} for run in runs]
    return made


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.statement)
def test_a_claim_of_the_study_holds(tables: Tables, claim: Any) -> None:
    judged = claim.judge(tables)
    assert judged.verdict == "holds", (judged.measured, judged.expected, judged.detail)


def test_the_example_is_the_cell_of_the_first_figure() -> None:
    """Its parameters are those of the study's cell."""
    example = load_scenario(Path(__file__).parents[2] / "examples" / "clocks-figure.toml")
    figure = cell("drift", network((1,)), clocks(*next(iter(FIGURES))), 1).scenario
    assert example.clocks == figure.clocks
    assert example.duration_ms == figure.duration_ms
    assert len(example.topology.sites) == len(figure.topology.sites)
    assert example.topology.clusters[0].lan == figure.topology.clusters[0].lan
    assert example.topology.clusters[0].references == figure.topology.clusters[0].references
