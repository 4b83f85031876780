"""Optimistic total order: how often a guess at the order is right, how early it comes, and what both are worth.

The paper's set-up (optimistic_setup.py) over rates and variances for every delay rule, its Table 1, the same at equal
windows, links with bandwidth and messages of two sizes, and networks shaped like clouds. Figures are means over the
sites of a *role*: the sequencer, those near it (its cluster), the distant ones. Beside every hit ratio stand window and
late share, because hits grow by themselves as the window vanishes. `usable_ms` is g = w / (1 - r): the longest
processing of a message that a guess right with probability r and early by w still makes faster.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measure.basics import ms, of_kind
from isthmus.pipeline.measure.latency import deliveries
from isthmus.pipeline.measure.optimism import hits
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.protocols.total.optimistic.compensation import PolicyName
from isthmus.scenario.model import Scenario
from isthmus.studies.model import Advice, Cell, Curve, Figure, Scale, Study
from isthmus.studies.optimistic import setup
from isthmus.studies.optimistic.claims import CLAIMS, PAPER, guess_words

POLICIES: tuple[PolicyName, ...] = ("none", "compensation", "open-loop", "stamped")
SIGMAS = (0.01, 0.03, 0.1)
RATES: dict[Scale, tuple[float, ...]] = {"quick": (100.0, 300.0), "full": (50.0, 100.0, 200.0, 300.0, 500.0)}
WINDOWS_MS: dict[Scale, dict[float, tuple[float, ...]]] = {
    "quick": {0.03: (22.0, 23.0), 0.1: (28.0,)},
    "full": {0.03: (16.0, 18.0, 20.0, 21.0, 22.0, 24.0), 0.1: (16.0, 20.0, 22.0, 24.0, 26.0, 28.0)},
}
CLOUD_NAMES: dict[Scale, tuple[str, ...]] = {
    "quick": ("continents", "continents, sequencer apart"),
    "full": tuple(setup.CLOUDS),
}
CLOUD_POLICIES: dict[Scale, tuple[PolicyName, ...]] = {
    "quick": ("none", "stamped"),
    "full": POLICIES,
}
FIGURES = ("hit", "hit_pair", "hit_either", "late_share", "window_ms", "latency_ms", "own_window_ms", "own_latency_ms")
BY = ("part", "network", "sigma", "rate_per_s", "policy", "aim_ms", "sizes", "role")


def cell(
    part: str, scenario: Scenario, near: int, warm_up_ms: float, seed: int, sigma: float = 0.0, rate: float = 0.0
) -> Cell:
    """A run with what tells it apart; `near` is the number of sites in the sequencer's cluster."""
    options = scenario.stack.optimistic
    return Cell(
        {
            "part": part,
            "network": scenario.topology.name if part == "cloud" else "two clusters",
            "sigma": sigma,
            "rate_per_s": rate,
            "policy": options.policy,
            "aim_ms": -1.0 if options.window_ms is None else options.window_ms,
            "sizes": options.sizes,
            "near": near,
            "warm_up_ms": warm_up_ms,
            "seed": seed,
        },
        scenario,
    )


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    return [made for seed in seeds for part in (paper, windows, narrow, clouds) for made in part(scale, seed)]


def paper(scale: Scale, seed: int) -> list[Cell]:
    """Rates and variances; at quick scale fewer and shorter runs, the longest where hits vary most."""
    cells = []
    for sigma in SIGMAS:
        for rate in RATES[scale]:
            for policy in POLICIES:
                length = lengths(scale, sigma, rate, policy)
                if length is not None:
                    made = setup.paper_scenario(sigma, rate, policy, seed, length[0])
                    cells.append(cell("paper", made, setup.CLUSTER_SITES, length[1], seed, sigma, rate))
    return cells


def lengths(scale: Scale, sigma: float, rate: float, policy: str) -> tuple[float, float] | None:
    """Duration and warm-up in ms; None where quick scale leaves a run out."""
    if scale == "full":
        return setup.DURATION_MS, setup.WARM_UP_MS
    if rate == 100.0 and sigma > 0.01:
        varies = sigma == 0.03 and policy in ("none", "compensation")
        return (60_000.0 if varies else 20_000.0), setup.WARM_UP_MS
    return (5_000.0, 2_500.0) if policy != "open-loop" and rate > 100.0 and sigma < 0.1 else None


def windows(scale: Scale, seed: int) -> list[Cell]:
    """Stamped and open-loop, aiming at given windows."""
    policies: tuple[PolicyName, ...] = ("stamped",) if scale == "quick" else ("open-loop", "stamped")
    quick_ms = {0.03: 60_000.0, 0.1: 20_000.0}  # the smaller the difference, the longer
    return [
        cell("window", made, setup.CLUSTER_SITES, setup.WARM_UP_MS, seed, sigma, 100.0)
        for sigma, aims in WINDOWS_MS[scale].items()
        for aim in aims
        for policy in policies
        for duration_ms in [quick_ms[sigma] if scale == "quick" else setup.DURATION_MS]
        for made in [setup.paper_scenario(sigma, 100.0, policy, seed, duration_ms, aim)]
    ]


def narrow(scale: Scale, seed: int) -> list[Cell]:
    policies: tuple[PolicyName, ...] = ("compensation",) if scale == "quick" else POLICIES[1:]
    duration_ms = 25_000.0 if scale == "quick" else setup.DURATION_MS
    return [
        cell("narrow", setup.narrow_scenario(policy, sizes, seed, duration_ms), setup.CLUSTER_SITES, 10_000.0, seed)
        for policy in policies
        for sizes in (False, True)
    ]


