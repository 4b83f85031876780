"""The tables of the study `churn`, measured on Spark: what those that stay notice, what changes, and what it costs."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.engine.formats import MESSAGE
from isthmus.pipeline.measure.basics import ms, of_kind, spread_ms
from isthmus.pipeline.measure.latency import messages
from isthmus.pipeline.measure.membership import view_installs
from isthmus.pipeline.measure.seeds import over_seeds
from isthmus.studies.churn.claims import FLOODING, HIGH_PER_S
from isthmus.studies.churn.setup import SENDING_MS, STAYING, WARM_UP_MS
from isthmus.topology.overlay.links import Overlay

BY = ["protocol", "sites", "changes_per_s"]
FIGURES = (
    "latency_mean_ms",
    "latency_p99_ms",
    "gap_ms",
    "lost",
    "refused_staying",
    "moved",
    "join_ms",
    "links_each",
    "links_max",
    "packets_each",
    "bytes_each",
)


def tables(trace: DataFrame, runs: DataFrame) -> dict[str, DataFrame]:
    """All figures by stack, size and rate, means over seeds; those of the largest group, and links by size, apart."""
    bytes_sent = F.col("control_bytes") + F.col("payload_bytes")
    found = runs.withColumns(
        {"packets_each": F.col("packets") / F.col("delivered"), "bytes_each": bytes_sent / F.col("delivered")}
    )
    for measured in (among_staying(trace), refusals(trace), membership(trace, runs), joins(trace)):
        found = found.join(measured, "run", "left")
    figures = over_seeds(found.fillna(0, ["refused_staying"]), [*BY, "asked"], FIGURES).localCheckpoint()
    largest = figures.groupBy().agg(F.max("sites").alias("sites"))
    at_high = (F.col("changes_per_s") == HIGH_PER_S) & F.col("links_each").isNotNull()
    return {
        "figures": figures,
        "largest": figures.join(F.broadcast(largest), "sites").orderBy("protocol", "changes_per_s"),
        "links": figures.where(at_high).orderBy("protocol", "sites"),
    }


def among_staying(trace: DataFrame) -> DataFrame:
    """Deliveries at members that stay of each other's messages: latency, those missing, the longest gap at any."""
    sent = messages(trace.where(F.col("sender") < STAYING), WARM_UP_MS).select(*MESSAGE, "submitted_ns")
    staying = (F.col("process") < STAYING) & (F.col("sender") < STAYING)
    rows = trace.where(of_kind(Kind.DELIVER) & staying).select(*MESSAGE, "process", "time_ns")
    got = rows.join(sent, list(MESSAGE)).withColumn("latency_ns", F.col("time_ns") - F.col("submitted_ns"))
    before = F.lag("time_ns").over(Window.partitionBy("run", "process").orderBy("time_ns"))
    gap_ms = F.when(F.col("time_ns") < round(SENDING_MS * NS_PER_MS), ms(F.col("time_ns") - before))
    reached = (
        got.withColumn("gap_ms", gap_ms)
        .groupBy("run")
        .agg(*spread_ms("latency_ns", "latency"), F.max("gap_ms").alias("gap_ms"), F.count("*").alias("reached"))
    )
    owed = sent.groupBy("run").agg((F.count("*") * STAYING).alias("owed"))
    return owed.join(reached, "run", "left").withColumn("lost", F.col("owed") - F.coalesce("reached", F.lit(0)))


def refusals(trace: DataFrame) -> DataFrame:
    """Submissions of members that stay which were refused, after the warm-up."""
    late = F.col("time_ns") >= round(WARM_UP_MS * NS_PER_MS)
    refused = trace.where(of_kind(Kind.REFUSE) & late & (F.col("process") < STAYING))
    return refused.groupBy("run").agg(F.count("*").alias("refused_staying"))


def overlay_links(protocol: str, members: list[int]) -> list[int] | None:
    """Each link of the overlay of a view as one number: by id, which views give by site, and the directory by place."""
    if protocol not in FLOODING:
        return None
    ids = sorted(members) if protocol == "flooding" else members
    near = Overlay().adjacency(len(ids))
    return [(ids[a] << 16) + ids[b] for a in range(len(ids)) for b in near[a] if ids[a] < ids[b]]


def membership(trace: DataFrame, runs: DataFrame) -> DataFrame:
    """Members that came or went from view to view, and links that were opened or closed for them."""
    views = trace.where(of_kind(Kind.VIEW)).groupBy("run", F.col("value").alias("view"))
    known = views.agg(F.first("destinations").alias("members")).join(runs.select("run", "protocol"), "run")
    links = F.udf(overlay_links, "array<int>", useArrow=False)
    known = known.withColumn("links", links("protocol", "members"))
    order = Window.partitionBy("run").orderBy("view")

    def difference(name: str) -> Column:
        before = F.lag(name).over(order)
        return F.size(F.array_except(before, name)) + F.size(F.array_except(name, before))

    changes = known.withColumns({"moved_now": difference("members"), "links_now": difference("links")})
    return (
        changes.where("moved_now > 0")
        .groupBy("run")
        .agg(
            F.sum("moved_now").alias("moved"),
            (F.sum("links_now") / F.sum("moved_now")).alias("links_each"),
            F.max(F.col("links_now") / F.col("moved_now")).alias("links_max"),
        )
    )


def joins(trace: DataFrame) -> DataFrame:
    """The mean time from a site's return to the last installation of a view that has it."""
    returned = view_installs(trace).where("change = 'recover'")
    return returned.groupBy("run").agg(F.mean("last_ms").alias("join_ms"))
