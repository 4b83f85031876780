"""Which process lived when and was in which view: small tables, made of the few rows that tell of crashes and views.

Lives and epochs are intervals of local numbers, computed by windows over CRASH, RECOVER and VIEW rows alone; a delivery
finds its own by an equi-join on the process and a comparison of `local`. Sets of processes are words of 64 bits.

Invariants: the intervals of one process are disjoint. A row that matches no life is of life 0, which is up; one that
matches no epoch is of a life in view NONE. The terms are those of judge/history.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.engine.formats import PLACE
from isthmus.pipeline.engine.spark_errors import refuse
from isthmus.trace.schema import NONE

BEGIN, END = -(1 << 63), (1 << 63) - 1  # of all local numbers
NEVER = (1 << 31) - 1  # as the first view of a stay: nothing is owed in it


def is_kind(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])


def is_own() -> Column:
    """Whether a message was submitted to the group that it is seen in, not carried into it; never so in a domain."""
    return F.col("origin") == F.col("group")


def is_home() -> Column:
    """Whether a SUBMIT row is the submission of its message: at its sender, in its origin group."""
    return (F.col("process") == F.col("sender")) & (F.col("origin") == F.col("seen_in"))


def word(process: str = "process") -> Column:
    return F.shiftright(F.col(process), 6)


def bit(process: str = "process") -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("long"), F.col(process).bitwiseAND(F.lit(63)))


def distinct_count(bits: str) -> Column:
    return F.bit_count(F.col(bits)).cast("long")


def processes(bits: Column, at: Column) -> Column:
    every = F.sequence(F.lit(0), F.lit(63))
    found = F.filter(every, lambda place: F.getbit(bits, place) == 1)
    return F.transform(found, lambda place: (at * 64 + place).cast("int"))


def mask_of(destinations: Column, at: Column) -> Column:
    """The word `at` of a set of processes; null is everyone."""
    own = F.filter(destinations, lambda to: F.shiftright(to, 6) == at)
    one, zero = F.lit(1).cast("long"), F.lit(0).cast("long")
    found = F.aggregate(
        own, zero, lambda held, to: held.bitwiseOR(F.call_function("shiftleft", one, to.bitwiseAND(F.lit(63))))
    )
    return F.when(destinations.isNull(), F.lit(-1).cast("long")).otherwise(found)


def lives(rows: DataFrame) -> DataFrame:
    """The lives of each process that ever crashed or came back: life, start, end (local, exclusive), crash, up."""
    order = Window.partitionBy("run", "process").orderBy("local")
    recover = is_kind(Kind.RECOVER)
    told = rows.where(is_kind(Kind.CRASH, Kind.RECOVER)).withColumn(
        "life", F.sum(F.when(recover, 1).otherwise(0)).over(order).cast("int")
    )
    first = told.select(
        "run",
        "process",
        F.lit(0).alias("life"),
        F.lit(BEGIN).alias("start"),
        F.lit(True).alias("off"),
        F.lit(None).cast("long").alias("crash"),
    )
    later = told.select(
        "run",
        "process",
        "life",
        F.when(recover, F.col("local")).alias("start"),
        (~recover).alias("off"),
        F.when(~recover, F.col("local")).alias("crash"),
    )
    by_life = Window.partitionBy("run", "process").orderBy("life")
    return (
        first.unionByName(later)
        .groupBy("run", "process", "life")
        .agg(F.min("start").alias("start"), F.max("off").alias("off"), F.min("crash").alias("crash"))
        .withColumn("end", F.coalesce(F.lead("start").over(by_life), F.lit(END)))
        .withColumn("up", ~F.col("off") & (F.col("end") == END))
        .drop("off")
    )


def with_lives(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows with their life, its start and end, and whether it is up when the run ends."""
    spans = known.select(
        *(F.col(name).alias(f"life_{name}") for name in ("run", "process", "life", "start", "end", "up"))
    )
    same = (F.col("run") == F.col("life_run")) & (F.col("process") == F.col("life_process"))
    within = (F.col("local") >= F.col("life_start")) & (F.col("local") < F.col("life_end"))
    return (
        rows.join(spans, same & within, "left")
        .withColumns(
            {
                "life": F.coalesce("life_life", F.lit(0)),
                "up": F.coalesce("life_up", F.lit(True)),
                "life_start": F.coalesce("life_start", F.lit(BEGIN)),
                "life_end": F.coalesce("life_end", F.lit(END)),
            }
        )
        .drop("life_run", "life_process", "life_life", "life_up")
    )


