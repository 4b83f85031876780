"""From a trace to verdicts: one row a run, group and property, with a witness where it is violated.

The problem: many checks, one answer each, at the price of few passes over the trace. The idea: the checks share their
tables (tables.py) and hand in findings of one shape (findings.py); here they are added up. Only if something is
violated is the trace read once more, to fetch the two or three events of each witness.

    verdicts = check(spark.read.parquet("out/trace"), ["integrity", "total"])
    verdicts = check(trace, PROPERTIES, bounds={"clock-precision": 1_000_000, "clock-accuracy": 5_000_000})  # ns

Invariants: every run and group of the trace has a row for every property asked of it. Without evidence the status is
unknown, and the witness says what is missing. A run with several groups has a row `total` of group -1 too: the union
of the delivery orders over its groups. docs/TRACE.md defines the properties, docs/design/checks.md says how they are
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError
from isthmus.pipeline.check_agreement import agreement
from isthmus.pipeline.check_causal import causal
from isthmus.pipeline.check_clocks import accuracy, precision
from isthmus.pipeline.check_fifo import fifo
from isthmus.pipeline.check_finality import final
from isthmus.pipeline.check_integrity import integrity, sending_view
from isthmus.pipeline.check_total import across_groups, total, uniform_total
from isthmus.pipeline.check_validity import validity
from isthmus.pipeline.check_views import primary, views
from isthmus.pipeline.findings import FINDING, evidence
from isthmus.pipeline.lives import GROUP, in_runs
from isthmus.pipeline.tables import Tables

Check = Callable[[Tables], DataFrame]
Asked = Iterable[str] | Mapping[str, Sequence[range]]  # names; or names, each with the runs that it is asked of
CHECKS: dict[str, tuple[Check, str]] = {  # with what is missing where there is no evidence
    "integrity": (integrity, "nobody delivered anything"),
    "validity": (validity, "nobody who is there at the end submitted anything to someone who stayed"),
    "agreement": (agreement, "no two processes went through a view together and delivered something in it"),
    "fifo": (fifo, "nobody delivered two messages of one sender"),
    "causal": (causal, "nobody delivered two messages"),
    "total": (total, "no two processes delivered two messages in common"),
    "uniform-total": (uniform_total, "no two processes delivered two messages in common"),
    "final": (final, "nothing was delivered tentatively"),
    "sending-view": (sending_view, "nobody delivered anything that was submitted"),
    "views": (views, "no two views to compare"),
    "primary": (primary, "no two views to compare"),
}
CLOCKS = {"clock-precision": precision, "clock-accuracy": accuracy}
BOTH = "fifo-total"
PARTS = {BOTH: ("fifo", "total"), "final": ("total",)}  # what a property is made of, beside its own check
PROPERTIES = (*CHECKS, BOTH, *CLOCKS)
EVENT = "struct<process:int,local:bigint,time_ns:bigint,kind:tinyint,sender:int,number:bigint,view:int,role:string>"
ACROSS = -1  # as a group: all groups of a run together


def check(trace: DataFrame, properties: Asked, bounds: Mapping[str, int] | None = None) -> DataFrame:
    """Judge properties of every run and group of a trace; `bounds` are those of the clocks, in ns.

    `properties` are names, or names with the runs in which each is asked for: traces of several kinds, told apart by
    the numbers of their runs, are judged in one go, which costs far less than one by one.

    The columns: run, group, property, status, evidence_count, violation_count, witness, witness_events.
    """
    spans: dict[str, Sequence[range] | None] = (
        dict(properties) if isinstance(properties, Mapping) else dict.fromkeys(properties)
    )
    for name in spans:
        if name not in PROPERTIES:
            raise InputError("property", "", repr(name), "one of " + ", ".join(PROPERTIES))
    for name in bounds or {}:
        if name not in CLOCKS:
            raise InputError("bounds", "", repr(name), "one of " + ", ".join(CLOCKS))
    tables = Tables(trace, with_parts(spans))
    try:
        found = findings(tables, bounds or {})
        return witnessed(tables, tables.keep(summed(tables, found, spans)))
    finally:
        tables.release()


def with_parts(spans: Mapping[str, Sequence[range] | None]) -> dict[str, Sequence[range] | None]:
    """The same with the properties that others are made of."""
    needed = dict(spans)
    for whole, parts in PARTS.items():
        for part in parts if whole in spans else ():
            given, more = needed.get(part, ()), spans[whole]
            needed[part] = None if given is None or more is None else [*given, *more]
    return needed


def findings(tables: Tables, bounds: Mapping[str, int]) -> DataFrame:
    """What all checks found, rows of one shape."""
    needed = tables.asked
    found = [CHECKS[name][0](tables) for name in CHECKS if name in needed]
    found += [CLOCKS[name](tables, bounds[name]) for name in CLOCKS if name in needed and name in bounds]
    if "total" in needed and tables.alarms["several"]:
        found.append(across_groups(tables))
    together = (
        tables.keep(reduce(DataFrame.unionByName, found))
        if found
        else tables.trace.sparkSession.createDataFrame([], FINDING)
    )
    extra = [together]
    if BOTH in needed:
        extra += both(together.where(F.col("property").isin("fifo", "total") & (F.col("group") != ACROSS)))
    if "final" in needed:
        tentative = tables.seen.where(F.col("tentative") + F.col("revoke") > 0).select(*GROUP)
        order = together.where((F.col("property") == "total") & (F.col("violation_count") > 0))
        extra.append(order.join(tentative, list(GROUP), "left_semi").withColumn("property", F.lit("final")))
    return reduce(DataFrame.unionByName, extra)


def both(found: DataFrame) -> list[DataFrame]:
    """Fifo and total together: the violations of either, and evidence only where each has some."""
    counts = [F.sum(F.when(F.col("property") == name, F.col("evidence_count"))) for name in ("fifo", "total")]
    each = found.groupBy(*GROUP).agg(counts[0].alias("fifo"), counts[1].alias("total"))
    seen = each.where((F.col("fifo") > 0) & (F.col("total") > 0))
    broken = found.where(F.col("violation_count") > 0).withColumn("property", F.lit(BOTH))
    return [evidence(seen, BOTH, F.col("fifo") + F.col("total")), broken]


def summed(tables: Tables, found: DataFrame, wanted: Mapping[str, Sequence[range] | None]) -> DataFrame:
    """One row for each run, group and property asked for."""
    spark = found.sparkSession
    lacks = {name: lack for name, (_, lack) in CHECKS.items()}
    lacks[BOTH] = f"{lacks['fifo']}, or {lacks['total']}"
    lacks |= dict.fromkeys(CLOCKS, "no two clocks were read, or no bound was given")
    asked = spark.createDataFrame([(name, lacks[name]) for name in wanted], "property string, usual string")
    across = tables.seen.where(F.col("several")).select("run", F.lit(ACROSS).alias("group")).distinct()
    rows = tables.seen.select(*GROUP).join(F.broadcast(asked))
    rows = rows.unionByName(across.join(F.broadcast(asked.where(F.col("property") == "total"))))
    here = [(F.col("property") == name) & in_runs(spans) for name, spans in wanted.items()]
    rows = rows.where(reduce(or_, here, F.lit(False)))
    told = F.struct("sentence", "keys")
    counts = found.groupBy(*GROUP, "property").agg(
        F.sum("evidence_count").alias("evidence_count"),
        F.sum("violation_count").alias("violation_count"),
        F.min_by(told, F.when(F.col("violation_count") > 0, F.struct("rank", "sentence"))).alias("told"),
        F.max("lack").alias("lack"),
    )
    violated, seen = F.col("violation_count") > 0, F.col("evidence_count") > 0
    return (
        rows.join(counts, [*GROUP, "property"], "left")
        .withColumn("evidence_count", F.coalesce("evidence_count", F.lit(0)).cast("long"))
        .withColumn("violation_count", F.coalesce("violation_count", F.lit(0)).cast("long"))
        .withColumn("status", F.when(violated, "violated").when(seen, "valid").otherwise("unknown"))
        .withColumn(
            "witness",
            F.when(violated, F.col("told.sentence")).when(seen, "").otherwise(F.coalesce("lack", "usual")),
        )
        .select(*GROUP, "property", "status", "evidence_count", "violation_count", "witness", "told.keys")
    )


def witnessed(tables: Tables, verdicts: DataFrame) -> DataFrame:
    """Verdicts with the events of their witnesses, in the order of the sentence."""
    names = ("run", "group", "property", "status", "evidence_count", "violation_count", "witness")
    bad = verdicts.where(F.col("status") == "violated")
    if bad.isEmpty():
        return verdicts.select(*names, F.array().cast(f"array<{EVENT}>").alias("witness_events"))
    keys = bad.select("run", F.col("group").alias("of"), "property", F.posexplode("keys").alias("at", "key")).select(
        "run", "of", "property", "at", "key.*"
    )
    sought = keys.select(
        *(F.col(name).alias(f"key_{name}") for name in ("run", "of", "property", "at", "role", "local", "value")),
        *(F.col(name).alias(f"key_{name}") for name in ("process", "kind", "sender", "number", "group")),
    )
    same = (F.col("run") == F.col("key_run")) & (F.col("process") == F.col("key_process"))
    same &= F.col("kind") == F.col("key_kind")
    for name in ("sender", "number", "local", "value"):
        same &= F.col(f"key_{name}").isNull() | (F.col(name) == F.col(f"key_{name}"))
    same &= F.coalesce("key_group", "key_of") == F.col("group")
    event = F.struct("process", "local", "time_ns", "kind", "sender", "number", "view", F.col("key_role").alias("role"))
    last = F.col("key_role") == "again"
    place = F.struct(F.when(last, -F.col("local")).otherwise(F.col("local")).alias("by"), event.alias("event"))
    found = (
        tables.trace.join(F.broadcast(sought), same)
        .groupBy("key_run", "key_of", "key_property", "key_at")
        .agg(F.min(place).alias("found"))
        .groupBy(F.col("key_run").alias("run"), F.col("key_of").alias("group"), F.col("key_property").alias("property"))
        .agg(F.array_sort(F.collect_list(F.struct(F.col("key_at").alias("at"), F.col("found.event")))).alias("events"))
    )
    events = F.transform(F.coalesce("events", F.array()), lambda item: item["event"])
    with_events = verdicts.join(found, [*GROUP, "property"], "left")
    return tables.keep(with_events.select(*names, events.cast(f"array<{EVENT}>").alias("witness_events")))
