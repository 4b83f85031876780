"""The nine scenarios: five sites in two clusters, each of high or low load; which protocol suits which of them.

A B C | D E, 20 ms inside and 540 ms across; high is 100 messages a second, low is 1. A is the sequencer of token-site;
the hybrid's active processes are those of high load. Token-site is good while the load is near A, the symmetric
protocol where no site is slow, the hybrid always. The papers' protocols have no nulls; ours are shown with them.

The symmetric protocol without nulls waits for every slow site. How long depends on how the slow ones' messages lie to
each other, which a run hardly changes; of Poisson sources, on when they happen to send. So the fewer of high load, and
the cheaper a run, the more of them there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.studies.model import (
    Advice,
    Cell,
    Claim,
    Figure,
    Kind,
    Relation,
    Scale,
    Study,
    Tables,
    figure_of,
    numbers_of,
)
from isthmus.studies.nine_scenarios.tickets import (
    DRAIN_MS,
    LOOKS,
    NO_NULLS,
    OURS,
    PAPER,
    PERIODIC,
    POISSON,
    PROPERTIES,
    SITES,
    SOURCES,
    cost,
    five,
    message_latencies,
    summary,
    symmetric_stack,
    workloads,
)
from isthmus.studies.regret.instances import NINE

SPAN_MS: dict[Scale, float] = {"quick": 2_000.0, "full": 30_000.0}  # in which messages count
FROM_MS = 2_000.0  # by then clocks have met
LAST_MS = 1_500.0  # after the span, that what counts is delivered
SLOWEST_MS = {PERIODIC: 1_500.0, POISSON: 6_000.0}  # where it takes a message of every slow one
RUNS_OF = {1: 8, 2: 4, 3: 3, 4: 1, 5: 1}  # of the symmetric protocol without nulls, by how many sites are busy
TOKEN, PLAIN, NULLS = "token-site", "symmetric, no nulls", "symmetric, nulls"
HYBRID, HYBRID_NULLS = "hybrid, no nulls", "hybrid, nulls"
PROTOCOLS = (TOKEN, PLAIN, HYBRID, NULLS, HYBRID_NULLS)
OFFERED = (TOKEN, NULLS, HYBRID_NULLS)  # as anybody would use them
SECTION = "Figure 3 and section 4.4"
WITHIN = 0.03


def stack(protocol: str, load: str) -> StackSpec:
    """A protocol as it is run with a load."""
    heavy = tuple(site for site, letter in zip(SITES, load, strict=True) if letter == "H")
    without = msgspec.structs.replace(NO_NULLS, active=heavy)
    return {
        TOKEN: StackSpec(name="token-site", transport="direct", sequencer=SITES[0]),
        PLAIN: symmetric_stack(NO_NULLS),
        HYBRID: StackSpec(name="hybrid", transport="direct", hybrid=without),
        NULLS: symmetric_stack(HybridSpec()),
        HYBRID_NULLS: StackSpec(name="hybrid", transport="direct", hybrid=HybridSpec(active=heavy)),
    }[protocol]


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [
        cell(protocol, source, load, 100 * seed + again, SPAN_MS[scale])
        for protocol in PROTOCOLS
        for source in SOURCES
        for load in NINE
        for seed in seeds
        for again in range(RUNS_OF[load.count("H")] if protocol == PLAIN else 1)
    ]


def cell(protocol: str, source: str, load: str, seed: int, span_ms: float) -> Cell:
    until_ms = FROM_MS + span_ms
    scenario = Scenario(
        name="nine-scenarios",
        topology=five(),
        stack=stack(protocol, load),
        workloads=workloads(load, source),
        seed=seed,
        duration_ms=until_ms + (SLOWEST_MS[source] if protocol == PLAIN else LAST_MS),
        drain_ms=DRAIN_MS,
    )
    names = {"protocol": protocol, "source": source, "scenario": f"{NINE.index(load) + 1} {load}"}
    return Cell({**names, "from_ms": FROM_MS, "until_ms": until_ms, "seed": seed}, scenario)


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Latency, what is left and what it cost, a row a cell; a part for each figure."""
    by = ["protocol", "source", "scenario"]
    each = summary(message_latencies(trace, runs)).join(cost(runs, len(SITES)), "run")
    columns = ["latency_ms", "counted", "undelivered_messages", "multicasts_per_message", "control_bytes_per_message"]
    cells = over_seeds(each.join(runs.select("run", *by), "run"), by, columns).localCheckpoint()
    return {
        "cells": cells,
        "periodic": cells.where(F.col("source") == PERIODIC).orderBy("scenario", "protocol"),
        "poisson": cells.where(F.col("source") == POISSON).orderBy("scenario", "protocol"),
        "offered": cells.where(F.col("source") == POISSON)
        .where(F.col("protocol").isin(*OFFERED))
        .orderBy("scenario", "protocol"),
    }


