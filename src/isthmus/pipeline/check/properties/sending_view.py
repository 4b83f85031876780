"""Sending view: a message is delivered in the view that its sender sent it in.

That is the view in which it was submitted, unless a SENT_VIEW row says that flow control held it back into another.
Messages that were carried into a group belong to no view of it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.findings import evidence, key, life, message, violations
from isthmus.pipeline.check.incarnations import is_kind, is_own
from isthmus.pipeline.check.properties.integrity import closer
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import MESSAGE
from isthmus.trace.schema import Gauge

NAME = "sending-view"


def sending_view(tables: Tables) -> DataFrame:
    count = evidence(tables.groups, NAME, "own_n")
    if not tables.alarms["moved"]:
        return count
    some = tables.messages.where(F.col("sent") & is_own() & (F.col("here") < F.col("n")))
    told = tables.trace.where(is_kind(Kind.GAUGE) & (F.col("gauge") == int(Gauge.SENT_VIEW)))
    held = told.where(F.col("sender") == F.col("process")).groupBy(*MESSAGE).agg(F.max("value").alias("sent_view"))
    sent = some.join(held, list(MESSAGE), "left").withColumn("from_view", F.coalesce("sent_view", "from_view"))
    found = (
        closer(tables, sent.select(*MESSAGE, F.col("from_view").cast("int")))
        .where(F.col("view") != F.col("from_view"))
        .groupBy(*MESSAGE, "process", "life", "view", "from_view")
        .agg(F.min("time_ns").alias("time_ns"), F.min("local").alias("local"))
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    numbers = ["view", "from_view"]
    moved = violations(found, NAME, "moved", "time_ns", keys, lives=[life()], messages=[message()], numbers=numbers)
    return count.unionByName(moved)
