"""Integrity: a life delivers a message at most once, as it was submitted, and only if it is addressed to it.

The idea: a set of deliverers forgets repetitions, a count does not, so that the two differ exactly where a life
delivered twice. The least and the greatest payload of a message's deliveries are both what was submitted, or one of
them is the witness. The addressees are a set of bits as the deliverers are. `sending-view` is here because it asks the
same rows: a message is delivered in the view that its sender was in when it submitted it.

Invariants: what a message's first SUBMIT row says counts. What was never submitted is reported as that alone.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, listed, message, say, violations
from isthmus.pipeline.lives import processes
from isthmus.pipeline.tables import GROUP, Tables, distinct_count

NAME = "integrity"
SENDING_VIEW = "sending-view"


def integrity(tables: Tables) -> DataFrame:
    """Findings: twice, never submitted, submitted twice, other bytes, not addressed."""
    count = evidence(tables.messages.groupBy(*GROUP).agg(F.sum("n").alias("count")), NAME, "count")
    found = [count, twice(tables), unsent(tables), submitted_again(tables), altered(tables), astray(tables)]
    return reduce(DataFrame.unionByName, found)


def twice(tables: Tables) -> DataFrame:
    """A life delivered a message more than once; the count knows how often, a second look knows who."""
    many = tables.holders.where(F.col("n") > distinct_count("bits"))
    who = F.element_at(processes(F.col("bits"), F.col("word")), 1)  # the word has few; which of them, the events say
    one = distinct_count("bits") == 1
    named = many.withColumn("process", who)
    subject = F.when(one, life()).otherwise(
        say("one of the processes ", F.array_join(processes(F.col("bits"), F.col("word")).cast("array<string>"), ", "))
    )
    return violations(
        named,
        NAME,
        say(subject, " delivered ", message(), " twice"),
        [key(Kind.DELIVER, "process", "first"), key(Kind.DELIVER, "process", "again")],
        "time_ns",
        F.col("n") - distinct_count("bits"),
    )


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
    """Delivered with other bytes than submitted; the words of processes where that happened are counted."""
    other = F.when(F.col("bytes_least") != F.col("from_bytes"), F.col("bytes_least")).otherwise(F.col("bytes_most"))
    found = (
        tables.marks.where(F.col("sent") & (F.col("n") > 0))
        .where((F.col("bytes_least") != F.col("from_bytes")) | (F.col("bytes_most") != F.col("from_bytes")))
        .withColumn("other", other)
        .select("run", "group", "sender", "number", "other", "from_bytes", "bits", "word", "time_ns", "life")
    )
    rows = tables.trace.where(F.col("kind") == int(Kind.DELIVER)).select(
        "run", "group", "sender", "number", "process", "local", "payload_bytes"
    )
    if found.isEmpty():
        at = found.withColumn("process", F.lit(0)).withColumn("local", F.lit(0))
    else:
        at = tables.located(
            rows.join(F.broadcast(found.drop("life", "bits", "word")), ["run", "group", "sender", "number"])
        )
        at = at.where(F.col("payload_bytes") != F.col("from_bytes")).withColumn("other", F.col("payload_bytes"))
    said = say(
        life(),
        " delivered ",
        message(),
        " with ",
        F.col("other").cast("string"),
        " bytes, submitted with ",
        F.col("from_bytes").cast("string"),
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    return violations(at, NAME, said, keys, "time_ns")


def astray(tables: Tables) -> DataFrame:
    """Delivered at processes that it is not addressed to."""
    astray = F.col("bits").bitwiseAND(F.bitwise_not(F.col("to")))
    found = (
        tables.holders.withColumn("astray", astray)
        .where(F.col("sent") & (F.col("astray") != 0))
        .withColumn("process", F.element_at(processes(F.col("astray"), F.col("word")), 1))
        .join(
            tables.submits.select("run", "group", "sender", "number", "destinations"),
            ["run", "group", "sender", "number"],
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
