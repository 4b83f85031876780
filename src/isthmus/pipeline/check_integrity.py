"""Integrity: a life delivers a message at most once, as it was submitted, and only if it is addressed to it.

The idea: a set of deliverers forgets repetitions, a count does not, so that the two differ exactly where a life
delivered twice. The least and the greatest payload of a message's deliveries are both what was submitted, or something
is wrong with it. The addressees are a set of bits as the deliverers are. Only where totals.py raises an alarm are the
deliveries of such messages looked at once more, to name the process. `sending-view` is here because it asks the same
rows: a message is delivered in the view that its sender was in when it submitted it.

Invariants: what a message's first SUBMIT row says counts. What was never submitted is reported as that alone.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, listed, message, say, violations
from isthmus.pipeline.lives import MESSAGE
from isthmus.pipeline.tables import Tables

NAME = "integrity"
SENDING_VIEW = "sending-view"


def integrity(tables: Tables) -> DataFrame:
    """Findings: twice, never submitted, submitted twice, other bytes, not addressed."""
    looks = {"repeated": twice, "unsent": unsent, "again": submitted_again, "altered": altered, "astray": astray}
    found = [evidence(tables.groups, NAME, "n")]
    found += [look(tables) for alarm, look in looks.items() if tables.alarms[alarm]]
    return reduce(DataFrame.unionByName, found)


def closer(tables: Tables, some: DataFrame) -> DataFrame:
    """The deliveries of a few messages, with their lives and views; `some` may bring columns of its own."""
    rows = tables.trace.where(F.col("kind") == int(Kind.DELIVER)).select(
        *MESSAGE, "process", "local", "time_ns", "payload_bytes"
    )
    return tables.located(rows.join(tables.small(some), list(MESSAGE)))


def twice(tables: Tables) -> DataFrame:
    """A life delivered a message more than once."""
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
    sentence = say(life(), " delivered ", message(), " twice")
    return violations(found, NAME, sentence, keys, "time_ns", F.col("times") - 1)


def unsent(tables: Tables) -> DataFrame:
    """A message without a SUBMIT row at its sender."""
    found = closer(tables, tables.messages.where(~F.col("sent") & (F.col("n") > 0)).select(*MESSAGE))
    sentence = say(life(), " delivered ", message(), ", which its sender never submitted")
    keys = [key(Kind.DELIVER, "process", "delivered", local="local")]
    return violations(found, NAME, sentence, keys, "time_ns")


def submitted_again(tables: Tables) -> DataFrame:
    """More than one SUBMIT row."""
    found = tables.submits.where(F.col("submits") > 1)
    sentence = say("process ", F.col("sender").cast("string"), " submitted ", message(), ", which was submitted before")
    keys = [key(Kind.SUBMIT, "sender", "first"), key(Kind.SUBMIT, "sender", "again")]
    return violations(found, NAME, sentence, keys, "from_ns", F.col("submits") - 1)


def altered(tables: Tables) -> DataFrame:
    """Delivered with other bytes than submitted."""
    same = (F.col("bytes_least") == F.col("from_bytes")) & (F.col("bytes_most") == F.col("from_bytes"))
    some = tables.messages.where(F.col("sent") & ~same).select(*MESSAGE, "from_bytes")
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
    some = tables.messages.where(F.col("sent") & (F.col("addressed_lives") < F.col("lives")))
    found = (
        closer(tables, some.select(*MESSAGE, "destinations"))
        .where(~F.array_contains("destinations", F.col("process")))
        .groupBy(*MESSAGE, "process", "life", "destinations")
        .agg(F.min("time_ns").alias("time_ns"))
    )
    sentence = say(life(), " delivered ", message(), ", which is addressed to ", listed(F.col("destinations")), " only")
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered")]
    return violations(found, NAME, sentence, keys, "time_ns")


def sending_view(tables: Tables) -> DataFrame:
    """Each message is delivered in the view that it was submitted in."""
    count = evidence(tables.groups, SENDING_VIEW, "sent_n")
    if not tables.alarms["moved"]:
        return count
    some = tables.messages.where(F.col("sent") & (F.col("here") < F.col("n")))
    found = (
        closer(tables, some.select(*MESSAGE, "from_view"))
        .where(F.col("view") != F.col("from_view"))
        .groupBy(*MESSAGE, "process", "life", "view", "from_view")
        .agg(F.min("time_ns").alias("time_ns"), F.min("local").alias("local"))
    )
    sentence = say(
        life(), " delivered ", message(), " in ", view_name("view"), ", submitted in ", view_name("from_view")
    )
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    return count.unionByName(violations(found, SENDING_VIEW, sentence, keys, "time_ns"))


def view_name(name: str) -> Column:
    return F.when(F.col(name) < 0, "no view").otherwise(F.concat(F.lit("view "), F.col(name).cast("string")))
