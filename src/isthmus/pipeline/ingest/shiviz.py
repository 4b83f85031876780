"""Logs for ShiViz as a DataFrame: what trace/inputs/shiviz.py reads line by line, by windows and patterns of Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.pipeline.engine.spark_errors import refuse
from isthmus.pipeline.ingest.columns import conform
from isthmus.trace.inputs.shiviz import GROUPS, HOST_LINE, PATTERNS, RUN_LINE


def read_shiviz(
    spark: SparkSession, files: Sequence[Path | str], source: str, patterns: Mapping[str, str] = PATTERNS
) -> DataFrame:
    found = events(spark, files, patterns)
    if found.isEmpty():
        wanted = " or ".join(repr(f"{kind} m=HOST:NUMBER") for kind in ("submit", "deliver"))
        shown = f"no event that a pattern matches ({', '.join(patterns)})"
        raise InputError(
            source, "", shown, f"events such as {wanted}, or --pattern KIND=REGEX for this log's own words"
        )
    numbers = F.broadcast(hosts(spark, files, patterns))
    hosts_by_name = numbers.agg(F.map_from_entries(F.collect_list(F.struct("host", "process"))).alias("numbers"))
    joined = found.crossJoin(F.broadcast(hosts_by_name))
    number = F.col("numbers")
    rows = joined.select(
        (F.col("run")).alias("run"),
        number[F.col("host")].alias("process"),
        F.coalesce(
            F.col("own"), refuse(source, "clock", clock_text(), "an entry of the host itself").cast("bigint")
        ).alias("local"),
        F.col("kind"),
        number[F.col("sender")].alias("sender"),
        F.col("number").cast("bigint").alias("number"),
        F.transform("to", lambda name: number[name]).alias("destinations"),
    )
    return conform(rows, source)


def hosts(spark: SparkSession, files: Sequence[Path | str], patterns: Mapping[str, str] = PATTERNS) -> DataFrame:
    """Which host is which process: (host, process)."""
    lines = host_lines(spark, files)
    spoke = lines.select("host", F.lit(0).alias("late"), "file", "block", "line")
    named = events(spark, files, patterns).select(
        F.explode(F.concat(F.array("sender"), F.coalesce("to", F.array().cast("array<string>")))).alias("host"),
        F.lit(1).alias("late"), "file", "block", "line",
    ).where("host IS NOT NULL")  # fmt: skip
    place = F.struct("late", "file", "block", "line")
    first = spoke.unionByName(named).groupBy("host").agg(F.min(place).alias("first"))
    order = Window.partitionBy(F.lit(0)).orderBy("first", "host")  # as many rows as hosts
    return first.select("host", (F.row_number().over(order) - 1).alias("process"))


def events(spark: SparkSession, files: Sequence[Path | str], patterns: Mapping[str, str]) -> DataFrame:
    """The events that a pattern matches: run, host, own clock entry, kind, sender, number, to, and their place."""
    lines = host_lines(spark, files)
    entry = F.from_json("clock", "map<string,bigint>")[F.col("host")]
    wanted = [(int(Kind[kind.upper()]), re.compile(pattern)) for kind, pattern in patterns.items()]
    kind = F.coalesce(*(F.when(matches(pattern), F.lit(number)) for number, pattern in wanted))
    parts = [F.coalesce(*(group(pattern, name) for _, pattern in wanted)).alias(name) for name in GROUPS]
    found = lines.select(
        "run", "host", "clock", entry.alias("own"), kind.alias("kind"), *parts, "file", "block", "line"
    )
    return found.where("kind IS NOT NULL").withColumn("to", F.split("to", ","))


def host_lines(spark: SparkSession, files: Sequence[Path | str]) -> DataFrame:
    """Each host line with the line after it, in the order of the files."""
    text = spark.read.text([str(file) for file in files]).where("trim(value) <> ''")
    placed = text.select(
        "value",
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("line"),
    )
    order = Window.partitionBy("file").orderBy("block", "line")
    separators = F.sum(F.regexp_like("value", F.lit(RUN_LINE)).cast("int")).over(order)
    first = F.first("value").over(order)
    begun = F.regexp_like(first, F.lit(RUN_LINE)).cast("int")
    paired = placed.select(
        "*", F.lead("value").over(order).alias("event"), (separators - begun).cast("bigint").alias("run")
    )
    return paired.where(F.regexp_like("value", F.lit(HOST_LINE))).select(
        "run", "event", "file", "block", "line",
        F.regexp_extract("value", HOST_LINE, 1).alias("host"), F.regexp_extract("value", HOST_LINE, 2).alias("clock"),
    )  # fmt: skip


def matches(pattern: re.Pattern[str]) -> Column:
    return F.regexp_like("event", F.lit(java(pattern)))


def group(pattern: re.Pattern[str], name: str) -> Column:
    """What a named group holds, null where the pattern has no such group or does not match."""
    if name not in pattern.groupindex:
        return F.lit(None).cast("string")
    return F.when(
        matches(pattern), F.nullif(F.regexp_extract("event", java(pattern), pattern.groupindex[name]), F.lit(""))
    )


def java(pattern: re.Pattern[str]) -> str:
    """The pattern in Java's spelling of named groups."""
    return pattern.pattern.replace("(?P<", "(?<")


def clock_text() -> Column:
    return F.concat(F.col("host"), F.lit(" "), F.col("clock"))
