"""The sums of each group: all that checks ask of whole groups, in one pass over the messages.

One aggregate over the messages, with two running maxima along each sender, answers every check. A check plans its
closer look, for the witness and the exact count, only if an alarm of its own is raised anywhere in the trace.

Invariant: an alarm is raised if there is a violation, or, for order and gaps, if there may be one.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.check.incarnations import distinct_count, is_own, is_whole
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

ALARMS = (
    "repeated",
    "unsent",
    "altered",
    "again",
    "astray",
    "moved",  # messages that are wrong by themselves
    "incomplete",
    "early",
    "descending",
    "disorderly",  # messages that may be wrong beside others
    "unsure",
    "counted_unsure",
    "static",  # what checks have to tell apart
    "doubled",  # rows that are there twice, for which all is judged anew without them
)
VARIANTS = (("", "lives"), ("counted_", "counted_lives"))  # of what uniform-total, and total, takes into account


def rosters(holders: DataFrame) -> DataFrame:
    """By group, origin, sender, life and word: which delivered anything, anything shared, and as total order counts."""
    together = Window.partitionBy(*MESSAGE)
    held = holders.where(F.col("n") > 0).select(
        *(*MESSAGE, "life", "word", "bits", "counted_bits"),
        (F.sum(distinct_count("bits")).over(together) > 1).alias("shared"),
        (F.sum(distinct_count("counted_bits")).over(together) > 1).alias("counted_shared"),
    )
    zero = F.lit(0).cast("long")
    return held.groupBy(*GROUP, "origin", "sender", "life", "word").agg(
        F.bit_or("bits").alias("roster"),
        F.bit_or(F.when(F.col("shared"), F.col("bits")).otherwise(zero)).alias("sharing"),
        F.bit_or(F.when(F.col("counted_shared"), F.col("counted_bits")).otherwise(zero)).alias("counted_sharing"),
    )


def followed(messages: DataFrame) -> DataFrame:
    """Messages with `descending`, not after all of lower number, and `early`, not after what its sender saw or said."""
    before = (Window.unboundedPreceding, -1)
    by_number = Window.partitionBy(*GROUP, "origin", "sender").orderBy("number").rowsBetween(*before)
    by_place = Window.partitionBy(*GROUP, "sender", "from_life", "home").orderBy("from_local").rowsBetween(*before)
    least = F.col("least")
    early = (least <= F.col("from_position")) | (least <= F.max("least").over(by_place))
    return messages.withColumn("descending", least <= F.max("least").over(by_number)).withColumn(
        "early", F.coalesce("home", F.lit(False)) & early
    )


def pairs(lives: str) -> Column:
    return F.coalesce(F.sum((F.col(lives) * (F.col(lives) - 1) / 2).cast("long")), F.lit(0))


def totals(seen: DataFrame, messages: DataFrame, rosters: DataFrame, backward: DataFrame) -> DataFrame:
    """The groups to judge with their sums; `backward` are those in which views went back somewhere."""
    n, lives, sent = F.col("n"), F.col("lives"), F.col("sent")
    unaltered = is_whole()
    to_all = F.when(F.col("destinations").isNull(), lives).otherwise(-1)
    sums = (
        followed(messages)
        .groupBy(*GROUP)
        .agg(
            F.sum("n").alias("n"),
            F.sum("lives").alias("held"),
            F.sum(F.when(sent & is_own(), n)).alias("own_n"),
            F.min((n == 0) | ((n == lives) & (F.col("least") == F.col("most")))).alias("same"),
            F.max(n > lives).alias("repeated"),
            F.max(~sent & (n > 0)).alias("unsent"),
            F.max(sent & ~unaltered).alias("altered"),
            F.max(F.col("submits") > 1).alias("again"),
            F.max(sent & (F.col("addressed_lives") < lives)).alias("astray"),
            F.max(sent & is_own() & (F.col("here") < n)).alias("moved"),
            F.min(F.when(sent & is_own(), to_all)).alias("fewest"),
            F.max("early").alias("early"),
            F.max("doubled").alias("doubled"),
            F.max("descending").alias("descending"),
            *(F.sum(F.when(F.col(of) > 1, F.col(of))).alias(f"{name}shared") for name, of in VARIANTS),
            *(pairs(of).alias(f"{name}pairs") for name, of in VARIANTS),
        )
    )
    summed = (
        seen.join(sums, list(GROUP), "left")
        .join(present(rosters), list(GROUP), "left")
        .join(backward.withColumn("backward", F.lit(True)), list(GROUP), "left")
        .withColumn("orderly", F.coalesce("same", F.lit(True)) & F.col("backward").isNull())
        .withColumn("disorderly", ~F.col("orderly"))
        .withColumn("descending", F.col("descending") & F.col("orderly"))
        .withColumn("incomplete", F.col("fewest") < F.coalesce("present", F.lit(0)))
        .drop("same", "backward", "fewest")
        .fillna(0)
        .fillna(False)
    )
    for name, _ in VARIANTS:
        sharing = F.col(f"{name}sharing")
        few = F.col(f"{name}pairs") <= sharing * (sharing - 1) / 2
        summed = summed.withColumn(f"{name}unsure", (F.col(f"{name}pairs") > 0) & few)
    return summed


def present(rosters: DataFrame) -> DataFrame:
    """How many lives of a group delivered anything, or something shared; and how many pairs of life and sender are."""
    names = ("roster", "sharing", "counted_sharing")
    of_all = rosters.groupBy(*GROUP, "life", "word").agg(
        F.sum(distinct_count("roster")).alias("streams"), *(F.bit_or(name).alias(name) for name in names)
    )
    return of_all.groupBy(*GROUP).agg(
        F.sum("streams").alias("streams"),
        F.sum(distinct_count("roster")).alias("present"),
        F.sum(distinct_count("sharing")).alias("sharing"),
        F.sum(distinct_count("counted_sharing")).alias("counted_sharing"),
    )


def alarms(groups: DataFrame) -> Row:
    row = groups.agg(*(F.coalesce(F.max(name), F.lit(False)).alias(name) for name in ALARMS)).first()
    assert row is not None  # an aggregate without groups has one row
    return row
