"""What a check hands in: evidence, violations and the fields that show them, all in one shape (formats.FINDING).

A check yields any number of rows for a run, group and property; their counts are summed, and the row of the lowest rank
gives the witness, with the fields of judge.witness.Witness. An event is named by a key (kind, process, message);
verdicts.py looks the rows up. A row with violations has a form and at least one event; a row of evidence neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.judge.witness import Witness
from isthmus.pipeline.engine.formats import FINDING, WITNESS

Value = Column | str | int | None  # a string names a column
HERE = ("origin", "sender", "number")  # the columns of the message that a row is about


def column(value: Value) -> Column:
    return value if isinstance(value, Column) else F.col(value) if isinstance(value, str) else F.lit(value)


def key(
    kind: Kind,
    process: Column | str,
    role: str,
    message: Sequence[Value] | None = HERE,
    local: Value = None,
    value: Value = None,
) -> Column:
    """One event of a witness; what is not given is not compared."""
    origin, sender, number = message or (None, None, None)
    return F.struct(
        F.lit(int(kind)).cast("byte").alias("kind"),
        column(process).cast("int").alias("process"),
        column(origin).cast("int").alias("origin"),
        column(sender).cast("int").alias("sender"),
        column(number).cast("long").alias("number"),
        column(local).cast("long").alias("local"),
        column(value).cast("long").alias("value"),
        F.lit(role).alias("role"),
    )


def life(process: Value = "process", incarnation: Value = "life") -> Column:
    return F.struct(column(process).cast("int").alias("process"), column(incarnation).cast("int").alias("life"))


def message(origin: Value = "origin", sender: Value = "sender", number: Value = "number") -> Column:
    parts = (origin, "int"), (sender, "int"), (number, "long")
    return F.struct(*(column(part).cast(kind).alias(name) for (part, kind), name in zip(parts, HERE, strict=True)))


def evidence(frame: DataFrame, name: str, count: Value, lack: Value = None, doubt: Value = None) -> DataFrame:
    """How often a property could have been broken; or why it could not, or cannot be told, if that is known."""
    given = {"property": F.lit(name), "evidence_count": column(count), "lack": column(lack), "doubt": column(doubt)}
    return shaped(frame, given)


def violations(
    frame: DataFrame,
    name: str,
    form: str | Column,
    rank: Value,
    events: Sequence[Column],
    *,
    lives: Sequence[Column] = (),
    messages: Sequence[Column] = (),
    numbers: Sequence[Column | str | int] = (),
    members: Sequence[Column | str] = (),
    count: Value = 1,
    listed: Column | None = None,
) -> DataFrame:
    """Violations with the fields of their witness; the one of the lowest rank is shown.

    `listed` are the messages where their number differs from row to row.
    """
    return shaped(
        frame,
        {
            "property": F.lit(name),
            "violation_count": column(count),
            "rank": column(rank),
            "form": F.lit(form) if isinstance(form, str) else form,
            "lives": F.array(*lives),
            "messages": F.array(*messages) if listed is None else listed,
            "numbers": F.array(*(column(number).cast("long") for number in numbers)),
            "members": F.array(*map(column, members)),
            "events": F.array(*events),
        },
    )


def shaped(frame: DataFrame, given: dict[str, Column]) -> DataFrame:
    """Findings of a frame with run and group; counts that are not given are 0, and the rest null."""
    nothing = {"evidence_count": F.lit(0), "violation_count": F.lit(0)}
    columns = {"run": F.col("run"), "group": F.col("group")} | nothing | given
    return frame.select(*(columns.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in FINDING.items()))


def finding_row(run: int, group: int, name: str, *, evidence_count: int = 0, violation_count: int = 0,
                rank: int | None = None, witness: Witness | None = None,
                doubt: str | None = None) -> tuple[object, ...]:  # fmt: skip
    """One finding as a tuple in the order of the columns, for what is computed in Python."""
    fields: tuple[object, ...] = (None,) * len(WITNESS)
    if witness is not None:
        events = [
            (
                int(event.kind),
                event.process,
                *(event.message or (None, None, None)),
                event.local,
                event.value,
                event.role,
            )
            for event in witness.events
        ]
        lists = (list(witness.lives), list(witness.messages), list(witness.numbers), list(map(list, witness.members)))
        fields = (witness.form, *lists, events)
    return (run, group, name, evidence_count, violation_count, rank, *fields, None, doubt)
