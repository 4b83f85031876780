"""Any trace in the documented schema, from any system, as the one DataFrame (docs/design/pipeline.md).

Files are listed and their heads read here, in the driver, so that what is wrong is said of a file and a column before
any job starts; files with the same columns are one scan, casts bring each scan to the schema, and their union is the
trace.

Invariants: the columns are those of trace/schema.py, in its order and types; destinations are null or not empty. What
only the rows can show fails the job that meets it with the same sentence. Names that begin with a dot or an underscore
are no part of a trace. A partition folder (`run=3`) supplies a column that its files lack.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructField, StructType

from isthmus.core.errors import InputError
from isthmus.pipeline.engine.spark_errors import one_sentence
from isthmus.pipeline.ingest.columns import FILE, conform
from isthmus.pipeline.ingest.parquet_meta import FileMeta, overlapping_studies, read_file_meta
from isthmus.pipeline.ingest.shiviz import read_shiviz
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.inputs.columns import check_names
from isthmus.trace.inputs.files import chosen_files, opened, suffix_form
from isthmus.trace.inputs.shiviz import PATTERNS

PLACE = ("_block", "_line")  # with FILE: where a row of a text stands


def read_trace(
    spark: SparkSession, path: Path | str, form: str = "auto", patterns: Mapping[str, str] = PATTERNS
) -> DataFrame:
    """The trace at a path: a file, or a folder of files of one format."""
    if "://" in str(path):
        return read_afar(spark, str(path), form, patterns)
    form, kept = chosen_files(Path(path), form)
    with one_sentence(str(path)):
        if form == "parquet":
            return read_parquet(spark, Path(path), kept)
        if form == "csv":
            return read_csv(spark, Path(path), kept)
        if form == "json":
            return read_json(spark, Path(path), kept)
        return read_shiviz(spark, kept, str(path), patterns)


def read_parquet(spark: SparkSession, path: Path, files: Sequence[Path]) -> DataFrame:
    """Parquet: one scan for the files of one shape, the folder itself where all are alike."""
    metas = [read_file_meta(path, file) for file in files]
    if overlapping_studies(metas):
        refuse_mixed_studies(spark, path)
    shapes: dict[tuple[object, ...], list[FileMeta]] = {}
    for meta in metas:
        shapes.setdefault(meta.shape, []).append(meta)
    frames = []
    for group in shapes.values():
        first, trusted = group[0], all(meta.trusted for meta in group)
        reader = spark.read.option("pathGlobFilter", "*")
        if path.is_dir():
            reader = reader.option("basePath", str(path))
        paths = [str(meta.file) for meta in group]
        if len(shapes) == 1 and path.is_dir() and (first.hive or all(file.parent == path for file in files)):
            reader, paths = reader.option("pathGlobFilter", "*" + files[0].suffix), [str(path)]
        frame = reader.parquet(*paths)
        known = [name for name in SCHEMA.names if name in frame.columns]
        frames.append(conform(frame.select(*known), str(first.file), trusted))
    return union(frames)


def refuse_mixed_studies(spark: SparkSession, path: Path) -> None:
    """Refuse a run number that two studies have, because their rows would be taken for one run's."""
    runs = spark.read.option("recursiveFileLookup", False).parquet(str(path)).select("run", "study").distinct()
    clash = runs.groupBy("run").agg(F.sort_array(F.collect_list("study")).alias("studies")).where("size(studies) > 1")
    found = clash.orderBy("run").first()
    if found is not None:
        one, other = found.studies[:2]
        shown = f"run {found.run} in the studies {one} and {other}"
        raise InputError(str(path), "run", shown, f"one study, such as {path}/study={one}")


