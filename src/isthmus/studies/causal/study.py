"""Causal separators: how large timestamps and histories are, with separators and without, as LANs are added.

A message must tell of the past what its addressees were not told. In a ring of LANs most traffic is local, yet without
separators every host hears, by and by, of messages in every LAN. The gateways of a LAN are a separator: once they were
told of a local message, no one outside needs to be. Figures are of timestamps as first sent, to hosts of one LAN (where
zones are nested: to participants of one node), and of the history of one of them, after 40 % of the time of sending.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.measure.basics import of_kind
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.causal.claims import CLAIMS, PAPER
from isthmus.studies.causal.setup import (
    RULES,
    SENDING_MS,
    STACKS_OF,
    WARM_UP,
    Traffic,
    causal_scenario,
    first_group,
)
from isthmus.studies.model import Cell, Curve, Figure, Scale, Study
from isthmus.trace.schema import Gauge

TITLE = "Topology-aware algorithms for large-scale communication"
AT_3_BY_8 = tuple(RULES)[:-2]
LENGTH = ("R1 to R4", "R1 to R8")  # how sizes change over a run
LOCAL_RULES = ("symmetric", "symmetric, R9", "all but R9", "all")
BY = ["traffic", "lans", "hosts", "rules"]
KEPT_SMALL = ("symmetric, R9", "all")  # shown over the number of LANs and hosts
PARTS = 12  # of the time of sending
SIZES: dict[Scale, dict[tuple[Traffic, int, int], tuple[str, ...]]] = {
    "quick": {
        ("groups", 3, 4): (*LENGTH, "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 8): AT_3_BY_8,
        ("groups", 3, 16): ("all",),
        ("groups", 12, 8): ("symmetric, R9", "all"),
        ("groups", 24, 8): ("symmetric, R9", "all"),
        ("subsets", 3, 8): ("symmetric, R9", "all but R9", "all"),
        ("drawn", 3, 8): ("all but R9", "all"),
        ("nested", 3, 10): ("all but R9", "all"),
        ("regions", 3, 10): ("all",),
    },
    "full": {
        ("groups", 3, 4): (*LENGTH, "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 8): AT_3_BY_8,
        ("groups", 3, 16): ("symmetric", "symmetric, R9", "all", "vector", "matrix"),
        ("groups", 3, 32): ("symmetric", "symmetric, R9", "all"),
        ("groups", 6, 16): ("symmetric", "symmetric, R9", "all"),
        ("groups", 12, 16): (*tuple(RULES)[:4], "all", "all, masks"),
        ("groups", 24, 16): ("symmetric, R9", "all"),
        ("groups", 12, 32): ("symmetric", "symmetric, R9", "all", "all, masks"),
        ("groups", 6, 8): ("symmetric, R9", "all", "vector", "matrix"),
        ("groups", 12, 8): ("symmetric, R9", "all"),
        ("groups", 24, 8): ("symmetric, R9", "all"),
        ("subsets", 3, 8): (*LOCAL_RULES, "vector", "matrix"),
        ("subsets", 3, 16): LOCAL_RULES,
        ("subsets", 12, 8): LOCAL_RULES,
        ("drawn", 3, 8): LOCAL_RULES,
        ("drawn", 3, 16): LOCAL_RULES,
        ("drawn", 12, 8): ("symmetric, R9", "all"),
        ("nested", 3, 10): LOCAL_RULES,
        ("nested", 6, 10): LOCAL_RULES,
        ("nested", 12, 10): LOCAL_RULES,
        ("regions", 3, 10): ("all but R9", "all"),
        ("regions", 6, 10): ("all but R9", "all"),
    },
}


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    cells = []
    for (traffic, lans, hosts), chosen in SIZES[scale].items():
        first, last = first_group(lans, hosts, traffic)
        of_size = {"traffic": traffic, "lans": lans, "hosts": hosts, "first": first, "last": last}
        for rules in chosen:
            stack = STACKS_OF.get(rules, "causal-separators")
            for seed in seeds:
                scenario = causal_scenario(lans, hosts, stack, RULES[rules], seed, traffic)
                cells.append(Cell({**of_size, "rules": rules, "seed": seed}, scenario))
    return cells


def is_gauge(gauge: Gauge) -> Column:
    return of_kind(Kind.GAUGE) & (F.col("gauge") == int(gauge))


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """Sizes of timestamps and of one site's history, their distributions, and how they change over a run."""
    parameters = runs.select("run", *BY, "first", "last", "seed")
    local = (
        trace.where(of_kind(Kind.SUBMIT))
        .join(parameters, "run")
        .where((F.array_min("destinations") >= F.col("first")) & (F.array_max("destinations") <= F.col("last")))
        .select("run", "sender", "number")
    )
    warm = trace.where(between(WARM_UP, 1.0))
    values: dict[str, DataFrame] = {
        "entries": warm.where(is_gauge(Gauge.TIMESTAMP_ENTRIES)).join(local, ["run", "sender", "number"]),
        "bytes": warm.where(is_gauge(Gauge.TIMESTAMP_BYTES)).join(local, ["run", "sender", "number"]),
        "history": warm.where(is_gauge(Gauge.HISTORY_ENTRIES))
        .join(parameters.select("run", "first"), "run")
        .where(F.col("process") == F.col("first")),
        "leaving": warm.where(is_gauge(Gauge.ZONE_ENTRIES)),
    }
    found = parameters
    for name, rows in values.items():
        sizes = rows.groupBy("run").agg(
            F.mean("value").alias(name),
            F.percentile_approx("value", 0.95, 10_000).alias(f"{name}_p95"),
            F.max("value").alias(f"{name}_max"),
        )
        found = found.join(sizes, "run", "left")  # vectors and matrices have no history, and nothing is relayed
    sizes = over_seeds(found, BY, [f"{name}{part}" for name in values for part in ("", "_p95", "_max")])
    groups = sizes.where("traffic = 'groups'")
    return {
        "sizes": sizes,
        "growth": groups.where((F.col("hosts") == 8) & F.col("rules").isin(*KEPT_SMALL)),
        "hosts": groups.where((F.col("lans") == 3) & F.col("rules").isin(*KEPT_SMALL, "vector", "matrix")),
        "over_time": over_time(trace.join(parameters, "run")),
        "timestamps": distribution(values["entries"].join(parameters, "run"), "groups"),
        "histories": distribution(values["history"].drop("first").join(parameters, "run"), "groups"),
        "subsets": distribution(values["entries"].join(parameters, "run"), "subsets"),
        "subset_histories": distribution(values["history"].drop("first").join(parameters, "run"), "subsets"),
    }


