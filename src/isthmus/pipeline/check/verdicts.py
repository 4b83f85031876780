"""From a trace to verdicts: one row per run, group or domain, and property, with a witness where it is violated.

    verdicts = check(spark.read.parquet("out/trace"), ["integrity", "total"])
    verdicts = check(trace, PROPERTIES, bounds={"clock-precision": 1_000_000, "clock-accuracy": 5_000_000})  # ns
    verdicts = check(trace, ["fifo"], domains=[Domain("campus", (0, 1, 2), "inter")])

Runs that fit a task are judged by the oracle of one process, there (runs.py). For longer ones the checks share their
tables (tables.py) and hand in findings of one shape (findings.py), which are added up here; only if something is
violated is the trace read once more, for the events of each witness.

Invariants: every run and group has a row for every property asked of it, and so has every domain with rows in scope.
Without evidence the status is unknown, and the witness says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError
from isthmus.judge.oracle import BOTH, PROPERTIES, check_bounds
from isthmus.judge.witness import LACKS, Witness, sentence
from isthmus.pipeline.check.domains import domain_names, is_domain
from isthmus.pipeline.check.findings import evidence
from isthmus.pipeline.check.incarnations import in_runs
from isthmus.pipeline.check.properties.agreement import agreement
from isthmus.pipeline.check.properties.causal import causal
from isthmus.pipeline.check.properties.clocks import accuracy, precision
from isthmus.pipeline.check.properties.fifo import fifo
from isthmus.pipeline.check.properties.finality import final
from isthmus.pipeline.check.properties.integrity import integrity
from isthmus.pipeline.check.properties.primary import primary
from isthmus.pipeline.check.properties.sending_view import sending_view
from isthmus.pipeline.check.properties.total import total, uniform_total
from isthmus.pipeline.check.properties.uniform import uniform_agreement
from isthmus.pipeline.check.properties.validity import validity
from isthmus.pipeline.check.properties.views import views
from isthmus.pipeline.check.runs import RunFile, Spans, judge_files, judge_runs
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import EVENT, EVENT_KEY, FINDING, GROUP, SHOWN, VERDICT, WITNESS, ddl
from isthmus.pipeline.engine.store import FrameStore
from isthmus.pipeline.sweep.sweep import Sweep
from isthmus.trace.domain import JOINT, Domain, check_names
from isthmus.trace.schema import NONE

RUN_ROWS_MAX = 1_000_000  # rows of a run that one task judges by itself: about half a gigabyte of memory
Asked = Iterable[str] | Mapping[str, Sequence[range]]  # names; or names, each with the runs that it is asked of
EACH = (
    integrity, validity, agreement, uniform_agreement, fifo, causal, total, uniform_total, final,
    sending_view, views, primary,
)  # fmt: skip
CHECKS = {each.__name__.replace("_", "-"): each for each in EACH}  # named as judge.oracle names them
CLOCKS = {"clock-precision": precision, "clock-accuracy": accuracy}
PARTS = {BOTH: ("fifo", "total"), "final": ("total",)}  # what a property is made of, beside its own check


def check(
    trace: DataFrame,
    properties: Asked,
    bounds: Mapping[str, int] | None = None,
    domains: Sequence[Domain] = (),
    partial: bool = False,
    run_rows_max: int = RUN_ROWS_MAX,
) -> DataFrame:
    """Judge properties of every run and group of a trace, and of domains; `bounds` are those of the clocks, in ns.

    `properties` are names, or names with the runs in which each is asked for: traces of several kinds, told apart by
    the numbers of their runs, are judged in one go. `partial` says that the trace stops early. Runs of up to
    `run_rows_max` rows are judged whole in one task each (runs.py), longer ones by the tables that all tasks share.
    """
    check_names(domains)
    check_bounds(bounds or {})
    spans: dict[str, Sequence[range] | None] = (
        dict(properties) if isinstance(properties, Mapping) else dict.fromkeys(properties)
    )
    for name in spans:
        if name not in PROPERTIES:
            raise InputError("property", "", repr(name), "one of " + ", ".join(PROPERTIES))
    store = FrameStore(trace.sparkSession)
    long = [row.run for row in trace.groupBy("run").count().where(F.col("count") > run_rows_max).collect()]
    is_long = F.col("run").isin(long)
    short = store.keep(judge_runs(trace.where(~is_long) if long else trace, spans, bounds or {}, domains, partial))
    if not long:
        return short
    found = judge_by_tables(trace.where(is_long), spans, bounds or {}, domains, partial)
    return short.unionByName(found)


def check_sweeps(sweeps: Sequence[Sweep], properties: Mapping[str, Sequence[range]]) -> DataFrame:
    """Judge the runs of several sweeps, numbered through all of them; those that failed are left out.

    No row is moved for a run that one task can judge: it stands whole in one file (runs.py).
    """
    files: list[RunFile] = []
    row_counts: dict[int, int] = {}
    long: list[DataFrame] = []
    shift = 0
    for one in sweeps:
        files += [RunFile(path, shift) for path in one.files]
        row_counts |= {shift + outcome.run: outcome.row_count for outcome in one.outcomes if outcome.status == "ok"}
        too_long = [found.run for found in one.outcomes if found.status == "ok" and found.row_count > RUN_ROWS_MAX]
        if too_long:
            long.append(one.trace.where(F.col("run").isin(too_long)).withColumn("run", F.col("run") + shift))
        shift += len(one.outcomes)
    short = {run: count for run, count in row_counts.items() if 0 < count <= RUN_ROWS_MAX}
    spark = sweeps[0].trace.sparkSession
    found = FrameStore(spark).keep(judge_files(spark, files, short, properties))
    for trace in long:
        found = found.unionByName(judge_by_tables(trace, properties, {}, (), partial=False))
    return found


def judge_by_tables(
    trace: DataFrame,
    spans: Spans,
    bounds: Mapping[str, int],
    domains: Sequence[Domain],
    partial: bool,
    once: bool = False,
) -> DataFrame:
    """The same of runs of any size, each spread over all tasks; `once` where no row can be there twice."""
    tables = Tables(trace, with_parts(spans), domains, partial)
    try:
        if tables.alarms["doubled"]:
            if once:
                raise InputError("trace", "local", "two rows of a process with one number", "a number for each row")
            return judge_by_tables(trace.dropDuplicates(), spans, bounds, domains, partial, once=True)
        found = findings(tables, bounds)
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
    needed = tables.asked
    found = [CHECKS[name](tables) for name in CHECKS if name in needed]
    found += [CLOCKS[name](tables, bounds.get(name)) for name in CLOCKS if name in needed]
    together = (
        tables.keep(reduce(DataFrame.unionByName, found))
        if found
        else tables.trace.sparkSession.createDataFrame([], ddl(FINDING))
    )
    extra = [together]
    if BOTH in needed:
        extra += both(together.where(F.col("property").isin("fifo", "total")))
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
    """One row for each run, group and property asked for: the sums, and the fields of the witness."""
    spark = found.sparkSession
    asked = spark.createDataFrame([(name, LACKS[name]) for name in wanted], "property string, usual string")
    rows = tables.seen.select(*GROUP).join(F.broadcast(asked)).where(~is_domain() | F.col("property").isin(*JOINT))
    here = [(F.col("property") == name) & in_runs(spans) for name, spans in wanted.items()]
    rows = rows.where(reduce(or_, here, F.lit(False)))
    told = F.struct(*WITNESS)
    counts = found.groupBy(*GROUP, "property").agg(
        F.sum("evidence_count").alias("evidence_count"),
        F.sum("violation_count").alias("violation_count"),
        F.min_by(told, F.when(F.col("violation_count") > 0, F.struct("rank", *WITNESS))).alias("told"),
        F.max("lack").alias("lack"),
        F.max("doubt").alias("doubt"),
    )
    violated = F.col("violation_count") > 0
    seen = (F.col("evidence_count") > 0) & F.col("doubt").isNull()
    return (
        rows.join(counts, [*GROUP, "property"], "left")
        .withColumn("evidence_count", F.coalesce("evidence_count", F.lit(0)).cast("long"))
        .withColumn("violation_count", F.coalesce("violation_count", F.lit(0)).cast("long"))
        .withColumn("status", F.when(violated, "violated").when(seen, "valid").otherwise("unknown"))
        .withColumn("reason", F.when(violated | seen, "").otherwise(F.coalesce("doubt", "lack", "usual")))
        .select(*GROUP, "property", "status", "evidence_count", "violation_count", "reason", "told.*")
    )


def witnessed(tables: Tables, verdicts: DataFrame) -> DataFrame:
    """Verdicts with the sentences of their witnesses and the events, in the order of the sentence."""
    bad = verdicts.where(F.col("status") == "violated")
    told = {"group": F.when(is_domain(), NONE).otherwise(F.col("group")), "domain": domain_names(tables.domains)}
    if bad.isEmpty():
        shown = verdicts.withColumns(
            told | {"witness": F.col("reason"), "witness_events": F.array(), "shown": F.lit(None)}
        )
    else:
        place = [*GROUP, "property"]
        spoken = F.udf(spoken_of, "string", useArrow=False)(told["group"], F.struct(*WITNESS))
        sentences = bad.select(*place, spoken.alias("sentence"))
        shown = (
            verdicts.join(sentences, place, "left")
            .join(events_of(tables, bad), place, "left")
            .withColumns(told | {"witness": F.coalesce("sentence", "reason")})
            .withColumn("shown", F.when(F.col("status") == "violated", F.struct(*SHOWN)))
            .withColumn("witness_events", F.coalesce("witness_events", F.array().cast(VERDICT["witness_events"])))
        )
    shaped = shown.select(*(F.col(name).cast(kind).alias(name) for name, kind in VERDICT.items()))
    return shaped if bad.isEmpty() else tables.keep(shaped)


def spoken_of(group: int, told: Row) -> str:
    return sentence(witness_of(told), group)


def witness_of(told: Row) -> Witness:
    """A witness from its columns, without the keys of its events."""
    lives = tuple((life.process, life.life) for life in told.lives)
    messages = tuple((message.origin, message.sender, message.number) for message in told.messages)
    members = tuple(map(tuple, told.members))
    return Witness(told.form, lives, messages, tuple(told.numbers), members)


def events_of(tables: Tables, bad: DataFrame) -> DataFrame:
    """The rows of the trace that the keys of violated verdicts mean: run, group, property, witness_events."""
    keys = bad.select(*GROUP, "property", F.posexplode("events").alias("at", "key")).select(
        *(F.col(name).alias(f"key_{name}") for name in (*GROUP, "property", "at")),
        *(F.col(f"key.{name}").alias(f"key_{name}") for name in EVENT_KEY),
    )
    same = reduce(
        lambda one, other: one & other,
        (F.col(name) == F.col(f"key_{name}") for name in (*GROUP, "process", "kind")),
    )
    for name in ("origin", "sender", "number", "local", "value"):
        same &= F.col(f"key_{name}").isNull() | (F.col(name) == F.col(f"key_{name}"))
    given = {"role": F.col("key_role"), "group": F.col("seen_in"), "missing": F.lit(False)}
    event = F.struct(*(given.get(name, F.col(name)).alias(name) for name in EVENT))
    first = F.struct("local", event.alias("event"))  # the first row that fits a key is meant
    found = (
        tables.trace.join(F.broadcast(keys), same)
        .groupBy(*(f"key_{name}" for name in (*GROUP, "property", "at")))
        .agg(F.min(first).alias("found"))
        .groupBy(*(F.col(f"key_{name}").alias(name) for name in (*GROUP, "property")))
        .agg(F.array_sort(F.collect_list(F.struct(F.col("key_at").alias("at"), F.col("found.event")))).alias("events"))
    )
    events = F.transform("events", lambda item: item["event"])
    return found.select(*GROUP, "property", events.alias("witness_events"))