def latencies(tables: Tables, protocol: str, source: str = PERIODIC) -> list[float]:
    """Of the nine, in their order."""
    found = {row["scenario"]: row["latency_ms"] for row in tables["cells"] if of(row, protocol, source)}
    return [float(found[f"{number} {load}"]) for number, load in enumerate(NINE, 1)]


def of(row: dict[str, object], protocol: str, source: str) -> bool:
    return row["protocol"] == protocol and row["source"] == source


def worst_beside_best(tables: Tables, protocol: str, source: str, *rivals: str) -> float:
    """A protocol's latency over that of its best rival, in the scenario where that is most."""
    others = [latencies(tables, rival, source) for rival in rivals]
    mine = latencies(tables, protocol, source)
    return max(mine[place] / min(line[place] for line in others) for place in range(len(NINE)))


def undelivered_most(tables: Tables, *protocols: str) -> float:
    """Messages undelivered at the end of a run, of the cell with most."""
    rows = tables["cells"]
    return max(value for name in protocols for value in numbers_of(rows, "undelivered_messages", protocol=name))


def claim_near(
    statement: str,
    measure: Callable[[Tables], float],
    expected: float,
    unit: str = "ms",
    relation: Relation = "near",
    tolerance: float = WITHIN,
    source: str = SECTION,
    note: str = "",
    kind: Kind = "paper",
) -> Claim:
    return Claim(
        statement=statement,
        source=source,
        measure=measure,
        expected=expected,
        tolerance=tolerance,
        relation=relation,
        unit=unit,
        note=note,
        kind=kind,
    )


def matches_best(source: str) -> Claim:
    return claim_near(
        f"With {source} sources, the hybrid is as fast as the better of the two in every scenario.",
        lambda tables: worst_beside_best(tables, HYBRID, source, TOKEN, PLAIN),
        1.0,
        "times the better one",
        "at most",
        note="all three without nulls; the worst scenario of the hybrid",
    )


