"""Total order: the union of all delivery orders has no cycle.

The problem: destinations are arbitrary, so that a cycle may need many processes, and comparing pairs of anything is out
of the question. The idea is a certificate, a number for each message that never falls along any process's deliveries;
whatever cycle there is then lies among messages of equal number.

Orderly groups have one already: the position (tables.py), which even rises at each step. For the others order.py finds
one by relaxation; what is left are messages of equal number that follow one another at some process, and these small
sets are decided exactly, by Kahn's algorithm of trace/order.py.

`total` passes over what a life that ended delivered in its last view, `uniform-total` does not. `across_groups` takes
the deliveries of all groups of a run at a process as one sequence.

Evidence as the oracle counts it: deliveries that follow another, both shared by two lives; none unless two lives share
two messages. The latter is certain when there are more pairs of deliverers of one message than pairs of lives; if not,
the pairs are few enough to count.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.findings import evidence
from isthmus.pipeline.lives import processes
from isthmus.pipeline.order import cycles
from isthmus.pipeline.tables import GROUP, MESSAGE, Tables, distinct_count

ACROSS = -1  # as a group: all groups of a run


def total(tables: Tables) -> DataFrame:
    """Findings in what lives answer for."""
    return judged(tables, "total", "counted_bits", "counted_lives", F.col("counted"))


def uniform_total(tables: Tables) -> DataFrame:
    """Findings in everything that any life delivered."""
    return judged(tables, "uniform-total", "bits", "lives", F.lit(True))


def judged(tables: Tables, name: str, bits: str, lives: str, counted: Column) -> DataFrame:
    seen = evidence(comparable(tables, bits, lives), name, "count")
    if tables.all_orderly:
        return seen
    rows = tables.unordered.where(counted).select(*MESSAGE, "process", "life", "local", "time_ns")
    return seen.unionByName(cycles(tables, rows.withColumn("of", F.col("group")), name))


def comparable(tables: Tables, bits: str, lives: str) -> DataFrame:
    """The evidence of each group in which two lives share two messages: run, group, count."""
    shared = tables.messages.where(F.col(lives) > 1).select(*MESSAGE, F.col(lives).alias("deliverers"))
    held = tables.holders.join(shared, list(MESSAGE))
    lives_of = held.groupBy(*GROUP, "life", "word").agg(F.bit_or(bits).alias("bits"))
    sharing = lives_of.groupBy(*GROUP).agg(F.sum(distinct_count("bits")).alias("sharing"))
    pairs = shared.groupBy(*GROUP).agg(
        F.sum("deliverers").alias("deliveries"),
        F.sum((F.col("deliverers") * (F.col("deliverers") - 1) / 2).cast("long")).alias("pairs"),
    )
    counts = tables.small(pairs.join(sharing, list(GROUP)))
    plenty = F.col("pairs") > F.col("sharing") * (F.col("sharing") - 1) / 2
    sure = counts.where(plenty)
    unsure = counts.where(~plenty)
    if not unsure.isEmpty():
        few = held.join(unsure.select(*GROUP), list(GROUP), "left_semi")
        each = few.select(*MESSAGE, "life", F.explode(processes(F.col(bits), F.col("word"))).alias("process"))
        one = each.select(*MESSAGE, F.struct("process", "life").alias("one"))
        other = each.select(*MESSAGE, F.struct("process", "life").alias("other"))
        both = one.join(other, list(MESSAGE)).where(F.col("one") < F.col("other"))
        twice = both.groupBy(*GROUP, "one", "other").count().where("count > 1").select(*GROUP).distinct()
        sure = sure.unionByName(unsure.join(twice, list(GROUP), "left_semi"))
    return sure.select(*GROUP, (F.col("deliveries") - F.col("sharing")).alias("count"))


def across_groups(tables: Tables) -> DataFrame:
    """Findings of `total` for runs with several groups: all their deliveries at a process are one sequence."""
    several = tables.seen.groupBy("run").count().where("count > 1").select("run")
    chosen = tables.small(tables.seen.join(several, "run", "left_semi").select(*GROUP))
    firsts = tables.keep(tables.firsts(chosen).where(F.col("counted")))
    rows = firsts.select(*MESSAGE, "process", "life", "local", "time_ns").withColumn("of", F.lit(ACROSS))
    shared = firsts.groupBy(*MESSAGE).agg(F.count("*").alias("deliverers")).where("deliverers > 1")
    follow = (
        firsts.join(shared, list(MESSAGE)).groupBy("run", "process", "life").agg((F.count("*") - 1).alias("follow"))
    )
    count = follow.groupBy("run").agg(F.sum("follow").alias("count")).withColumn("group", F.lit(ACROSS))
    return evidence(count, "total", "count").unionByName(cycles(tables, rows, "total"))
