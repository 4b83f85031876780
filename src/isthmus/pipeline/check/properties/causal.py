"""Causal order: what happened before a message was submitted, and is addressed to q, q delivers before it.

First a certificate, in linear SQL: in an orderly group positions are a clock. If each message has a greater position
than all that its sender had delivered or submitted before, a process that delivers by position delivers in causal
order. What an addressee lacks (missing_deliveries.py) must not lie below something it delivered. Groups without the
certificate, which is the rule where order is causal and not total, go through past.py, by blocks of receivers.
judge/properties/causal.py says what is owed.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.judge.causality.past import CIRCLES, CODE_BITS, CODE_INDEX
from isthmus.pipeline.check.causality.past import (
    BLOCK,
    BROUGHT,
    DELIVERED,
    EVENT,
    NOWHERE,
    OWED,
    RESULT,
    SEGMENT,
    SUBMITTED,
    pack,
    walk,
)
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import NEVER, bit, is_kind, processes, with_lives, word
from isthmus.pipeline.check.missing_deliveries import missing, stays
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, MESSAGE, PLACE, ddl
from isthmus.pipeline.engine.session import cores_of

BLOCK_DELIVERIES = 250_000  # of a group, for each block: what a block is worth at the least
NAME = "causal"


def causal(tables: Tables) -> DataFrame:
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
    """The chosen groups, each by blocks of receivers."""
    submits = tables.submits.join(chosen, list(GROUP), "left_semi")
    slots = tables.small(slots_of(tables, chosen, submits))
    given = deliveries(tables, chosen)
    events = [
        event(given.join(slots, list(PLACE)), DELIVERED, "local"),
        event(at_sender(submits.where("home")).join(slots, list(PLACE)), SUBMITTED, "from_local"),
    ]
    if tables.census["carried"] or tables.domains:
        events.append(event(submits.where("NOT home").withColumn("slot", F.lit(NOWHERE)), BROUGHT, "from_local"))
    owing = lacking.join(chosen, list(GROUP), "left_semi")
    if not owing.isEmpty():
        events.append(event(owed(tables, given, owing).join(slots, list(PLACE)), OWED, "code", "code"))
    packed = [
        rows.repartition(*GROUP, "slot").sortWithinPartitions(*GROUP, "slot", "at").select(*EVENT)
        for rows in (events[0].unionByName(events[1]), *events[2:])
    ]
    segments = tables.keep(reduce(DataFrame.unionByName, [rows.mapInArrow(pack, ddl(SEGMENT)) for rows in packed]))
    return named(tables, walked(tables, segments, slots), slots)


def slots_of(tables: Tables, chosen: DataFrame, submits: DataFrame) -> DataFrame:
    """The lives of some groups that delivered or submitted anything, numbered by process and life."""
    rosters = tables.rosters.join(chosen, list(GROUP), "left_semi").groupBy(*GROUP, "life", "word")
    there = rosters.agg(F.bit_or("roster").alias("roster")).withColumn(
        "process", F.explode(processes(F.col("roster"), F.col("word")))
    )
    lives = there.select(*PLACE).unionByName(at_sender(submits.where("home")).select(*PLACE)).distinct()
    whole = Window.partitionBy(*GROUP)
    return lives.withColumn("slot", F.row_number().over(whole.orderBy("process", "life")) - 1).withColumn(
        "slots", F.count("*").over(whole).cast("int")
    )


def at_sender(submits: DataFrame) -> DataFrame:
    return submits.withColumns({"process": F.col("sender"), "life": F.col("from_life")})


def deliveries(tables: Tables, chosen: DataFrame) -> DataFrame:
    """The deliveries of some groups, each message once per life: message, process, life, local."""
    rows = tables.trace.where(is_kind(Kind.DELIVER)).join(chosen, list(GROUP), "left_semi")
    rows = with_lives(rows.select(*MESSAGE, "process", "local"), tables.lives).select(
        *MESSAGE, "process", "life", "local"
    )
    if not tables.alarms["repeated"]:
        return rows
    return rows.groupBy(*MESSAGE, "process", "life").agg(F.min("local").alias("local"))


def event(rows: DataFrame, what: int, at: str, code: str | None = None) -> DataFrame:
    """Rows that have a slot as events, with what they are sorted by."""
    given = F.col(code) if code else F.lit(0).cast("long")
    return rows.select(
        *GROUP, "slot", F.col(at).alias("at"), "origin", "sender", "number",
        F.lit(what).cast("tinyint").alias("what"), given.alias("code"),
    )  # fmt: skip


def owed(tables: Tables, given: DataFrame, lacking: DataFrame) -> DataFrame:
    """What is never delivered though owed, with a code after the last delivery that it should have preceded."""
    who = tables.small(lacking.select(*PLACE).distinct())
    rank = F.row_number().over(Window.partitionBy(*PLACE).orderBy("local")).cast("long")
    ranked = tables.located(given.join(who, list(PLACE), "left_semi").drop("life")).withColumn("rank", rank)
    spans = stays(tables, ranked.groupBy(*PLACE, "view").agg(F.max("rank").alias("rank")))
    spans = spans.where(F.col("first") != NEVER).select(*PLACE, F.col("view").alias("at"), "first", "until", "rank")
    within = F.col("from_view").between(F.col("first"), F.col("until")) & (F.col("at") <= F.col("from_final"))
    last = lacking.join(spans, list(PLACE)).where(within).groupBy(*MESSAGE, "process", "life", "index")
    order = F.row_number().over(Window.partitionBy(*PLACE, "rank").orderBy("index", "sender", "number"))
    return (
        last.agg(F.max("rank").alias("rank"))
        .withColumn("code", F.shiftleft("rank", CODE_BITS) + F.least(order, F.lit(CODE_INDEX)))
        .select(*MESSAGE, "process", "life", "code")
    )


def walked(tables: Tables, segments: DataFrame, slots: DataFrame) -> DataFrame:
    """What the blocks of all groups find; a block has all segments of its group, but of debts only its own."""
    cores = cores_of(tables.spark)
    worth = F.floor(F.col("n") / BLOCK_DELIVERIES)
    count = F.greatest(F.lit(1), F.least(worth, F.lit(cores), F.col("slots"))).cast("int")
    width = F.ceil(F.col("slots") / count).cast("int")
    sizes = slots.select(*GROUP, "slots").distinct().join(tables.groups.select(*GROUP, "n"), list(GROUP))
    blocks = sizes.withColumn("width", width).withColumn("first", F.explode(F.expr("sequence(0, slots - 1, width)")))
    number = F.row_number().over(Window.orderBy(*GROUP, "first")) - 1
    blocks = tables.keep(
        blocks.withColumn("until", F.least(F.col("first") + F.col("width"), F.col("slots")))
        .withColumn("task", number)
        .select(*GROUP, *BLOCK, "task")
    )
    own = (F.length("codes") == 0) | F.col("slot").between(F.col("first"), F.col("until") - 1)
    blocks = (
        segments.join(F.broadcast(blocks), list(GROUP))
        .where(own)
        .repartitionById(max(1, min(blocks.count(), cores)), F.col("task"))
        .sortWithinPartitions(*GROUP, "first", "slot", "part")
    )
    return tables.keep(blocks.mapInArrow(walk, ddl(RESULT)))


def named(tables: Tables, found: DataFrame, slots: DataFrame) -> DataFrame:
    """One violation for each block, of which the earliest by its number at its life is shown, with the count of all."""
    doubts = evidence(found.where("open").select(*GROUP).distinct(), NAME, 0, doubt=F.lit(CIRCLES))
    bad = found.where(~F.col("open"))
    if bad.isEmpty():
        return doubts
    seen = tables.small(bad.join(slots, [*GROUP, "slot"]))
    rows = tables.trace.where(is_kind(Kind.DELIVER)).select(*MESSAGE, "process", "local")
    rows = with_lives(rows.join(seen.select(*MESSAGE, "process"), [*MESSAGE, "process"], "left_semi"), tables.lives)
    local = rows.groupBy(*MESSAGE, "process", "life").agg(F.min("local").alias("local"))
    seen = seen.join(local, [*MESSAGE, "process", "life"])
    other = ("due_origin", "due_sender", "due_number")
    keys = [
        key(Kind.SUBMIT, "due_sender", "submitted first", other),
        key(Kind.SUBMIT, "sender", "submitted later"),
        key(Kind.DELIVER, "process", "delivered first", local="local"),
        key(Kind.DELIVER, "process", "delivered late", other),
    ]
    messages = F.concat(F.array(message(), message(*other)), "between")
    form = F.when(F.col("never"), "causal-never").otherwise("causal-late")
    rank = F.col("place") * F.col("slots") + F.col("slot")
    told = violations(seen, NAME, form, rank, keys, lives=[life()], count="count", listed=messages)
    return doubts.unionByName(told)