CLAIMS = (
    claim_near(
        "The hybrid takes at least 545 ms in all nine scenarios.",
        lambda tables: min(latencies(tables, HYBRID)),
        545.0,
        relation="at least",
        tolerance=0.0,
        note="quasi-periodic sources, the fastest scenario",
    ),
    claim_near(
        "It takes at most 557 ms.",
        lambda tables: max(latencies(tables, HYBRID)),
        557.0,
        relation="at most",
        tolerance=0.0,
        note="quasi-periodic sources, the slowest scenario",
    ),
    claim_near("Token-site takes 551 ms in the first scenario.", lambda tables: latencies(tables, TOKEN)[0], 551.0),
    claim_near("Token-site takes 1073 ms in the eighth scenario.", lambda tables: latencies(tables, TOKEN)[7], 1073.0),
    claim_near("The symmetric protocol takes 548 ms in the ninth.", lambda tables: latencies(tables, PLAIN)[8], 548.0),
    claim_near("It takes up to 1335 ms in the others.", lambda tables: max(latencies(tables, PLAIN)), 1335.0),
    matches_best(PERIODIC),
    matches_best(POISSON),
    claim_near(
        "Without nulls, all messages are eventually delivered.",
        lambda tables: undelivered_most(tables, PLAIN, HYBRID),
        0.0,
        "messages",
        tolerance=0.0,
        source="assumed by the papers",
        note="undelivered messages at the end of a run, maximum over cells",
    ),
    claim_near(
        "With nulls, all messages are delivered; so are those of the token-site protocol.",
        lambda tables: undelivered_most(tables, NULLS, HYBRID_NULLS, TOKEN),
        0.0,
        "messages",
        tolerance=0.0,
        source=OURS,
        kind="promise",
    ),
    claim_near(
        "Nulls make the hybrid no slower in any of the 18 cells.",
        lambda tables: max(worst_beside_best(tables, HYBRID_NULLS, source, HYBRID) for source in SOURCES),
        1.0,
        "times",
        "at most",
        tolerance=0.005,
        source=OURS,
        kind="promise",
        note="ratio of latencies with and without nulls, maximum over cells; one seed varies by half a percent",
    ),
    claim_near(
        "The symmetric protocol with nulls is nearly as fast, but sends over twice the packets where one site is busy.",
        lambda tables: (
            figure_of(tables["cells"], "multicasts_per_message", protocol=NULLS, source=PERIODIC, scenario="1 HLLLL")
            / figure_of(
                tables["cells"], "multicasts_per_message", protocol=HYBRID_NULLS, source=PERIODIC, scenario="1 HLLLL"
            )
        ),
        2.0,
        "times",
        "at least",
        tolerance=0.0,
        source=OURS,
        kind="promise",
        note="multicasts of the symmetric protocol over those of the hybrid in the first scenario, both with nulls",
    ),
)


def busy_words(tables: Tables) -> str:
    most = {name: max(latencies(tables, name, POISSON)) for name in (HYBRID_NULLS, TOKEN, NULLS)}
    sent = [
        fmean(numbers_of(tables["cells"], "multicasts_per_message", protocol=name, source=POISSON))
        for name in (HYBRID_NULLS, NULLS)
    ]
    return (
        f"at most {most[HYBRID_NULLS]:.0f} ms in all nine scenarios; token-site takes up to {most[TOKEN]:.0f} ms, "
        f"the symmetric protocol takes up to {most[NULLS]:.0f} ms and {sent[1] / sent[0]:.1f} times the multicasts"
    )


def by_scenario(source: str, table: str, y: str, name: str, caption: str, headline: bool = False) -> Figure:
    return Figure(
        id=f"{table}-{y.split('_')[0]}",
        title=f"Nine scenarios, {source} sources: {name}",
        caption=caption,
        table=table,
        x="scenario",
        y=y,
        series="protocol",
        error=f"{y}_half",
        xlabel="load of A B C and D E, high or low",
        ylabel=f"{name} (ms)" if y == "latency_ms" else name,
        stacks=LOOKS,
        headline=headline,
    )


LATENCY = "Mean over messages of the time from submit to the last delivery."
STUDY = Study(
    name="nine-scenarios",
    title="Nine scenarios of a network of two clusters",
    question="Is there a protocol that suits every distribution of load?",
    paper=PAPER,
    source=SECTION,
    seeds={"quick": 1, "full": 3},
    grid=grid,
    properties=PROPERTIES,
    tables=tables,
    claims=CLAIMS,
    advice=(Advice("Clusters far apart, with a load that is known and stays", "hybrid", busy_words),),
    networks=(five(),),
    figures=(
        by_scenario(
            POISSON,
            "offered",
            "latency_ms",
            "latency",
            "Five sites in two clusters 540 ms apart, 100 messages per second at a busy site and 1 at another. "
            f"{LATENCY} The protocols as they are offered, with nulls; below, as the paper has them.",
            headline=True,
        ),
        by_scenario(PERIODIC, "periodic", "latency_ms", "latency", LATENCY),
        by_scenario(POISSON, "poisson", "latency_ms", "latency", LATENCY),
        by_scenario(
            PERIODIC,
            "periodic",
            "multicasts_per_message",
            "multicasts per message",
            "Packets to all sites per message of the application: 1 is the message itself.",
        ),
    ),
)
