"""Integrity: a life delivers a message at most once, as it was submitted, and only if it is addressed to it.

The idea: a set of deliverers forgets repetitions, a count does not, so that the two differ exactly where a life
delivered twice. The least and the greatest payload of a message's deliveries are both what was submitted, or something
is wrong with it. Only then are the deliveries of such messages looked at once more, to name the process. The addressees
are a set of bits as the deliverers are. `sending-view` is here because it asks the same rows: a message is delivered in
the view that its sender was in when it submitted it.

Invariants: what a message's first SUBMIT row says counts. What was never submitted is reported as that alone.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, listed, message, say, violations
from isthmus.pipeline.lives import processes, with_lives
from isthmus.pipeline.tables import GROUP, MESSAGE, Tables, distinct_count

NAME = "integrity"
SENDING_VIEW = "sending-view"


def integrity(tables: Tables) -> DataFrame:
    """Findings: twice, never submitted, submitted twice, other bytes, not addressed."""
    count = evidence(tables.messages.groupBy(*GROUP).agg(F.sum("n").alias("count")), NAME, "count")
    found = [count, twice(tables), unsent(tables), submitted_again(tables), altered(tables), astray(tables)]
    return reduce(DataFrame.unionByName, found)


def closer(tables: Tables, some: DataFrame) -> DataFrame:
    """The deliveries of a few messages, with their lives; `some` may bring columns of its own."""
    rows = tables.trace.where(F.col("kind") == int(Kind.DELIVER)).select(
        *MESSAGE, "process", "local", "time_ns", "payload_bytes"
    )
    if some.isEmpty():
        rows = rows.limit(0)
    return with_lives(rows.join(some, list(MESSAGE)), tables.lives)


def twice(tables: Tables) -> DataFrame:
    """A life delivered a message more than once."""
    many = tables.keep(tables.messages.where(F.col("n") > F.col("lives")).select(*MESSAGE))
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
    sentence = say(life(), " delivered ", message(), " twice")
    return violations(found, NAME, sentence, keys, "time_ns", F.col("times") - 1)


def unsent(tables: Tables) -> DataFrame:
    """A message without a SUBMIT row at its sender."""
    found = tables.holders.where(~F.col("sent") & (F.col("n") > 0)).withColumn(
        "process", F.element_at(processes(F.col("bits"), F.col("word")), 1)
    )
    sentence = say(life(), " delivered ", message(), ", which its sender never submitted")
    return violations(found, NAME, sentence, [key(Kind.DELIVER, "process", "delivered")], "time_ns", "n")


def submitted_again(tables: Tables) -> DataFrame:
    """More than one SUBMIT row."""
    found = tables.submits.where(F.col("submits") > 1)
    sentence = say("process ", F.col("sender").cast("string"), " submitted ", message(), ", which was submitted before")
    keys = [key(Kind.SUBMIT, "sender", "first"), key(Kind.SUBMIT, "sender", "again")]
    return violations(found, NAME, sentence, keys, "from_ns", F.col("submits") - 1)


def altered(tables: Tables) -> DataFrame:
    """Delivered with other bytes than submitted."""
    same = (F.col("bytes_least") == F.col("from_bytes")) & (F.col("bytes_most") == F.col("from_bytes"))
    some = tables.keep(tables.messages.where(F.col("sent") & ~same).select(*MESSAGE, "from_bytes"))
    found = closer(tables, some).where(F.col("payload_bytes") != F.col("from_bytes"))
    sentence = say(
        life(),
        " delivered ",
        message(),
        F.format_string(" with %d bytes, submitted with %d", F.col("payload_bytes"), F.col("from_bytes")),
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    return violations(found, NAME, sentence, keys, "time_ns")


def astray(tables: Tables) -> DataFrame:
    """Delivered at processes that it is not addressed to."""
    astray = F.col("bits").bitwiseAND(F.bitwise_not(F.col("to")))
    found = (
        tables.holders.withColumn("astray", astray)
        .where(F.col("sent") & (F.col("astray") != 0))
        .withColumn("process", F.element_at(processes(F.col("astray"), F.col("word")), 1))
        .join(
            tables.submits.select(*MESSAGE, "destinations"),
            list(MESSAGE),
        )
    )
    sentence = say(life(), " delivered ", message(), ", which is addressed to ", listed(F.col("destinations")), " only")
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered")]
    return violations(found, NAME, sentence, keys, "time_ns", distinct_count("astray"))


def sending_view(tables: Tables) -> DataFrame:
    """Each message is delivered in the view that it was submitted in."""
    known = tables.marks.where(F.col("sent") & (F.col("n") > 0))
    count = evidence(known.groupBy(*GROUP).agg(F.sum("n").alias("count")), SENDING_VIEW, "count")
    other = known.where(F.col("view") != F.col("from_view")).withColumn(
        "process", F.element_at(processes(F.col("bits"), F.col("word")), 1)
    )
    sentence = say(
        life(),
        " delivered ",
        message(),
        " in ",
        view_name("view"),
        ", submitted in ",
        view_name("from_view"),
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered")]
    return count.unionByName(violations(other, SENDING_VIEW, sentence, keys, "time_ns", distinct_count("bits")))


def view_name(name: str) -> Column:
    return F.when(F.col(name) < 0, "no view").otherwise(F.concat(F.lit("view "), F.col(name).cast("string")))
