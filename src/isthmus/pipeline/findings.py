"""What a check hands in: evidence, violations and the events that show them, all in one shape.

The problem: checks are written apart, yet their results must add up to one verdict a property, with one witness. The
idea: every check yields rows of one shape, any number for a run, group and property; their counts are summed, and the
row of the lowest rank gives the sentence. An event of a witness is named by a key (kind, process, message), because
the checks work on sets and positions and not on rows; verdicts.py looks the rows up, for violations only.

Invariants: a row with violations has a sentence and at least one key; a row of evidence has neither.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.trace.schema import COUNTER_BITS

KEY = "struct<group:int,process:int,local:bigint,kind:tinyint,sender:int,number:bigint,value:bigint,role:string>"
COLUMNS = ("run", "group", "property", "evidence_count", "violation_count", "rank", "sentence", "keys", "lack")
FINDING = (
    "run bigint, group int, property string, evidence_count bigint, violation_count bigint, rank bigint, "
    f"sentence string, keys array<{KEY}>, lack string"
)


def column(value: Column | str | int | None) -> Column:
    return value if isinstance(value, Column) else F.col(value) if isinstance(value, str) else F.lit(value)


def key(
    kind: Kind,
    process: Column | str,
    role: str,
    sender: Column | str | None = "sender",
    number: Column | str | None = "number",
    local: Column | str | None = None,
    value: Column | str | None = None,
) -> Column:
    """One event of a witness; what is not given is not compared."""
    return F.struct(
        F.lit(None).cast("int").alias("group"),
        column(process).cast("int").alias("process"),
        column(local).cast("long").alias("local"),
        F.lit(int(kind)).cast("byte").alias("kind"),
        column(sender).cast("int").alias("sender"),
        column(number).cast("long").alias("number"),
        column(value).cast("long").alias("value"),
        F.lit(role).alias("role"),
    )


def evidence(frame: DataFrame, name: str, count: Column | str | int, lack: Column | str | None = None) -> DataFrame:
    """How often a property could have been broken; or why it could not, if that is known."""
    return frame.select(
        "run",
        F.col("group").cast("int").alias("group"),
        F.lit(name).alias("property"),
        column(count).cast("long").alias("evidence_count"),
        F.lit(0).cast("long").alias("violation_count"),
        F.lit(None).cast("long").alias("rank"),
        F.lit(None).cast("string").alias("sentence"),
        F.lit(None).cast(f"array<{KEY}>").alias("keys"),
        column(lack).cast("string").alias("lack"),
    )


def violations(
    frame: DataFrame, name: str, sentence: Column, keys: list[Column], rank: Column | str, count: Column | str | int = 1
) -> DataFrame:
    """Violations with their events; the one of the lowest rank is the witness."""
    return frame.select(
        "run",
        F.col("group").cast("int").alias("group"),
        F.lit(name).alias("property"),
        F.lit(0).cast("long").alias("evidence_count"),
        column(count).cast("long").alias("violation_count"),
        column(rank).cast("long").alias("rank"),
        sentence.alias("sentence"),
        F.array(*keys).cast(f"array<{KEY}>").alias("keys"),
        F.lit(None).cast("string").alias("lack"),
    )


def message(sender: Column | str = "sender", number: Column | str = "number") -> Column:
    """A message for people: 3:7, or 3:1.7 of incarnation 1."""
    count = column(number)
    high, low = F.shiftright(count, COUNTER_BITS), count.bitwiseAND(F.lit((1 << COUNTER_BITS) - 1))
    told = F.when(high > 0, F.concat_ws(".", high.cast("string"), low.cast("string"))).otherwise(count.cast("string"))
    return F.concat_ws(":", column(sender).cast("string"), told)


def life(process: Column | str = "process", number: Column | str = "life") -> Column:
    """A life for people: process 3, or process 3 (incarnation 1)."""
    again = F.when(column(number) > 0, F.format_string(" (incarnation %d)", column(number))).otherwise(F.lit(""))
    return F.concat(F.lit("process "), column(process).cast("string"), again)


def say(*parts: Column | str) -> Column:
    """Parts of a sentence put together; texts are meant literally."""
    return F.concat(*(part if isinstance(part, Column) else F.lit(part) for part in parts))


def listed(processes: Column) -> Column:
    """An array as Python writes a tuple."""
    inner = F.array_join(processes.cast("array<string>"), ", ")
    return F.concat(F.lit("("), inner, F.when(F.size(processes) == 1, ",").otherwise(F.lit("")), F.lit(")"))
