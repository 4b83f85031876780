"""Regret: how much more a choice of roles costs than the best fixed one in hindsight.

An *instance* is a network with its traffic (instances.py): the nine scenarios, five sites drawn at random, regions of a
cloud. On each, every set of active sites is simulated, each passive site with the nearest of them, all with the same
seed and so with the same messages; the best of those, or a planned one if it is better still, is what hindsight says.
Beside it stand five ways to choose without: the planner, which knows delays and rates; the paper's rule, which compares
each site with its neighbour, with our nulls and without any; and our dynamic hybrid, which knows nothing at first: as
it is, with a plan for the whole group, and with each site choosing for itself.

Where there are more than 31 sets, only those are simulated of which the least is predicted; of a cloud at quick scale,
the first four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean

import msgspec
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.advise.order.total import hybrid_stack
from isthmus.scenario.model import HybridSpec, Scenario, StackSpec
from isthmus.stacks.roles.assignment import RoleChoice, paper_rule, plan, with_nearest
from isthmus.stacks.roles.prediction import RoleAssignment, Setting
from isthmus.studies.model import Advice, Cell, Claim, Figure, Scale, Study, Tables, numbers_of
from isthmus.studies.nine_scenarios.tickets import (
    DRAIN_MS,
    LOOKS,
    NO_NULLS,
    OURS,
    PAPER,
    PROPERTIES,
    dynamic,
    message_latencies,
    summary,
)
from isthmus.studies.regret.instances import (
    CLOUDS,
    KINDS,
    NINE,
    StreamKind,
    as_topology,
    as_workloads,
    cloud_setting,
    drawn_setting,
    nine_setting,
)

OURS_SPEC = HybridSpec()
NULL_MS = OURS_SPEC.null_ms
ALONE_SPEC = HybridSpec(rule="dynamic")
FIXED, PLANNED, RULE, RULE_PLAIN, DYNAMIC, ALONE = (
    "fixed",
    "planned",
    "paper's rule, nulls",
    "paper's rule, no nulls",
    "dynamic hybrid, ours",
    "dynamic hybrid, each alone",
)
CHOICES = (PLANNED, RULE, RULE_PLAIN, DYNAMIC, ALONE)
SETS_MAX = 31  # all sets of active sites, of five sites
FEW_SETS = 4  # of a cloud at quick scale
DRAWN: dict[Scale, int] = {"quick": 4, "full": 30}
NINE_OF: dict[Scale, tuple[str, ...]] = {"quick": ("HLLLL", "HHLHL", "LLLHH"), "full": NINE}
CLOUDS_OF: dict[Scale, tuple[str, ...]] = {"quick": tuple(CLOUDS)[:1], "full": tuple(CLOUDS)}
FROM_MS: dict[Scale, float] = {"quick": 4_000.0, "full": 5_000.0}  # until the dynamic hybrid has found its roles
LAST_MS: dict[Scale, float] = {"quick": 1_000.0, "full": 2_000.0}  # after the span
MESSAGES: dict[Scale, int] = {"quick": 500, "full": 2_000}  # in the span, where that is not too short or too long
PERIOD_MIN_MS, DURATION_MAX_MS = 2_000.0, 40_000.0


class Instance(msgspec.Struct, frozen=True):
    """A network with its traffic."""

    name: str
    family: str
    kind: StreamKind
    setting: Setting


def instances(scale: Scale) -> Iterator[Instance]:
    """At quick scale each has one kind of source, in turn."""
    made: list[tuple[str, str, Callable[..., Setting]]] = [
        *(("nine", load, partial(nine_setting, load)) for load in NINE_OF[scale]),
        *(("cloud", name, partial(cloud_setting, name)) for name in CLOUDS_OF[scale]),
        *(("drawn", f"drawn {number}", partial(drawn_setting, number)) for number in range(DRAWN[scale])),
    ]
    for place, (family, name, make) in enumerate(made):
        for kind in KINDS if scale == "full" and family != "drawn" else (KINDS[place % 2],):
            yield Instance(f"{name}, {kind}", family, kind, make(kind=kind, null_ms=NULL_MS))


def fixed_choices(setting: Setting, most: int) -> list[RoleChoice]:
    """Every set of active sites with the nearest sequencers, at most so many: those that should cost least."""
    sites = range(setting.count)
    sets = [active for size in sites for active in combinations(sites, size + 1)]
    choices = [with_nearest(setting, active) for active in sets]
    return sorted(choices, key=lambda choice: choice.mean_ms)[:most]


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [made for instance in instances(scale) for seed in seeds for made in cells_of(instance, seed, scale)]


def cells_of(instance: Instance, seed: int, scale: Scale) -> Iterator[Cell]:
    setting = instance.setting
    topology = as_topology(setting)
    rule = paper_rule(setting.delays_ms, setting.periods_ms)
    most = FEW_SETS if scale == "quick" and instance.family == "cloud" else SETS_MAX
    stacks = [(FIXED, choice.roles, OURS_SPEC) for choice in fixed_choices(setting, most)]
    stacks += [(PLANNED, plan(setting).roles, OURS_SPEC), (RULE, rule, OURS_SPEC), (RULE_PLAIN, rule, NO_NULLS)]
    for choice, roles, spec in stacks:
        stack = msgspec.structs.replace(hybrid_stack(topology, roles, spec), transport="direct")
        yield cell(instance, choice, roles_label(roles), stack, seed, scale)
    yield cell(instance, DYNAMIC, "", dynamic(OURS_SPEC), seed, scale)
    yield cell(instance, ALONE, "", dynamic(ALONE_SPEC), seed, scale)


def roles_label(roles: RoleAssignment) -> str:
    """An assignment in a few letters: the sequencer of each site."""
    return " ".join(map(str, roles.sequencer))


def cell(instance: Instance, choice: str, roles: str, stack: StackSpec, seed: int, scale: Scale) -> Cell:
    wanted_ms = MESSAGES[scale] / sum(instance.setting.rates)
    from_ms = FROM_MS[scale]
    until_ms = from_ms + min(DURATION_MAX_MS, max(PERIOD_MIN_MS, wanted_ms))
    scenario = Scenario(
        name="regret",
        topology=as_topology(instance.setting),
        stack=stack,
        workloads=as_workloads(instance.setting),
        seed=seed,
        duration_ms=until_ms + LAST_MS[scale],
        drain_ms=DRAIN_MS,
        wire="reference",
    )
    names = {"instance": instance.name, "family": instance.family, "kind": instance.kind}
    return Cell(
        {**names, "choice": choice, "roles": roles, "from_ms": from_ms, "until_ms": until_ms, "seed": seed}, scenario
    )


# Tables


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Every run compared with the best fixed one of its instance; the regret of each choice and its distribution."""
    names = ["instance", "family", "kind", "choice", "roles"]
    each = summary(message_latencies(trace, runs)).join(runs.select("run", "seed", "packets", *names), "run")
    same = Window.partitionBy("instance", "seed")
    fixed = F.col("choice").isin(FIXED, PLANNED, RULE)
    best = F.min(F.when(fixed, F.col("latency_ms"))).over(same)
    regret = 100 * (F.col("latency_ms") / best - 1)
    every = each.withColumn("regret_percent", regret).orderBy("run").localCheckpoint()
    of_choice = every.where(F.col("choice").isin(*CHOICES))
    ranked = Window.partitionBy("choice").orderBy("regret_percent", "instance", "seed")
    share = 100 * F.percent_rank().over(ranked)
    return {
        "runs": every,
        "regret": of_choice.select(
            "instance", "family", "kind", "choice", "seed", "latency_ms", "packets", "regret_percent"
        ),
        "nine": of_choice.where("family = 'nine'")
        .groupBy("instance", "choice")
        .agg(F.mean("regret_percent").alias("regret_percent"))
        .orderBy("instance", "choice"),
        "ranked": of_choice.select("choice", "regret_percent", share.alias("share")).orderBy("choice", "share"),
    }


