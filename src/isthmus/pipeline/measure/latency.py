"""The latency of messages and deliveries: the definition of measure/summary.py, for DataFrames.

What is owed at the end is *missing*, unless the sender crashed after the submit: then it may have died with it. A crash
of one process is compared with a submit at another by time; at one process the local order decides.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.pipeline.engine.formats import MESSAGE, measured
from isthmus.pipeline.measure.basics import of_kind, spread_ms

PRESENT = (  # kinds whose rows show that a process is in the group; crashes and clocks are of the whole process
    *(Kind.SUBMIT, Kind.SEND, Kind.RECEIVE, Kind.TENTATIVE, Kind.DELIVER, Kind.REVOKE, Kind.VIEW, Kind.ROLE),
    Kind.REFUSE,
)
NEVER = (1 << 63) - 1  # ns


def messages(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """What was submitted, each message in its origin group: when, at which local number, to whom."""
    home = (F.col("process") == F.col("sender")) & (F.col("origin") == F.col("group"))
    late = F.col("time_ns") >= round(warm_up_ms * NS_PER_MS)
    return trace.where(of_kind(Kind.SUBMIT) & home & late).select(
        *MESSAGE,
        F.col("time_ns").alias("submitted_ns"),
        F.col("local").alias("submitted_local"),
        "destinations",
        "payload_bytes",
    )


def groups(trace: DataFrame) -> DataFrame:
    """For each run and group its processes, those elsewhere, and all their absences. Small.

    An absence is from a crash to the next view: of a process of the group there, of another one in any group.
    """
    few = trace.where(of_kind(Kind.VIEW, Kind.CRASH)).select("run", "group", "process", "local", "time_ns", "kind")
    present = trace.where(of_kind(*PRESENT)).select("run", "group", "process").distinct()
    everyone = present.select("run", "process").distinct()
    inside = present.withColumn("inside", F.lit(True))
    pairs = (
        present.select("run", "group")
        .distinct()
        .join(everyone, "run")
        .join(inside, ["run", "group", "process"], "left")
        .withColumn("inside", F.coalesce("inside", F.lit(False)))
    )
    crashes = few.where(of_kind(Kind.CRASH)).drop("group").join(pairs, ["run", "process"])
    views = few.where(of_kind(Kind.VIEW)).withColumnRenamed("group", "at").join(pairs, ["run", "process"])
    views = views.where((F.col("at") == F.col("group")) | ~F.col("inside")).drop("at")
    after = Window.partitionBy("run", "group", "process").orderBy("local").rowsBetween(1, Window.unboundedFollowing)
    view_ns = F.when(of_kind(Kind.VIEW), F.col("time_ns"))
    gone = (
        crashes.unionByName(views)
        .withColumn("back_ns", F.coalesce(F.first(view_ns, ignorenulls=True).over(after), F.lit(NEVER)))
        .where(of_kind(Kind.CRASH))
        .groupBy("run", "group")
        .agg(F.collect_list(F.struct("process", F.col("local").alias("crashed"), "back_ns")).alias("absences"))
    )
    process = F.col("process")
    members = pairs.groupBy("run", "group").agg(
        F.collect_set(F.when(F.col("inside"), process)).alias("members"),
        F.collect_set(F.when(~F.col("inside"), process)).alias("elsewhere"),
    )
    none = F.array().cast("array<struct<process:int,crashed:bigint,back_ns:bigint>>")
    return members.join(gone, ["run", "group"], "left").withColumn("absences", F.coalesce("absences", none))


def addressed() -> Column:
    """The processes that a message is addressed to: of its group, and named ones of others."""
    known = F.concat(F.col("members"), F.col("elsewhere"))
    return F.coalesce(F.array_intersect(F.col("destinations"), known), F.col("members"))


def at_home(trace: DataFrame, *kinds: Kind) -> DataFrame:
    """Deliveries in a message's origin group, and those at processes that are not in it, as if they were there."""
    foreign = F.broadcast(groups(trace).select("run", F.col("group").alias("origin"), "elsewhere"))
    rows = trace.where(of_kind(*kinds))
    home = rows.where(F.col("origin") == F.col("group"))
    away = rows.where(F.col("origin") != F.col("group")).join(foreign, ["run", "origin"])
    away = away.where(F.array_contains("elsewhere", F.col("process"))).withColumn("group", F.col("origin"))
    return home.unionByName(away.select(*home.columns))