def between(first: float, last: float) -> Column:
    """Whether a row is of a part of the time of sending."""
    return F.col("time_ns").between(round(first * SENDING_MS * 1e6), round(last * SENDING_MS * 1e6))


def over_time(rows: DataFrame) -> DataFrame:
    """Entries of all timestamps, by part of the time of sending."""
    part_ms = SENDING_MS / PARTS
    at_ms = (F.floor(F.col("time_ns") / (part_ms * 1e6)) + 0.5) * part_ms
    sent = rows.where(between(0, 1) & is_gauge(Gauge.TIMESTAMP_ENTRIES) & F.col("rules").isin(*LENGTH))
    return (
        sent.withColumn("at_ms", at_ms)
        .where(F.col("at_ms") < SENDING_MS)
        .groupBy("rules", "at_ms")
        .agg(F.mean("value").alias("entries"), F.count("*").alias("messages"))
        .orderBy("rules", "at_ms")
    )


def distribution(rows: DataFrame, traffic: str) -> DataFrame:
    """The share of values up to each one, at 3 LANs of 8 hosts."""
    rules = (*tuple(RULES)[:4], "all") if traffic == "groups" else LOCAL_RULES
    at_size = (F.col("lans") == 3) & (F.col("hosts") == 8) & (F.col("traffic") == traffic)
    counts = (
        rows.where(at_size & F.col("rules").isin(*rules)).groupBy("rules", "value").agg(F.count("*").alias("count"))
    )
    up_to = Window.partitionBy("rules").orderBy("value")
    total = Window.partitionBy("rules")
    share = F.sum("count").over(up_to) / F.sum("count").over(total)
    return counts.withColumn("share", share).select("rules", "value", "share").orderBy("rules", "value")


STUDY = Study(
    name="causal-separators",
    title="Causal order with separators",
    question="How much must a message say of the past, and does that depend on the number of LANs?",
    paper=TITLE,
    source=f"{PAPER}: LANs in a ring; groups inside LANs and across two of them, sets at random, nodes on LANs",
    seeds={"quick": 1, "full": 5},
    grid=grid,
    properties=("integrity", "validity", "fifo", "causal"),
    tables=tables,
    claims=CLAIMS,
    figures=(
        Figure(
            id="timestamps",
            title="Timestamps of messages to one LAN",
            caption="Share of messages whose timestamp has at most so many entries; 3 LANs of 8 hosts.",
            table="timestamps",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of a timestamp",
            ylabel="share of messages",
        ),
        Figure(
            id="histories",
            title="History of one host",
            caption="Share of time in which the history has at most so many entries; 3 LANs of 8 hosts.",
            table="histories",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of the history",
            ylabel="share of time",
        ),
        Figure(
            id="growth",
            title="History of a host over the number of LANs",
            caption="Mean history of one host with separators, 8 hosts in each LAN.",
            table="growth",
            x="lans",
            y="history",
            series="rules",
            error="history_half",
            xlabel="LANs",
            ylabel="entries of the history",
            paper=(Curve("11 entries, whatever the number of LANs", (3.0, 24.0), (11.0, 11.0)),),
        ),
        Figure(
            id="hosts",
            title="Timestamps over the number of hosts",
            caption="Mean bytes of a timestamp to one LAN, 3 LANs; matrix and vector count hosts, not gateways.",
            table="hosts",
            x="hosts",
            y="bytes",
            series="rules",
            error="bytes_half",
            log=("y",),
            xlabel="hosts in each LAN",
            ylabel="bytes of a timestamp",
        ),
        Figure(
            id="over-time",
            title="Timestamps over the length of a run",
            caption="Mean entries of a timestamp, without separators; R1 to R4 alone tell all of the past.",
            table="over_time",
            x="at_ms",
            y="entries",
            series="rules",
            xlabel="time, ms",
            ylabel="entries of a timestamp",
        ),
        Figure(
            id="subset-timestamps",
            title="Timestamps of messages to random sets inside one LAN",
            caption="Share of messages whose timestamp has at most so many entries; 3 LANs of 8 hosts, random sets.",
            table="subsets",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of a timestamp",
            ylabel="share of messages",
        ),
        Figure(
            id="subset-histories",
            title="History of one host, random sets",
            caption="Share of time in which the history has at most so many entries; 3 LANs of 8 hosts, random sets.",
            table="subset_histories",
            x="value",
            y="share",
            series="rules",
            xlabel="entries of the history",
            ylabel="share of time",
        ),
    ),
)
