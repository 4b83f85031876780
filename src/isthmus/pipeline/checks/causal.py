"""Causal order: what happened before a message was submitted, and is addressed to q, q delivers before it.

The problem: m1 to q, then m2 not to q by a process that delivered m1, then m3 to q by one that delivered m2; q must
deliver m1 before m3, though it never sees m2. The idea has two tiers.

First a certificate, in linear SQL: in an orderly group the position of a message is a clock. If each message has a
greater position than all that its sender had delivered or submitted before, then positions rise along every causal
path, so that a process that delivers by position delivers in causal order. The submit's own place in the sort of
tables.py is all that this takes; totals.py compares. What an addressee lacks (gaps.py) must not lie below something it
delivered.

Second, for groups without the certificate, which is the rule where order is causal and not total: one pass over the
rows of the group with a vector per life (past.py). Groups are taken in parallel; one group is not split.

Owed. If q delivers m in view w, and m' happened before m and is addressed to q, then q delivers m', and before m; but
it need not deliver an m' that died with its sender, or that belongs to a view which q's stay does not have, or whose
sender's stay ended before w, or that was carried into the group. A carried message has no past in the group, but it is
in the past of what is submitted after its deliveries. In a domain only the order of what is delivered is asked.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, message, violations
from isthmus.pipeline.formats import GROUP, MESSAGE, PLACE, ddl
from isthmus.pipeline.gaps import missing, stays
from isthmus.pipeline.lives import NEVER, bit, word
from isthmus.pipeline.past import COLUMNS, RESULT, walk, walk_closed
from isthmus.pipeline.tables import Tables
from isthmus.trace.past import CODE_BITS, CODE_INDEX, NOWHERE

NAME = "causal"


def causal(tables: Tables) -> DataFrame:
    """Findings: deliveries ahead of their past."""
    seen = evidence(tables.groups, NAME, F.col("held") - F.col("present"))
    if not any(tables.alarms[name] for name in ("disorderly", "early", "incomplete")):
        return seen
    lacking = missing(tables)
    chosen = tables.groups.where(F.col("disorderly") | F.col("early")).select(*GROUP)
    open_ones = tables.small(chosen.unionByName(passed(tables, lacking)).where(tables.asks(NAME)).distinct())
    return seen if open_ones.isEmpty() else seen.unionByName(exact(tables, lacking, open_ones))


def passed(tables: Tables, lacking: DataFrame) -> DataFrame:
    """Groups in which a life delivered something whose position is above that of a message it lacks."""
    who = lacking.select(*PLACE).distinct().withColumn("word", word())
    own = tables.marks.where(F.col("n") > 0).join(who, [*GROUP, "life", "word"])
    own = own.where(F.col("bits").bitwiseAND(bit()) != 0).groupBy(*PLACE, "view").agg(F.max("most").alias("reached"))
    spans = stays(tables, own).groupBy(*PLACE, "first").agg(F.max("reached").alias("reached"))
    place = F.coalesce("least", "from_position")
    found = lacking.join(spans, list(PLACE)).where(F.col("first") <= F.col("from_view"))
    return found.where(F.col("reached") > place).select(*GROUP).distinct()


def exact(tables: Tables, lacking: DataFrame, chosen: DataFrame) -> DataFrame:
    """One pass over each of the chosen groups."""
    order = Window.partitionBy(*PLACE).orderBy("local")
    number = F.row_number().over(order).cast("long")
    firsts = tables.keep(tables.firsts(chosen).withColumn("rank", number))
    submits = tables.submits.join(chosen, list(GROUP), "left_semi")
    lives = firsts.select(*PLACE).unionByName(
        submits.where("home").select(*GROUP, F.col("sender").alias("process"), F.col("from_life").alias("life"))
    )
    slots = tables.keep(
        lives.distinct()
        .withColumn("slot", F.row_number().over(Window.partitionBy(*GROUP).orderBy("process", "life")) - 1)
        .withColumn("slots", F.count("*").over(Window.partitionBy(*GROUP)).cast("int"))
    )
    delivered = firsts.select(*MESSAGE, "process", "life", F.shiftleft("rank", CODE_BITS).alias("code"))
    never = owed(tables, firsts, lacking.join(chosen, list(GROUP), "left_semi"))
    codes = tables.keep(delivered.unionByName(never).join(slots, list(PLACE)))
    events = rows(firsts, submits, slots, codes)
    found = tables.keep(events.mapInArrow(walk, ddl(RESULT)))
    circles = found.where(F.col("slot") == NOWHERE).select(*GROUP)
    if circles.isEmpty():
        return named(found, codes)
    again = events.join(tables.small(circles), list(GROUP), "left_semi")
    again = again.repartition(*GROUP).sortWithinPartitions(*GROUP, "slot", "local")
    closed = again.mapInArrow(walk_closed, ddl(RESULT))
    straight = found.join(circles, list(GROUP), "left_anti")
    return named(straight.unionByName(tables.keep(closed)), codes)


def owed(tables: Tables, firsts: DataFrame, lacking: DataFrame) -> DataFrame:
    """What is never delivered though owed, with a code after the last delivery that it should have preceded."""
    spans = stays(tables, firsts.groupBy(*PLACE, "view").agg(F.max("rank").alias("rank")))
    spans = spans.where(F.col("first") != NEVER).select(*PLACE, F.col("view").alias("at"), "first", "until", "rank")
    within = F.col("from_view").between(F.col("first"), F.col("until")) & (F.col("at") <= F.col("from_final"))
    last = lacking.join(spans, list(PLACE)).where(within).groupBy(*MESSAGE, "process", "life", "from_local")
    index = F.row_number().over(Window.partitionBy(*PLACE, "rank").orderBy("from_local", "sender"))
    return (
        last.agg(F.max("rank").alias("rank"))
        .withColumn("code", F.shiftleft("rank", CODE_BITS) + F.least(index, F.lit(CODE_INDEX)))
        .select(*MESSAGE, "process", "life", "code")
    )


def rows(firsts: DataFrame, submits: DataFrame, slots: DataFrame, codes: DataFrame) -> DataFrame:
    """Submits with the codes of all addressees, and deliveries with their own, in the order for the pass.

    A carried message enters by a row of no life, at the time of its submit.
    """
    given = codes.groupBy(*MESSAGE).agg(F.collect_list(F.struct("slot", "code")).alias("all"))
    nothing = F.array().cast("array<struct<slot:int,code:bigint>>")
    sent = submits.join(given, list(MESSAGE), "left").select(
        *MESSAGE,
        F.col("sender").alias("process"),
        F.col("from_life").alias("life"),
        F.col("from_local").alias("local"),
        F.col("from_ns").alias("time_ns"),
        F.lit(True).alias("submit"),
        F.lit(0).cast("long").alias("code"),
        F.lit(True).alias("known"),
        "home",
        F.coalesce("all", nothing).alias("all"),
    )
    known = submits.select(*MESSAGE, F.lit(True).alias("known"))
    taken = firsts.join(known, list(MESSAGE), "left").select(
        *MESSAGE,
        "process",
        "life",
        "local",
        "time_ns",
        F.lit(False).alias("submit"),
        F.shiftleft("rank", CODE_BITS).alias("code"),
        F.coalesce("known", F.lit(False)).alias("known"),
        F.lit(True).alias("home"),
        nothing.alias("all"),
    )
    # A clock that was set back must not put a process's rows out of their order.
    onward = F.max("time_ns").over(Window.partitionBy("run", "group", "process").orderBy("local"))
    events = sent.where("home").unionByName(taken).withColumn("at", onward).join(slots, list(PLACE))
    counts = slots.select(*GROUP, "slots").distinct()
    entries = sent.where("NOT home").withColumn("at", F.col("time_ns")).join(counts, list(GROUP))
    return (
        events.unionByName(entries.withColumn("slot", F.lit(NOWHERE)))
        .repartition(*GROUP)
        .sortWithinPartitions(*GROUP, "at", "process", "local")
        .withColumn("to", F.col("all.slot"))
        .withColumn("codes", F.col("all.code"))
        .select(*COLUMNS)
    )


def named(found: DataFrame, codes: DataFrame) -> DataFrame:
    """The violations with the message that should have come first."""
    due = {"origin": "due_origin", "sender": "due_sender", "number": "due_number"}
    blamed = codes.select(
        *GROUP, "slot", "code", "process", "life", *(F.col(name).alias(other) for name, other in due.items())
    )
    seen = found.join(blamed, [*GROUP, "slot", "code"])
    never = F.col("code").bitwiseAND(F.lit(CODE_INDEX)) != 0
    other = tuple(due.values())
    keys = [
        key(Kind.SUBMIT, "due_sender", "submitted first", other),
        key(Kind.SUBMIT, "sender", "submitted later"),
        key(Kind.DELIVER, "process", "delivered first", local="local"),
        key(Kind.DELIVER, "process", "delivered late", other),
    ]
    form = F.when(never, "causal-never").otherwise("causal-late")
    messages = [message(), message(*other)]
    return violations(seen, NAME, form, "local", keys, lives=[life()], messages=messages, count="count")