def worst(tables: Tables, choice: str, **wanted: object) -> float:
    return max(numbers_of(tables["regret"], "regret_percent", choice=choice, **wanted))


def beside_rule(tables: Tables) -> float:
    """The mean over instances of the dynamic hybrid's latency over that of the paper's rule without nulls."""
    pair = [numbers_of(tables["regret"], "latency_ms", choice=choice) for choice in (DYNAMIC, RULE_PLAIN)]
    return fmean(mine / theirs for mine, theirs in zip(*pair, strict=True))


def planned_words(tables: Tables) -> str:
    found = [worst(tables, choice) for choice in (PLANNED, DYNAMIC)]
    return (
        f"planned roles are within {max(0.0, found[0]):.1f} % of the best in hindsight on every network tried; "
        f"the dynamic hybrid, which is told nothing, within {max(0.0, found[1]):.1f} %"
    )


def more_packets(tables: Tables) -> float:
    """How many more packets the dynamic hybrid takes than one in which each site chooses for itself, on the mean."""
    mine, alone = [numbers_of(tables["regret"], "packets", choice=choice) for choice in (DYNAMIC, ALONE)]
    return 100 * (fmean(a / b for a, b in zip(mine, alone, strict=True)) - 1)


def dynamic_claim(kind: StreamKind) -> Claim:
    return Claim(
        statement=f"With {kind} sources, the largest regret of our dynamic hybrid is at most that of the paper's rule, "
        "which is given delays and rates.",
        source=OURS,
        kind="promise",
        measure=lambda tables: worst(tables, DYNAMIC, kind=kind) - worst(tables, RULE_PLAIN, kind=kind),
        expected=0.0,
        relation="at most",
        unit="points",
        note="largest latency above that of the best fixed roles, ours less the paper's rule as it is in the paper, "
        "without nulls, on the same instances",
    )