def absent(process: Column, delivered: Column | None = None) -> Column:
    """Whether a process was down at the submit or crashed after it; of a delivery, before it was made."""

    def missed(absence: Column) -> Column:
        gone = (absence["process"] == process) & (absence["back_ns"] > F.col("submitted_ns"))
        return gone if delivered is None else gone & (absence["crashed"] < delivered)

    return F.exists("absences", missed)


def deliveries(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Each process's first delivery of a message in its origin group, owed or not, and its latency.

    With it the time in the tentative log (optimism.py), and the local numbers of its places in both logs.
    """
    final, place = of_kind(Kind.DELIVER), F.col("local")
    found = (
        at_home(trace, Kind.TENTATIVE, Kind.DELIVER)
        .groupBy(*MESSAGE, "process")
        .agg(
            F.min(F.when(final, F.col("time_ns"))).alias("delivered_ns"),
            F.min("time_ns").alias("seen_ns"),
            F.min(F.when(final, place)).alias("final_local"),
            F.min(place).alias("seen_local"),
        )
        .where(F.col("delivered_ns").isNotNull())
    )
    zero = F.lit(0).cast("bigint")
    return found.join(messages(trace, warm_up_ms).drop("submitted_local", "payload_bytes"), list(MESSAGE)).select(
        "*",
        F.greatest(zero, F.col("delivered_ns") - F.col("submitted_ns")).alias("latency_ns"),
        F.greatest(zero, F.col("seen_ns") - F.col("submitted_ns")).alias("tentative_ns"),
        (F.col("delivered_ns") - F.col("seen_ns")).alias("window_ns"),
        (F.col("seen_local") == F.col("final_local")).alias("late"),  # final before it was tentative
    )


def owed_deliveries(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    owed = F.array_contains(addressed(), F.col("process")) & ~absent(F.col("process"), F.col("final_local"))
    return deliveries(trace, warm_up_ms).join(F.broadcast(groups(trace)), ["run", "group"]).where(owed)


def message_table(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Each message: when submitted, when last delivered, how many owed deliveries it has and how many are missing."""
    process = F.col("process")
    first = (
        at_home(trace, Kind.DELIVER)
        .select(*MESSAGE, "process", "local", "time_ns")
        .repartition(*MESSAGE)
        .groupBy(*MESSAGE, "process")
        .agg(F.min("local").alias("local"), F.min("time_ns").alias("time_ns"))
    )
    sent = messages(trace, warm_up_ms).join(F.broadcast(groups(trace)), ["run", "group"])
    counts = F.array_contains(addressed(), process) & ~absent(process, F.col("local"))
    zero = F.lit(0).cast("bigint")
    met = first.join(sent, list(MESSAGE)).where(counts)
    last = met.groupBy(*MESSAGE).agg(
        F.max("time_ns").alias("last_ns"),
        F.count("*").alias("delivered"),
        F.count_if(~absent(process)).alias("reached"),
    )
    owed = F.size(F.filter(addressed(), lambda one: ~absent(one)))
    orphan = F.exists(
        "absences",
        lambda absence: (absence["process"] == F.col("sender")) & (absence["crashed"] > F.col("submitted_local")),
    )
    latency = F.greatest(zero, F.col("last_ns") - F.col("submitted_ns"))
    return (
        sent.join(last, list(MESSAGE), "left")
        .fillna(0, ["delivered", "reached"])
        .withColumn("lacking", F.greatest(zero, owed - F.col("reached")))
        .withColumn("missing", F.when(orphan, zero).otherwise(F.col("lacking")))
        .withColumn("latency_ns", F.when((F.col("lacking") == 0) & F.col("last_ns").isNotNull(), latency))
        .select(*MESSAGE, "submitted_ns", "last_ns", "delivered", "missing", "latency_ns", "payload_bytes")
    )


def message_latency(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Latency as the papers define it, from submit to the last delivery, over messages; and what is undelivered."""
    found = (
        message_table(trace, warm_up_ms)
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("messages"),
            F.sum("missing").alias("undelivered"),
            *spread_ms("latency_ns", "latency"),
        )
    )
    return measured(found, "message_latency", by)


def delivery_latency(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Latency of each owed delivery by itself."""
    counted = F.count("*").alias("deliveries")
    owed = owed_deliveries(trace, warm_up_ms)
    found = owed.groupBy("run", *by).agg(counted, *spread_ms("latency_ns", "latency"))
    return measured(found, "delivery_latency", by)