def read_csv(spark: SparkSession, path: Path, files: Sequence[Path]) -> DataFrame:
    """CSV with a header; commas, or semicolons or tabs where the header has no comma."""
    headers: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        lines = head_lines(file, 2)
        separator = next((mark for mark in ",;\t" if mark in lines[0]), ",")
        names = [name.strip() for name in next(csv.reader([lines[0]], delimiter=separator))]
        check_names(str(file), names)
        if len(lines) < 2:
            raise InputError(str(file), "", "a header without rows", "a trace with at least one row")
        headers.setdefault((separator, *names), []).append(file)
    frames = []
    for (separator, *names), group in headers.items():
        reader = spark.read.options(header=True, sep=separator, mode="FAILFAST", ignoreLeadingWhiteSpace=True)
        texts = reader.schema(text_type(names)).csv([str(file) for file in group])
        frames.append(placed(texts, [name for name in names if name in SCHEMA.names]))
    return conform(numbered(frames, str(path)), str(path))


def read_json(spark: SparkSession, path: Path, files: Sequence[Path]) -> DataFrame:
    """JSON, one object per line; names are looked for in the first lines of each file, and no type is guessed."""
    shapes: dict[tuple[str, ...], list[Path]] = {}
    for file in files:
        names: dict[str, None] = {}
        for line in head_lines(file, 100):
            names.update(dict.fromkeys(json_object(file, line)))
        check_names(str(file), list(names))
        shapes.setdefault(tuple(name for name in SCHEMA.names if name in names), []).append(file)
    frames = []
    for known, group in shapes.items():
        columns = [name for name in SCHEMA.names if name != "local" or "local" in known]
        reader = spark.read.schema(text_type(columns)).options(mode="FAILFAST")
        frames.append(placed(reader.json([str(file) for file in group]), columns))
    return conform(numbered(frames, str(path)), str(path))


def read_afar(spark: SparkSession, path: str, form: str, patterns: Mapping[str, str]) -> DataFrame:
    """A path that only Spark can see; what is wrong with it is Spark's to find."""
    form = form if form != "auto" else suffix_form(Path(path)) or "parquet"
    with one_sentence(path):
        if form == "shiviz":
            return read_shiviz(spark, [path], path, patterns)
        if form == "parquet":
            frame = spark.read.parquet(path)
            return conform(frame.select(*(name for name in SCHEMA.names if name in frame.columns)), path)
        if form == "json":
            frame = spark.read.schema(text_type(SCHEMA.names)).options(mode="FAILFAST").json(path)
        else:
            frame = spark.read.options(header=True, mode="FAILFAST").csv(path)
        return conform(numbered([placed(frame, [name for name in SCHEMA.names if name in frame.columns])], path), path)


def placed(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Rows of a text with the place where each stands."""
    return frame.select(
        *names,
        F.col("_metadata.file_path").alias(FILE),
        F.col("_metadata.file_block_start").alias(PLACE[0]),
        F.monotonically_increasing_id().alias(PLACE[1]),  # ascends within a block
    )


def numbered(frames: Sequence[DataFrame], source: str) -> DataFrame:
    """The union; rows without a local number get it from their order in the files, for each process."""
    local = [frame for frame in frames if "local" in frame.columns]
    if len(local) == len(frames):
        return union([frame.drop(*PLACE) for frame in frames])
    if local:
        raise InputError(source, "local", "it in some files only", "it in all of them, or in none")
    joined = union(frames)
    process = [name for name in ("run", "process") if name in joined.columns]
    order = Window.partitionBy(*process).orderBy(FILE, *PLACE)
    return joined.withColumn("local", (F.row_number().over(order) - 1).cast("bigint")).drop(*PLACE)


def union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def text_type(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, StringType()) for name in names])


def head_lines(file: Path, count: int) -> list[str]:
    """The first lines that are not blank; none is an error."""
    try:
        with opened(file) as stream:
            texts = (line.decode("utf-8-sig").rstrip("\r\n") for line in stream)
            lines = list(islice((text for text in texts if text.strip()), count))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(str(file), "", f"a file that is not text ({error})", "lines in UTF-8") from error
    if not lines:
        raise InputError(str(file), "", "only blank lines", "a trace with at least one row")
    return lines


def json_object(file: Path, line: str) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InputError(str(file), "", f"the line {line[:60]!r}", "one JSON object per line")
    return found
