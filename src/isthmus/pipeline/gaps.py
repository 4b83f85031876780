"""Which lives lack what is addressed to them: pairs of a message and a life, shared by fifo and causal order.

The idea: in a run that went well every life has everything, which the counts of tables.py show at once. Only messages
that some life lacks are spread over the words of the group's roster, and only the bits that are missing become rows.
That is linear in what should have been delivered, however the destinations lie.

Invariants: the roster has every life that delivered anything in the group; no other life can have passed a message
over. A message that died with its sender is no gap: the sender's life is not up, and no life that is up delivered it. A
message that was carried into a group, or that is seen in a domain, leaves no gap: routers may leave it out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.pipeline.formats import GROUP, HOLDER
from isthmus.pipeline.lives import NEVER, is_own, mask_of, processes
from isthmus.pipeline.tables import Tables
from isthmus.trace.schema import NONE


def missing(tables: Tables) -> DataFrame:
    """One row per message and life that lacks it though addressed: message, process, life, what was submitted."""
    return tables.once("missing", lambda: tables.keep(spread(tables)))


def spread(tables: Tables) -> DataFrame:
    """The same, computed."""
    complete = F.col("destinations").isNull() & (F.col("lives") == F.col("present"))
    alive = F.col("from_up") | (F.col("up_lives") > 0)
    gapped = tables.groups.where(F.col("incomplete")).select(*GROUP, "present")
    some = tables.messages.join(gapped, list(GROUP)).where(F.col("sent") & is_own() & alive & ~complete)
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


def stays(tables: Tables, rows: DataFrame) -> DataFrame:
    """Rows of lives in views, with the first view of the stay that the view is in; NEVER where nothing is owed."""
    known = tables.epochs.groupBy("run", "group", "process", "life", "view").agg(F.min("first").alias("first"))
    static = tables.seen.select(*GROUP, "static")
    origin = F.when(F.col("static") & (F.col("life") == 0), NONE).otherwise(NEVER)
    return (
        rows.join(tables.small(known), ["run", "group", "process", "life", "view"], "left")
        .join(static, list(GROUP))
        .withColumn("first", F.coalesce("first", origin))
        .drop("static")
    )
