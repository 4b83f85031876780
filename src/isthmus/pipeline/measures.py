"""What a trace says about speed: latency, optimistic delivery, throughput, queues. Pure functions of DataFrames.

Every function gives one row a run, or one for each value of `by` in a run (columns of what it measures, such as sender
or process); join with the table of runs for the parameters. `warm_up_ms` leaves out messages submitted before that
time, and all that belongs to them. Times in the results are milliseconds.

Words. The latency of a message is the time from its submit to its last delivery (the papers' definition), and is only
counted where all who owe a delivery made it; the latency of a delivery is the time to that one. Owed: by every process
to which a message is addressed and which never crashed, of senders that never crashed. Deliveries are counted as they
stand; that none is there twice is for the integrity check to say. The *tentative log* of a process has each message
where it came first, tentatively or for good; the *final log* has the deliveries. Both go by the local order, which is
the order of time at that process and decides ties. A message that was never tentative has its place in the tentative
log when it is final: left out, it would shift all that follow.

Linear: equi-joins, aggregates, and windows over one process's log or a slice of time. Percentiles are exact up to
10,000 different values a group and off by less than a ten-thousandth in rank above. Other loads: measures_load.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
ACCURACY = 10_000
SHARES = (0.5, 0.9, 0.99)
MESSAGE = ("run", "group", "sender", "number")
SLICES = 1024  # of a run's time, each of which is worked out by itself
DEGREES_MAX = 30  # of freedom; Student's t counts as normal above


def of_kind(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])


def ms(column: Column | str) -> Column:
    """Nanoseconds as milliseconds."""
    return (F.col(column) if isinstance(column, str) else column) / F.lit(NS_PER_MS)


def spread(column: Column, prefix: str) -> list[Column]:
    """Mean, percentiles and maximum of a column, as aggregates."""
    shares = [
        F.percentile_approx(column, share, ACCURACY).alias(f"{prefix}_p{round(100 * share)}_ms") for share in SHARES
    ]
    return [F.mean(column).alias(f"{prefix}_mean_ms"), *shares, F.max(column).alias(f"{prefix}_max_ms")]


# Messages and deliveries


def messages(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """What was submitted: the message, when, to whom."""
    return trace.where(of_kind(Kind.SUBMIT) & (F.col("time_ns") >= round(warm_up_ms * NS_PER_MS))).select(
        *MESSAGE, F.col("time_ns").alias("submitted_ns"), "destinations", "payload_bytes"
    )


def deliveries(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Each delivery with its latency, its time in the tentative log, and its places' local numbers in both logs."""
    final = of_kind(Kind.DELIVER)
    place = F.col("local")
    found = (
        trace.where(of_kind(Kind.TENTATIVE, Kind.DELIVER))
        .groupBy(*MESSAGE, "process")
        .agg(
            F.min(F.when(final, F.col("time_ns"))).alias("delivered_ns"),
            F.min("time_ns").alias("seen_ns"),
            F.min(F.when(final, place)).alias("final_local"),
            F.min(place).alias("seen_local"),
        )
        .where(F.col("delivered_ns").isNotNull())
    )
    zero = F.lit(0).cast("bigint")  # below: clocks of two machines
    return found.join(messages(trace, warm_up_ms).drop("destinations", "payload_bytes"), list(MESSAGE)).select(
        "*",
        F.greatest(zero, F.col("delivered_ns") - F.col("submitted_ns")).alias("latency_ns"),
        F.greatest(zero, F.col("seen_ns") - F.col("submitted_ns")).alias("tentative_ns"),
        (F.col("delivered_ns") - F.col("seen_ns")).alias("window_ns"),
        (F.col("seen_local") == F.col("final_local")).alias("late"),  # final before it was tentative
    )


def survivors(trace: DataFrame) -> DataFrame:
    """For each run the processes that took part and never crashed, as one list; small."""
    by_process = trace.groupBy("run", "process").agg(F.max(of_kind(Kind.CRASH)).alias("crashed"))
    alive = F.collect_set(F.when(~F.col("crashed"), F.col("process")))
    return by_process.groupBy("run").agg(alive.alias("alive"))


