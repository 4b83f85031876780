"""Integrity: a life delivers a message at most once, as it was submitted, and only if it is addressed to it.

The idea: a set of deliverers forgets repetitions, a count does not, so that the two differ exactly where a life
delivered twice. The least and the greatest payload of a message's deliveries are both what was submitted, or something
is wrong with it. The addressees are a set of bits as the deliverers are. Only where totals.py raises an alarm are the
deliveries of such messages looked at once more, to name the process.

Invariants: what a message's first SUBMIT row says counts, also where the message was carried into another group; only
its origin group holds it to its addressees. What was never submitted is reported as that alone.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import evidence, key, life, message, violations
from isthmus.pipeline.formats import MESSAGE
from isthmus.pipeline.lives import is_home, is_kind
from isthmus.pipeline.tables import Tables

NAME = "integrity"


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
    count = F.col("times") - 1
    return violations(found, NAME, "twice", "time_ns", keys, lives=[life()], messages=[message()], count=count)


def unsent(tables: Tables) -> DataFrame:
    """A message without a SUBMIT row at its sender."""
    found = closer(tables, tables.messages.where(~F.col("sent") & (F.col("n") > 0)).select(*MESSAGE))
    keys = [key(Kind.DELIVER, "process", "delivered", local="local")]
    return violations(found, NAME, "unsent", "time_ns", keys, lives=[life()], messages=[message()])


def submitted_again(tables: Tables) -> DataFrame:
    """More than one SUBMIT row."""
    last = tables.told.where(is_kind(Kind.SUBMIT) & is_home()).groupBy(*MESSAGE).agg(F.max("local").alias("last"))
    found = tables.submits.where(F.col("submits") > 1).join(last, list(MESSAGE))
    keys = [
        key(Kind.SUBMIT, "sender", "submitted", local="from_local"),
        key(Kind.SUBMIT, "sender", "submitted once more", local="last"),
    ]
    lives, count = [life("sender", "from_life")], F.col("submits") - 1
    return violations(found, NAME, "submitted-again", "from_ns", keys, lives=lives, messages=[message()], count=count)


def altered(tables: Tables) -> DataFrame:
    """Delivered with other bytes than submitted."""
    same = (F.col("bytes_least") == F.col("from_bytes")) & (F.col("bytes_most") == F.col("from_bytes"))
    some = tables.messages.where(F.col("sent") & ~same).select(*MESSAGE, "from_bytes")
    found = closer(tables, some).where(F.col("payload_bytes") != F.col("from_bytes"))
    keys = [key(Kind.SUBMIT, "sender", "submitted"), key(Kind.DELIVER, "process", "delivered", local="local")]
    numbers = ["payload_bytes", "from_bytes"]
    return violations(found, NAME, "altered", "time_ns", keys, lives=[life()], messages=[message()], numbers=numbers)


def astray(tables: Tables) -> DataFrame:
    """Delivered at processes that it is not addressed to."""
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
