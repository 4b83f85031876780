"""Integrity: a life delivers a message at most once, as it was submitted, and only if it is addressed to it.

A set of deliverers forgets repetitions, a count does not; the least and the greatest payload of a message's deliveries
are both what was submitted. Only where totals.py raises an alarm are deliveries looked at once more, to name the
process. What a message's first SUBMIT row says counts; only its origin group holds it to its addressees.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.causality.precedence import impossible
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import is_home, is_kind, is_whole
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE

NAME = "integrity"
AFTER_ALL = 1 << 62  # as a rank: behind every time


def integrity(tables: Tables) -> DataFrame:
    looks = {"repeated": twice, "unsent": unsent, "again": submitted_again, "altered": altered, "astray": astray}
    found = [evidence(tables.groups, NAME, "n")]
    found += [look(tables) for alarm, look in looks.items() if tables.alarms[alarm]]
    if tables.alarms["disorderly"] or tables.alarms["early"]:
        found.append(too_early(tables))
    if tables.has_ends:
        found.append(after_crash(tables))
    return reduce(DataFrame.unionByName, found)


def closer(tables: Tables, some: DataFrame) -> DataFrame:
    """The deliveries of a few messages, with their lives and views; `some` may bring columns of its own."""
    rows = tables.trace.where(F.col("kind") == int(Kind.DELIVER)).select(
        *MESSAGE, "process", "local", "time_ns", "payload_bytes", "value"
    )
    return tables.located(rows.join(tables.small(some), list(MESSAGE)))


def twice(tables: Tables) -> DataFrame:
    many = tables.messages.where(F.col("n") > F.col("lives")).select(*MESSAGE)
    found = (
        closer(tables, many)
        .groupBy(*MESSAGE, "process", "life")
        .agg(
            F.count("*").alias("times"),
            F.min("local").alias("first"),
            F.max("local").alias("last"),
            F.min("time_ns").alias("time_ns"),
        )
        .where(F.col("times") > 1)
    )
    keys = [
        key(Kind.DELIVER, "process", "delivered", local="first"),
        key(Kind.DELIVER, "process", "delivered once more", local="last"),
    ]
    count = F.col("times") - 1
    return violations(found, NAME, "twice", "time_ns", keys, lives=[life()], messages=[message()], count=count)


def unsent(tables: Tables) -> DataFrame:
    found = closer(tables, tables.messages.where(~F.col("sent") & (F.col("n") > 0)).select(*MESSAGE))
    keys = [key(Kind.DELIVER, "process", "delivered", local="local")]
    senders = tables.missing.select("run", F.col("process").alias("sender"))
    wrong = found.join(senders, ["run", "sender"], "left_anti")
    open_ones = found.join(senders, ["run", "sender"], "left_semi").select(*GROUP).distinct().join(tables.cut, "run")
    reason = F.concat("reason", F.lit(", and others delivered what it has no SUBMIT row of"))
    doubts = evidence(open_ones, NAME, 0, doubt=reason)
    return doubts.unionByName(violations(wrong, NAME, "unsent", "time_ns", keys, lives=[life()], messages=[message()]))


def submitted_again(tables: Tables) -> DataFrame:
    last = tables.told.where(is_kind(Kind.SUBMIT) & is_home()).groupBy(*MESSAGE).agg(F.max("local").alias("last"))
    found = tables.submits.where(F.col("submits") > 1).join(last, list(MESSAGE))
    keys = [
        key(Kind.SUBMIT, "sender", "submitted", local="from_local"),
        key(Kind.SUBMIT, "sender", "submitted once more", local="last"),
    ]
    lives, count = [life("sender", "from_life")], F.col("submits") - 1
    return violations(found, NAME, "submitted-again", "from_ns", keys, lives=lives, messages=[message()], count=count)


def altered(tables: Tables) -> DataFrame:
    some = tables.messages.where(F.col("sent") & ~is_whole()).select(*MESSAGE, "from_bytes", "from_digest")
    resized = F.col("payload_bytes") != F.col("from_bytes")
    rewritten = (F.col("value") != 0) & (F.col("from_digest") != 0) & (F.col("value") != F.col("from_digest"))
    found = closer(tables, some).where(resized | rewritten)
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    numbers = [
        F.when(resized, F.col("payload_bytes")).otherwise(F.col("value")),
        F.when(resized, F.col("from_bytes")).otherwise(F.col("from_digest")),
    ]
    form = F.when(resized, "altered").otherwise("digest")
    return violations(found, NAME, form, "time_ns", keys, lives=[life()], messages=[message()], numbers=numbers)


def too_early(tables: Tables) -> DataFrame:
    chosen = tables.groups.where((F.col("disorderly") | F.col("early")) & tables.asks(NAME)).select(*GROUP)
    found = tables.located(tables.keep(impossible(tables, tables.small(chosen))))
    found = found.withColumn("rank", F.lit(AFTER_ALL))
    keys = [
        key(Kind.DELIVER, "process", "delivered before it was submitted", local="local"),
        key(Kind.SUBMIT, "sender", "submitted"),
    ]
    return violations(found, NAME, "early", "rank", keys, lives=[life()], messages=[message()])


def after_crash(tables: Tables) -> DataFrame:
    told = is_kind(Kind.DELIVER, Kind.TENTATIVE, Kind.REVOKE, Kind.VIEW) | (is_kind(Kind.SUBMIT) & is_home())
    ends = tables.lives.where(F.col("crash").isNotNull()).select("run", "process", "life", "crash", "end")
    late = tables.trace.where(told).join(ends, ["run", "process"])
    late = late.where((F.col("local") > F.col("crash")) & (F.col("local") < F.col("end")))
    # The first by process and place, views and messages alike, as the oracle counts them.
    order = Window.partitionBy(*GROUP).orderBy("process", "local")
    late = late.withColumn("rank", F.row_number().over(order) + F.lit(AFTER_ALL))
    at = [key(Kind.CRASH, "process", "crashed", None, local="crash")]
    lives, numbers = [life()], [F.col("kind").cast("long")]
    about = late.where(~is_kind(Kind.VIEW))
    named = [
        violations(
            about.where(is_kind(kind)), NAME, "after-crash", "rank",
            [*at, key(kind, "process", "after the crash", local="local")],
            lives=lives, messages=[message()], numbers=numbers,
        )
        for kind in (Kind.SUBMIT, Kind.DELIVER, Kind.TENTATIVE, Kind.REVOKE)
    ]  # fmt: skip
    views = violations(
        late.where(is_kind(Kind.VIEW)), NAME, "after-crash", "rank",
        [*at, key(Kind.VIEW, "process", "after the crash", None, local="local")], lives=lives, numbers=numbers,
    )  # fmt: skip
    return reduce(DataFrame.unionByName, [*named, views])


def astray(tables: Tables) -> DataFrame:
    some = tables.messages.where(F.col("sent") & (F.col("addressed_lives") < F.col("lives")))
    found = (
        closer(tables, some.select(*MESSAGE, "destinations"))
        .where(~F.array_contains("destinations", F.col("process")))
        .groupBy(*MESSAGE, "process", "life", "destinations")
        .agg(F.min("time_ns").alias("time_ns"))
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered")]
    return violations(
        found, NAME, "astray", "time_ns", keys, lives=[life()], messages=[message()], members=["destinations"]
    )
