"""Tentative and final delivery: nothing tentative comes after the final one, twice, or after all is revoked.

The idea: everything that happens to one message at one life is one small aggregate: how often it was tentative, where
last, where it was final, whether it was revoked. It is taken only in groups that have tentative deliveries at all.
That the final order is total is the check of that name, whose violations verdicts.py counts here too.

Invariants: `local` alone orders; a message may be final without ever having been tentative.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import is_kind, with_lives
from isthmus.pipeline.check.properties.agreement import finalists
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

NAME = "final"


def final(tables: Tables) -> DataFrame:
    """Findings: tentative twice, tentative after final, revoked and final."""
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
    at, what = [life()], [message()]
    twice = violations(
        each.where(F.col("times") > 1),
        NAME,
        "tentative-twice",
        "time_ns",
        [
            key(Kind.TENTATIVE, "process", "tentative", local="first_tentative"),
            key(Kind.TENTATIVE, "process", "tentative once more", local="last_tentative"),
        ],
        lives=at,
        messages=what,
        count=F.col("times") - 1,
    )
    after = violations(
        each.where(F.col("last_tentative") > F.col("final")),
        NAME,
        "tentative-late",
        "time_ns",
        [
            key(Kind.DELIVER, "process", "final", local="final"),
            key(Kind.TENTATIVE, "process", "tentative", local="last_tentative"),
        ],
        lives=at,
        messages=what,
    )
    undone = violations(
        each.where(F.col("revoked").isNotNull() & F.col("final").isNotNull()),
        NAME,
        "revoked-final",
        "time_ns",
        [
            key(Kind.REVOKE, "process", "revoked", local="revoked"),
            key(Kind.DELIVER, "process", "final", local="final"),
        ],
        lives=at,
        messages=what,
    )
    marked = each.where(F.col("times") > 0)
    missing = tables.missing.select("run", F.col("process").alias("sender"))
    told = marked.join(tables.submits.select(*MESSAGE), list(MESSAGE), "left_anti")
    unsent = violations(
        told.where(~F.coalesce(F.col("last_tentative") > F.col("final"), F.lit(False))).join(
            missing, ["run", "sender"], "left_anti"
        ),
        NAME,
        "tentative-unsent",
        "time_ns",
        [key(Kind.TENTATIVE, "process", "tentative", local="first_tentative")],
        lives=at,
        messages=what,
    )
    open_ones = marked.where(F.col("final").isNull() & F.col("revoked").isNull())
    there = finalists(tables).select(*GROUP, "process", "life")
    ever = violations(
        open_ones.join(there, [*GROUP, "process", "life"], "left_semi"),
        NAME,
        "tentative-ever",
        "time_ns",
        [
            key(Kind.SUBMIT, "sender", "submitted"),
            key(Kind.TENTATIVE, "process", "tentative", local="first_tentative"),
        ],
        lives=at,
        messages=what,
    )
    doubts = evidence(open_ones.select(*GROUP).distinct().join(tables.cut, "run"), NAME, 0, doubt="reason")
    return reduce(DataFrame.unionByName, [count, twice, after, undone, unsent, ever, doubts])