def clouds(scale: Scale, seed: int) -> list[Cell]:
    duration_ms = 15_000.0 if scale == "quick" else setup.DURATION_MS
    return [
        cell("cloud", made, setup.near_count(name), setup.WARM_UP_MS, seed, setup.CLOUD_SD, 100.0)
        for name in CLOUD_NAMES[scale]
        for policy in CLOUD_POLICIES[scale]
        for made in [setup.cloud_scenario(name, policy, seed, duration_ms)]
    ]


# Tables


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Figures by role; those of the paper's figures and table apart; what each run left."""
    parameters = runs.select("run", *(name for name in BY if name != "role"), "near", "warm_up_ms", "seed")
    each = by_process(trace, parameters)
    role = (
        F.when(F.col("process") == setup.SEQUENCER, "sequencer")
        .when(F.col("process") < F.col("near"), "near")
        .otherwise("distant")
    )
    one_run = each.withColumn("role", role).groupBy("run", "seed", *BY).agg(*(F.mean(f).alias(f) for f in FIGURES))
    figures = over_seeds(one_run, BY, FIGURES)
    usable = F.when(F.col("hit") < 1, F.col("window_ms") / (1 - F.col("hit")))
    shares = ("hit", "hit_pair", "hit_either", "late_share")
    percent = {f"{name}_percent": 100 * F.col(name) for name in shares}
    roles = figures.withColumns({"usable_ms": usable, **percent}).localCheckpoint()
    of_paper = roles.where((F.col("part") == "paper") & (F.col("role") != "sequencer"))
    by_rate = of_paper.withColumn("curve", F.concat_ws(", ", "role", "policy")).orderBy("curve", "rate_per_s")
    table_1 = (F.col("part") == "paper") & (F.col("sigma") == 0.1) & (F.col("rate_per_s") == 100)
    aimed = ((F.col("part") == "window") | table_1 | is_at(0.03)) & (F.col("role") == "distant")
    curve = F.concat(F.col("policy"), F.lit(", sigma "), (100 * F.col("sigma")).cast("int"), F.lit(" %"))
    found = {
        "roles": roles,
        "table_1": roles.where(table_1 & F.col("policy").isin("none", "compensation")),
        "windows": roles.where(aimed & (F.col("policy") != "none"))
        .withColumn("curve", curve)
        .orderBy("curve", "window_ms"),
        "clouds": roles.where("part = 'cloud'"),
        "runs": runs.select("run", "part", "network", "policy", "submitted", "undelivered", "refused").orderBy("run"),
    }
    return found | {f"rates_{round(100 * sigma)}": by_rate.where(F.col("sigma") == sigma) for sigma in SIGMAS}


def is_at(sigma: float) -> Column:
    return (F.col("part") == "paper") & (F.col("sigma") == sigma) & (F.col("rate_per_s") == 100)


def by_process(trace: DataFrame, parameters: DataFrame) -> DataFrame:
    """Hit ratios, windows and latencies of each process of each run, its own messages apart, after the warm-up."""
    known = F.broadcast(parameters.select("run", "warm_up_ms"))
    early = of_kind(Kind.SUBMIT) & (ms("time_ns") < F.col("warm_up_ms"))
    warm = trace.where(of_kind(Kind.SUBMIT, Kind.TENTATIVE, Kind.DELIVER)).join(known, "run").where(~early)
    own = F.col("sender") == F.col("process")
    log = deliveries(warm).localCheckpoint()  # both read it
    times = log.groupBy("run", "process").agg(
        F.mean(ms("window_ns")).alias("window_ms"),
        F.mean(ms("latency_ns")).alias("latency_ms"),
        F.mean(F.when(own, ms("window_ns"))).alias("own_window_ms"),
        F.mean(F.when(own, ms("latency_ns"))).alias("own_latency_ms"),
    )
    return hits(log).join(times, ["run", "process"]).join(F.broadcast(parameters), "run")


def over_rates(sigma: float, paper: tuple[Curve, ...] = ()) -> Figure:
    percent = round(100 * sigma)
    return Figure(
        id=f"rates-{percent}",
        title=f"Hit ratio over rate, sigma {percent} %",
        caption="Share of places at which the tentative log has the message of the final one; all rules, near and "
        "distant sites. Its table also has windows and late shares.",
        table=f"rates_{percent}",
        x="rate_per_s",
        y="hit_percent",
        series="curve",
        xlabel="messages per second, all senders together",
        ylabel="hits (%)",
        paper=paper,
    )


STUDY = Study(
    name="optimistic",
    title="Optimistic total order",
    question="How often is a guess at the order right, how much time does it give, and which delay rule guesses best?",
    paper=PAPER,
    source="sections 4 and 5",
    seeds={"quick": 1, "full": 2},
    grid=grid,
    properties=("integrity", "agreement", "validity", "views", "total", "final"),
    tables=tables,
    claims=CLAIMS,
    advice=(Advice("Work can start early and be undone", "optimistic", guess_words),),
    networks=(setup.paper_scenario(SIGMAS[1], RATES["quick"][0], "none", 1, setup.WARM_UP_MS).topology,),
    figures=(
        over_rates(0.01),
        over_rates(
            0.03,
            (
                Curve("the paper's distant process, plain", (100.0,), (11.2,)),
                Curve("the paper's distant process, compensated", (100.0,), (82.5,)),
            ),
        ),
        over_rates(0.1),
        Figure(
            id="windows",
            title="Hits over mean window, a distant site, 100 messages per second",
            caption="Each rule at the windows that it was set to, or that it reached by itself.",
            table="windows",
            x="window_ms",
            y="hit_percent",
            series="curve",
            xlabel="mean window (ms)",
            ylabel="hits (%)",
        ),
    ),
)