def message_table(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Each message: when submitted, when last delivered, how many deliveries it has and how many are still owed."""
    alive = survivors(trace)
    counts = F.array_contains("alive", F.col("process")).cast("int")
    last = (
        trace.where(of_kind(Kind.DELIVER))
        .join(F.broadcast(alive), "run")
        .groupBy(*MESSAGE)
        .agg(F.max("time_ns").alias("last_ns"), F.count("*").alias("delivered"), F.sum(counts).alias("reached"))
    )
    to = F.size(F.coalesce(F.array_intersect("destinations", "alive"), F.col("alive")))
    owed = F.when(F.array_contains("alive", F.col("sender")), to).otherwise(0)
    zero = F.lit(0).cast("bigint")
    latency = F.greatest(zero, F.col("last_ns") - F.col("submitted_ns"))
    return (
        messages(trace, warm_up_ms)
        .join(F.broadcast(alive), "run")
        .join(last, list(MESSAGE), "left")
        .withColumn("delivered", F.coalesce("delivered", zero))
        .withColumn("missing", F.greatest(zero, owed - F.coalesce("reached", zero)))
        .withColumn("latency_ns", F.when(F.col("missing") == 0, latency))
        .select(*MESSAGE, "submitted_ns", "last_ns", "delivered", "missing", "latency_ns", "payload_bytes")
    )


# Measures


def message_latency(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Latency as the papers define it, from submit to the last delivery, over messages; and what is undelivered."""
    return (
        message_table(trace, warm_up_ms)
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("messages"),
            F.sum("missing").alias("undelivered"),
            *spread(ms("latency_ns"), "latency"),
        )
    )


