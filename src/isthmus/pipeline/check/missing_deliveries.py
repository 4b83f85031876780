"""Which lives lack what is addressed to them: pairs of a message and a life, shared by fifo and causal order.

Only messages that some life lacks are spread over the words of the group's roster, and only the bits that are missing
become rows. Invariants: the roster has every life that delivered anything in the group. A message that died with its
sender, was carried into the group, or is seen in a domain, leaves no gap.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.check.incarnations import NEVER, bit, is_own, mask_of, processes, word
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import GROUP, HOLDER, MESSAGE
from isthmus.trace.schema import NONE


def missing(tables: Tables) -> DataFrame:
    """One row per message and life that lacks it though addressed: message, process, life, what was submitted."""
    return tables.once("missing", lambda: tables.keep(spread(tables)))


def spread(tables: Tables) -> DataFrame:
    complete = F.col("destinations").isNull() & (F.col("lives") == F.col("present"))
    gapped = tables.groups.where(F.col("incomplete")).select(*GROUP, "present")
    some = tables.messages.join(gapped, list(GROUP)).where(F.col("sent") & is_own() & ~complete)
    if tables.has_ends or tables.census["record"] or tables.partial:
        some = some.join(lost(tables), list(MESSAGE), "left_anti")
    roster = tables.rosters.groupBy(*GROUP, "life", "word").agg(F.bit_or("roster").alias("roster"))
    lack = F.col("roster").bitwiseAND(F.col("to")).bitwiseAND(F.bitwise_not(F.coalesce("bits", F.lit(0))))
    found = (
        some.drop("present")
        .join(tables.small(roster), list(GROUP))
        .join(tables.holders.select(*HOLDER, "bits"), list(HOLDER), "left")
        .withColumn("to", mask_of(F.col("destinations"), F.col("word")))
        .withColumn("lack", lack)
        .where(F.col("lack") != 0)
    )
    return found.withColumn("process", F.explode(processes(F.col("lack"), F.col("word")))).drop(
        "roster", "bits", "to", "lack"
    )


def lost(tables: Tables) -> DataFrame:
    """The messages that died with their senders, as docs/TRACE.md says."""
    missing = tables.missing.select("run", F.col("process").alias("sender"), F.lit(True).alias("cut"))
    own = tables.messages.where(F.col("sent") & is_own()).join(missing, ["run", "sender"], "left")
    gone = own.where((~F.col("from_up") | F.col("cut").isNotNull()) & (F.col("up_lives") == 0))
    held = tables.holders.where(
        F.col("sent") & is_own() & (F.col("n") > 0) & (F.col("life") == F.col("from_life"))
        & (F.col("word") == word("sender")) & (F.col("bits").bitwiseAND(bit("sender")) != 0)
    )  # fmt: skip
    reached = held.groupBy(*GROUP, "sender", "from_life").agg(F.max("from_local").alias("reached"))
    addressed = F.col("destinations").isNull() | F.array_contains("destinations", F.col("sender"))
    skipped = (
        gone.join(held.select(*MESSAGE), list(MESSAGE), "left_anti")
        .join(reached, [*GROUP, "sender", "from_life"])
        .where(addressed & (F.col("reached") > F.col("from_local")))
    )
    return gone.select(*MESSAGE).join(skipped.select(*MESSAGE), list(MESSAGE), "left_anti")


def stays(tables: Tables, rows: DataFrame) -> DataFrame:
    """Rows of lives in views, with the first and the last view of the stay; NEVER, first, where nothing is owed."""
    known = tables.epochs.groupBy("run", "group", "process", "life", "view").agg(
        F.min("first").alias("first"), F.max("final").alias("until")
    )
    static = tables.seen.select(*GROUP, "static")
    origin = F.when(F.col("static") & (F.col("life") == 0), NONE).otherwise(NEVER)
    return (
        rows.join(tables.small(known), ["run", "group", "process", "life", "view"], "left")
        .join(static, list(GROUP))
        .withColumn("first", F.coalesce("first", origin))
        .withColumn("until", F.coalesce("until", F.lit(NONE)))
        .drop("static")
    )
