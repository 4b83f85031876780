"""`isthmus check` on Spark: a trace is read, judged and summed up there; sums and first witnesses come back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.storagelevel import StorageLevel

from isthmus.judge.runs import NO_ROWS, Judged, Summary, Told, check_domains, choose, settled
from isthmus.judge.verdict import STATUSES
from isthmus.judge.witness import WitnessEvent
from isthmus.pipeline.check.verdicts import check, witness_of
from isthmus.pipeline.engine.session import spark_session
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.frames import read_trace
from isthmus.trace.domain import ORDERS, Domain, of_domains
from isthmus.trace.inputs.files import files_of
from isthmus.trace.inputs.rows import TraceInput

SHUFFLE_BYTES = 32 << 20  # of input for one partition of a shuffle


def judge_on_spark(
    source: TraceInput | str,
    form: str,
    patterns: Mapping[str, str],
    properties: Sequence[str],
    bounds: Mapping[str, int],
    domains: Sequence[Domain] = (),
    partial: bool = False,
    composed: bool = False,
    *,
    master: str | None = None,
    remote: str | None = None,
) -> Judged:
    """Judge a trace; a text that this process can see is read here first, so that an error has its line."""
    path = source if isinstance(source, str) else str(source.path)
    if isinstance(source, TraceInput) and source.form != "parquet":
        for _ in source.rows():
            pass
        form = source.form
    settings = {"spark.sql.shuffle.partitions": str(shuffle_partitions(path))}
    with one_sentence(path), spark_session(master, remote, settings=settings) as spark:
        trace = read_trace(spark, path, form, patterns)
        if form not in ("parquet", "auto"):
            trace = trace.persist(StorageLevel.MEMORY_AND_DISK)
        counts = trace.groupBy("kind", "group").count().collect()
        kinds: dict[int, int] = {}
        for row in counts:
            kinds[row.kind] = kinds.get(row.kind, 0) + row["count"]
        if not composed:
            check_domains(domains, {row.group for row in counts})
        promised = source.promised() if isinstance(source, TraceInput) else None
        asked, left_out = choose(properties, kinds, promised)
        verdicts = check(trace, asked, bounds, domains, partial)
        if composed:
            verdicts = verdicts.where(~is_moot(of_domains(domains)))
        summaries = summarize(verdicts, asked)
    return settled(summaries, left_out, sum(kinds.values()), bool(properties))


def is_moot(inside: Collection[int]) -> Column:
    """Whether a verdict on a group of a composition is about what nobody promises."""
    owed_nothing = (F.col("property") == "validity") & (F.col("status") == "unknown")
    in_group = (F.col("domain") == "") & F.col("group").isin(sorted(inside))
    return in_group & (F.col("property").isin(*ORDERS) | owed_nothing)


def shuffle_partitions(path: str) -> int:
    """As many as the size of the input asks for; a small trace should not pay for 200."""
    if "://" in path:
        return 200
    size = sum(file.stat().st_size for file in files_of(Path(path)))
    return max(4, min(2000, size // SHUFFLE_BYTES))


def summarize(verdicts: DataFrame, asked: Sequence[str]) -> list[Summary]:
    """Sums over runs, groups and domains, and the first witness by run, one row per property."""
    statuses = [F.count_if(F.col("status") == status).alias(status) for status in STATUSES]
    place = F.struct("run", "domain", "group")
    told = F.struct("run", "group", "domain", "shown", "witness_events")
    violated, unknown = F.col("status") == "violated", F.col("status") == "unknown"
    found = verdicts.groupBy("property").agg(
        *statuses,
        F.sum("evidence_count").alias("evidence"),
        F.sum("violation_count").alias("violations"),
        F.min_by(told, F.when(violated, place)).alias("told"),
        F.min(F.when(unknown, F.col("witness"))).alias("reason"),
    )
    rows = {row.property: row for row in found.collect()}
    return [summary_of(name, rows.get(name)) for name in asked]


def summary_of(name: str, row: Row | None) -> Summary:
    if row is None:
        return Summary(name, {"valid": 0, "violated": 0, "unknown": 1}, 0, 0, None, NO_ROWS)
    counts: dict[str, int] = {status: row[status] for status in STATUSES}
    told = told_of(row.told) if row["violated"] else None
    return Summary(name, counts, row.evidence, row.violations, told, row.reason or "")


def told_of(row: Row) -> Told:
    events = tuple(WitnessEvent(**event.asDict()) for event in row.witness_events)
    return Told(row.run, row.group, row.domain, witness_of(row.shown), events)