def with_weights(rows: DataFrame) -> DataFrame:
    """Rows with the weights of a view's members, which follow these in the row; null where each has one vote."""
    weighs = is_kind(Kind.VIEW) & (F.col("gauge") > 0)
    count = F.col("gauge").cast("int")
    told = F.col("destinations")
    where = F.concat(F.lit("process "), F.col("process").cast("string"))
    found = F.concat(F.size(told).cast("string"), F.lit(" members and weights, and "), count.cast("string"))
    wrong = refuse(where, "view", F.concat(found, F.lit(" as the gauge")), "a weight for each member")
    whole = F.coalesce(F.size(told) == 2 * count, F.lit(False))
    return rows.withColumns(
        {
            "weights": F.when(weighs & whole, F.slice(told, count + 1, count)).when(weighs, wrong.cast("array<int>")),
            "destinations": F.when(weighs, F.slice(told, F.lit(1), count)).otherwise(told),
        }
    )


def epochs(rows: DataFrame, known: DataFrame) -> DataFrame:
    """What each life did with its views: one row per VIEW row, and one for the time before the first of a life."""
    told = with_lives(rows.where(is_kind(Kind.VIEW)), known).select(
        *PLACE,
        "up",
        "life_start",
        "life_end",
        "local",
        F.col("value").cast("int").alias("view"),
        "destinations",
        "weights",
    )
    order = Window.partitionBy(*PLACE).orderBy("local")
    again = F.coalesce(F.lag("view").over(order) == F.col("view"), F.lit(False))  # told once more
    told = told.withColumn("again", again).where(~F.col("again")).drop("again")
    by_number = Window.partitionBy("run", "group").orderBy("view")
    before = F.lag("view").over(order)
    placed = (
        told.withColumn("place", F.dense_rank().over(by_number))
        .withColumn("before", before)
        .withColumn("breaks", F.coalesce(F.col("place") != F.lag("place").over(order) + 1, F.lit(True)))
        .withColumn("stay", F.sum(F.col("breaks").cast("int")).over(order).cast("int"))
        .withColumn("onward", F.lead("view").over(order))
        .withColumn("end", F.coalesce(F.lead("local").over(order), F.col("life_end")))
    )
    whole = (
        Window.partitionBy(*PLACE, "stay")
        .orderBy("local")
        .rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    )
    later = placed.select(
        *PLACE,
        "up",
        "view",
        "before",
        "onward",
        "stay",
        F.col("local").alias("start"),
        "end",
        F.first("view").over(whole).alias("first"),
        F.last("view").over(whole).alias("final"),
        F.col("onward").isNull().alias("last"),
        "destinations",
        "weights",
    )
    early = placed.groupBy(*PLACE, "up").agg(F.min("life_start").alias("start"), F.min("local").alias("end"))
    none = F.lit(None).cast("int")
    return later.unionByName(
        early.select(
            *PLACE,
            "up",
            F.lit(NONE).alias("view"),
            none.alias("before"),
            none.alias("onward"),
            F.lit(0).alias("stay"),
            "start",
            "end",
            F.lit(NEVER).alias("first"),
            F.lit(NONE).alias("final"),
            F.lit(False).alias("last"),
            F.lit(None).cast("array<int>").alias("destinations"),
            F.lit(None).cast("array<int>").alias("weights"),
        )
    )


