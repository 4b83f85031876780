"""The tables of the study `optimistic`, measured on Spark."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measure.basics import ms, of_kind
from isthmus.pipeline.measure.latency import deliveries
from isthmus.pipeline.measure.optimism import hits
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.optimistic.setup import SEQUENCER, SIGMAS

FIGURES = ("hit", "hit_pair", "hit_either", "late_share", "window_ms", "latency_ms", "own_window_ms", "own_latency_ms")
BY = ("part", "network", "sigma", "rate_per_s", "policy", "aim_ms", "sizes", "role")


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Figures by role, those of the paper's figures and table apart; undelivered messages of each run."""
    parameters = runs.select("run", *(name for name in BY if name != "role"), "near", "warm_up_ms", "seed")
    each = by_process(trace, parameters)
    role = (
        F.when(F.col("process") == SEQUENCER, "sequencer")
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