CLAIMS = (
    Claim(
        statement="No fixed assignment is more than 2 % better than the planned one.",
        source=OURS,
        kind="promise",
        measure=lambda tables: worst(tables, PLANNED),
        expected=2.0,
        relation="at most",
        unit="%",
        note="simulated, maximum over instances; of five sites every set of active sites",
    ),
    Claim(
        statement="The paper's rule finds the best roles in the nine scenarios.",
        source="section 4.4",
        measure=lambda tables: worst(tables, RULE, family="nine"),
        expected=2.0,
        relation="at most",
        unit="%",
        note="with nulls, as all others; the worst scenario",
    ),
    Claim(
        statement="The dynamic hybrid, which is told nothing, is within 5 % of the best in hindsight on the mean.",
        source=OURS,
        kind="promise",
        measure=lambda tables: fmean(numbers_of(tables["regret"], "regret_percent", choice=DYNAMIC)),
        expected=5.0,
        relation="at most",
        unit="%",
        note="mean over instances of the latency above that of the best fixed roles",
    ),
    Claim(
        statement="It is within 10 % on every one of them.",
        source=OURS,
        kind="promise",
        measure=lambda tables: worst(tables, DYNAMIC),
        expected=10.0,
        relation="at most",
        unit="%",
        note="maximum over instances",
    ),
    Claim(
        statement="A plan for the whole group takes at most 10 % more packets than each site choosing for itself.",
        source=OURS,
        kind="promise",
        measure=more_packets,
        expected=10.0,
        relation="at most",
        unit="%",
        note="mean over instances; probes, words to the planner and changes of roles included",
    ),
    *map(dynamic_claim, KINDS),
    Claim(
        statement="Our dynamic hybrid learns delays and rates, and is as fast as the paper's rule that is given them.",
        source=OURS,
        kind="promise",
        measure=beside_rule,
        expected=1.0,
        relation="at most",
        unit="times",
        note="ratio of its latency to that of the paper's rule without nulls, as in the paper; mean over instances",
    ),
    Claim(
        statement="Every choice with nulls delivers all messages.",
        source=OURS,
        kind="promise",
        measure=lambda tables: max(
            float(row["undelivered_messages"]) for row in tables["runs"] if row["choice"] != RULE_PLAIN
        ),
        expected=0.0,
        unit="messages",
    ),
)
STUDY = Study(
    name="regret",
    title="The price of choosing roles without hindsight",
    question="How much slower is each way of choosing roles than the best roles in hindsight?",
    paper="",
    source=f'beyond "{PAPER}"',
    seeds={"quick": 1, "full": 1},
    grid=grid,
    properties=PROPERTIES,
    tables=tables,
    claims=CLAIMS,
    advice=(Advice("Delays and rates are known: let isthmus plan assign the roles", "hybrid", planned_words),),
    figures=(
        Figure(
            id="regret",
            title="Regret of each way to choose roles, over all instances",
            caption="Latency beyond that of the best fixed assignment in hindsight; each line goes from the instance "
            "where its choice does best to the one where it does worst.",
            table="ranked",
            x="share",
            y="regret_percent",
            series="choice",
            xlabel="share of the instances (%)",
            ylabel="regret (%)",
            stacks=LOOKS,
        ),
        Figure(
            id="regret-nine",
            title="Regret in the nine scenarios",
            caption="The same, scenario by scenario.",
            table="nine",
            x="instance",
            y="regret_percent",
            series="choice",
            xlabel="load and source",
            ylabel="regret (%)",
            stacks=LOOKS,
        ),
    ),
)
