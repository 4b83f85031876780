"""Tentative and final delivery: nothing tentative comes after the final one, twice, or after all is revoked.

Everything that happens to one message at one life is one small aggregate, taken only in groups that have tentative
deliveries. That the final order is total is the check of that name, whose violations verdicts.py counts here too.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import is_kind, with_lives
from isthmus.pipeline.check.properties.agreement import finalists
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

NAME = "final"


def final(tables: Tables) -> DataFrame:
    if tables.census["tentative"] + tables.census["revoke"] == 0:
        return evidence(tables.seen, NAME, 0)
    chosen = tables.seen.where(F.col("tentative") + F.col("revoke") > 0).select(*GROUP)
    tentative, given, revoked = is_kind(Kind.TENTATIVE), is_kind(Kind.DELIVER), is_kind(Kind.REVOKE)
    place = F.col("local")
    rows = tables.trace.where(tentative | given | revoked).join(F.broadcast(chosen), list(GROUP), "left_semi")
    each = tables.keep(
        with_lives(rows, tables.lives)
        .groupBy(*MESSAGE, "process", "life")
        .agg(
            F.count_if(tentative).alias("times"),
            F.min(F.when(tentative, place)).alias("first_tentative"),
            F.max(F.when(tentative, place)).alias("last_tentative"),
            F.min(F.when(given, place)).alias("final"),
            F.min(F.when(revoked, place)).alias("revoked"),
            F.min("time_ns").alias("time_ns"),
        )
    )
    count = evidence(each.groupBy(*GROUP).agg(F.sum("times").alias("count")), NAME, "count")
    submitted = key(Kind.SUBMIT, "sender", "submitted")
    delivered = key(Kind.DELIVER, "process", "final", local="final")
    undone = key(Kind.REVOKE, "process", "revoked", local="revoked")
    first, last = (key(Kind.TENTATIVE, "process", "tentative", local=f"{one}_tentative") for one in ("first", "last"))
    again = key(Kind.TENTATIVE, "process", "tentative once more", local="last_tentative")
    late = F.coalesce(F.col("last_tentative") > F.col("final"), F.lit(False))
    missing = tables.missing.select("run", F.col("process").alias("sender"))
    unsent = each.where((F.col("times") > 0) & ~late).join(tables.submits.select(*MESSAGE), list(MESSAGE), "left_anti")
    open_ones = each.where((F.col("times") > 0) & F.col("final").isNull() & F.col("revoked").isNull())
    there = finalists(tables).select(*GROUP, "process", "life")
    found = [
        broken(each.where(F.col("times") > 1), "tentative-twice", [first, again], F.col("times") - 1),
        broken(each.where(late), "tentative-late", [delivered, last]),
        broken(
            each.where(F.col("revoked").isNotNull() & F.col("final").isNotNull()), "revoked-final", [undone, delivered]
        ),
        broken(unsent.join(missing, ["run", "sender"], "left_anti"), "tentative-unsent", [first]),
        broken(open_ones.join(there, [*GROUP, "process", "life"], "left_semi"), "tentative-ever", [submitted, first]),
    ]
    doubts = evidence(open_ones.select(*GROUP).distinct().join(tables.cut, "run"), NAME, 0, doubt="reason")
    return reduce(DataFrame.unionByName, [count, *found, doubts])


def broken(found: DataFrame, form: str, events: list[Column], count: Column | int = 1) -> DataFrame:
    """Return the violations of one form, one row per message and life."""
    return violations(found, NAME, form, "time_ns", events, lives=[life()], messages=[message()], count=count)