def with_epochs(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Rows that have a life, with view, stay, the stay's first and final view, and whether the epoch ends the life."""
    names = ("run", "group", "process", "view", "start", "end", "stay", "first", "final", "last")
    spans = known.select(*(F.col(name).alias(f"epoch_{name}") for name in names))
    same = [F.col(name) == F.col(f"epoch_{name}") for name in ("run", "group", "process")]
    within = (F.col("local") >= F.col("epoch_start")) & (F.col("local") < F.col("epoch_end"))
    return (
        rows.drop("view")
        .join(spans, same[0] & same[1] & same[2] & within, "left")
        .withColumns(
            {
                "view": F.coalesce("epoch_view", F.lit(NONE)),
                "stay": F.coalesce("epoch_stay", F.lit(0)),
                "first": F.col("epoch_first"),  # null: the life never installs a view
                "final": F.coalesce("epoch_final", F.lit(NONE)),
                "last": F.coalesce("epoch_last", F.lit(True)),
                "epoch": F.coalesce("epoch_start", "life_start"),
            }
        )
        .drop(*(f"epoch_{name}" for name in names))
    )


def restless(rows: DataFrame, known: DataFrame, views: DataFrame) -> DataFrame:
    """The groups whose last view is not settled: run, group, reason; the first member by seniority that is amiss."""
    last = views.groupBy("run", "group").agg(F.max("view").alias("view"))
    seats = (
        views.where(F.col("destinations").isNotNull())
        .join(last, ["run", "group", "view"])
        .groupBy("run", "group", "view")
        .agg(F.min(F.struct("process", "start", "destinations")).alias("told"))
        .select("run", "group", "view", F.posexplode("told.destinations").alias("seat", "member"))
    )
    there = views.where(F.col("last") & F.col("up")).select("run", "group", F.col("process").alias("member"), "view")
    away = seats.join(there.distinct(), ["run", "group", "member", "view"], "left_anti").select(
        "run",
        "group",
        (F.col("seat") * 2).alias("rank"),
        F.format_string(
            "view %d still lists process %d, which is not there at the end", F.col("view"), F.col("member")
        ).alias("reason"),
    )
    doubts = suspicions(rows, known)
    others = seats.select("run", "group", F.col("member").alias("other"))
    doubted = (
        seats.join(doubts, ["run", "member"])
        .join(others, ["run", "group", "other"])
        .where(F.col("member") != F.col("other"))
        .select(
            "run",
            "group",
            (F.col("seat") * 2 + 1).alias("rank"),
            F.format_string("process %d suspects process %d at the end", F.col("member"), F.col("other")).alias(
                "reason"
            ),
        )
    )
    return away.unionByName(doubted).groupBy("run", "group").agg(F.min_by("reason", "rank").alias("reason"))


def suspicions(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Who suspects whom at the end: run, member, other."""
    latest = Window.partitionBy("run", "process", "value").orderBy(F.desc("local"))
    minded = with_lives(rows.where(is_kind(Kind.SUSPECT, Kind.TRUST)), known)
    return (
        minded.where((F.col("life_end") == END) & F.col("up"))
        .withColumn("latest", F.row_number().over(latest))
        .where((F.col("latest") == 1) & is_kind(Kind.SUSPECT))
        .select("run", F.col("process").alias("member"), F.col("value").cast("int").alias("other"))
    )


def down(known: DataFrame) -> DataFrame:
    ended = known.where(~F.col("up"))
    return ended.groupBy("run", "life", word().alias("word")).agg(F.bit_or(bit()).alias("down"))


def uncounted(known: DataFrame, views: DataFrame, groups: DataFrame) -> DataFrame:
    """The deliveries that total order passes over, as bits: those of lives that ended, in their last view."""
    ended = known.where(~F.col("up")).select("run", "process", "life")
    ends = views.where(F.col("last")).select("run", "group", "process", "life", "view")
    return (
        ended.join(groups.select("run", "group"), "run")
        .join(ends, ["run", "group", "process", "life"], "left")
        .withColumn("view", F.coalesce("view", F.lit(NONE)))
        .groupBy("run", "group", "life", "view", word().alias("word"))
        .agg(F.bit_or(bit()).alias("uncounted"))
    )


def extremes() -> list[Column]:
    """Of marks that are put together."""
    return [
        F.min("least").alias("least"),
        F.max("most").alias("most"),
        F.min("bytes_least").alias("bytes_least"),
        F.max("bytes_most").alias("bytes_most"),
        F.min("digest_least").alias("digest_least"),
        F.max("digest_most").alias("digest_most"),
        F.min("from_position").alias("from_position"),
        F.max("doubled").alias("doubled"),
    ]


def is_whole() -> Column:
    """Whether all deliveries of a message have the payload that was submitted, as far as rows tell."""
    same = (F.col("bytes_least") == F.col("from_bytes")) & (F.col("bytes_most") == F.col("from_bytes"))
    alike = (F.col("digest_least") == F.col("from_digest")) & (F.col("digest_most") == F.col("from_digest"))
    return same & ((F.col("from_digest") == 0) | F.coalesce(alike, F.lit(True)))


def in_runs(spans: Sequence[range] | None) -> Column:
    """Whether a row's run is one of these; None: all are."""
    if spans is None:
        return F.lit(True)
    return reduce(or_, (F.col("run").between(span.start, span.stop - 1) for span in spans), F.lit(False))