def delivery_latency(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Latency of each delivery by itself."""
    counted = F.count("*").alias("deliveries")
    return deliveries(trace, warm_up_ms).groupBy("run", *by).agg(counted, *spread(ms("latency_ns"), "latency"))


def optimistic(trace: DataFrame, by: Sequence[str] = (), warm_up_ms: float = 0.0) -> DataFrame:
    """Tentative latency, the window between tentative and final, and the share of messages that came late for it."""
    return (
        deliveries(trace, warm_up_ms)
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("deliveries"),
            *spread(ms("latency_ns"), "latency"),
            *spread(ms("tentative_ns"), "tentative"),
            *spread(ms("window_ns"), "window"),
            F.mean(F.col("late").cast("double")).alias("late_share"),
        )
    )


def hit_ratios(trace: DataFrame, by: Sequence[str] = ("process",), warm_up_ms: float = 0.0) -> DataFrame:
    """How often the tentative log agrees with the final one.

    `hit`: the same message in the same place. `hit_pair`: the same two messages in places 1 and 2, 3 and 4, and so on;
    `hit_either`: at least one of the two in common. A last place without a partner is in no pair. The late share
    stands beside them: where hardly anything is tentative, the logs agree by themselves.
    """
    return hits(deliveries(trace, warm_up_ms), by)


def hits(log: DataFrame, by: Sequence[str] = ("process",)) -> DataFrame:
    """The same of deliveries that are at hand."""
    own = Window.partitionBy("run", "group", "process")
    final = F.row_number().over(own.orderBy("final_local")) - 1
    tentative = F.row_number().over(own.orderBy("seen_local")) - 1
    placed = log.withColumn("final_place", final).withColumn("tentative_place", tentative)
    placed = placed.withColumn("hit", (F.col("final_place") == F.col("tentative_place")).cast("double"))
    placed = placed.withColumn("length", F.count("*").over(own))
    pair = F.floor(F.col("final_place") / 2)
    whole = pair < F.floor(F.col("length") / 2)
    common = (pair == F.floor(F.col("tentative_place") / 2)).cast("int")
    keys = [name for name in by if name not in ("run", "group", "process")]
    singles = placed.groupBy("run", *by).agg(
        F.count("*").alias("deliveries"),
        F.mean("hit").alias("hit"),
        F.mean(F.col("late").cast("double")).alias("late_share"),
    )
    if keys:  # a pair has no sender of its own
        return singles
    pairs = (
        placed.where(whole)
        .groupBy("run", "group", "process", pair.alias("pair"))
        .agg(F.sum(common).alias("common"))
        .groupBy("run", *by)
        .agg(
            F.count("*").alias("pairs"),
            F.mean((F.col("common") == 2).cast("double")).alias("hit_pair"),
            F.mean((F.col("common") >= 1).cast("double")).alias("hit_either"),
        )
    )
    return singles.join(pairs, ["run", *by], "left")


def throughput(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Messages and deliveries a second, between the first submit and the last delivery."""
    table = message_table(trace, warm_up_ms)
    first, last = F.min("submitted_ns"), F.max("last_ns")
    seconds = F.nullif((last - first) / F.lit(NS_PER_S), F.lit(0.0))
    return table.groupBy("run").agg(
        seconds.alias("span_s"),
        (F.count("*") / seconds).alias("messages_per_s"),
        (F.sum("delivered") / seconds).alias("deliveries_per_s"),
    )


def queue(trace: DataFrame, warm_up_ms: float = 0.0) -> DataFrame:
    """Messages submitted and not yet delivered everywhere: the mean by time, and the maximum.

    The mean is the sum of all stays over the span of time. The maximum is a running sum; time is cut into slices, so
    that no task has more than one slice to sort. A message that is never delivered stays to the end.
    """
    table = message_table(trace, warm_up_ms)
    ends = table.groupBy("run").agg(
        F.min("submitted_ns").alias("start_ns"), F.greatest(F.max("last_ns"), F.max("submitted_ns")).alias("end_ns")
    )
    left = F.when(F.col("missing") == 0, F.greatest("last_ns", "submitted_ns")).otherwise(F.col("end_ns"))
    stays = table.join(F.broadcast(ends), "run").select("run", "start_ns", "end_ns", "submitted_ns", left.alias("left"))
    span = F.max("end_ns") - F.min("start_ns")
    mean = stays.groupBy("run").agg(
        (F.sum(F.col("left") - F.col("submitted_ns")) / F.nullif(span, F.lit(0))).alias("queue_mean")
    )
    share = (F.col("at_ns") - F.col("start_ns")) / F.greatest(F.lit(1), F.col("end_ns") - F.col("start_ns"))
    steps = stays.select(
        "run",
        "start_ns",
        "end_ns",
        F.inline(
            F.array(
                F.struct(F.col("submitted_ns").alias("at_ns"), F.lit(1).alias("step")),
                F.struct(F.col("left").alias("at_ns"), F.lit(-1).alias("step")),
            )
        ),
    ).withColumn("slice", F.floor(share * SLICES))
    slices = steps.groupBy("run", "slice").agg(F.sum("step").alias("net"))
    earlier = Window.partitionBy("run").orderBy("slice").rowsBetween(Window.unboundedPreceding, -1)
    before = slices.select("run", "slice", F.coalesce(F.sum("net").over(earlier), F.lit(0)).alias("before"))
    within = Window.partitionBy("run", "slice").orderBy("at_ns", "step").rowsBetween(Window.unboundedPreceding, 0)
    running = steps.select("run", "slice", F.sum("step").over(within).alias("so_far"))
    most = (
        running.join(F.broadcast(before), ["run", "slice"])
        .groupBy("run")
        .agg(F.max(F.col("so_far") + F.col("before")).alias("queue_max"))
    )
    return mean.join(most, "run")


# Over runs


def over_seeds(table: DataFrame, by: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The mean of each column over runs that differ in their seed alone, and the half-width of its 95 % interval.

    One run alone has no interval: null. `runs` says how many there were.
    """
    student, normal = student_quantiles()
    quantile = F.coalesce(F.get(F.array(*map(F.lit, student)), F.count("*").cast("int") - 2), F.lit(normal))
    found: list[Column] = [F.count("*").alias("runs")]
    for name in columns:
        half = F.when(F.count(name) > 1, quantile * F.stddev_samp(name) / F.sqrt(F.count(name)))
        found += [F.mean(name).alias(name), half.alias(f"{name}_half")]
    return table.groupBy(*by).agg(*found).orderBy(*by)


def student_quantiles() -> tuple[list[float], float]:
    """Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on, and the normal one."""
    from scipy.special import stdtrit  # behind scipy.stats.t.ppf, which takes half a second longer to import

    *student, normal = stdtrit([*range(1, DEGREES_MAX + 1), inf], 0.975).tolist()
    return student, normal
