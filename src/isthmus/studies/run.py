"""Carry out a study: sweep, check, measure, judge the claims, and leave a folder that says it all.

OUT/NAME holds study.json (what was asked and how it ran), trace/ and runs.parquet (the sweep), tables/*.parquet (the
measures), verdicts.parquet (the checks, added up), claims.json and figures.json. It is built under a hidden name and
takes its own when complete: a folder that can be seen is whole. One Spark session serves any number of studies.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

from isthmus import __version__
from isthmus.core.errors import InputError
from isthmus.pipeline.simulate import Make, Outcome, make_run
from isthmus.pipeline.sweep import Progress, RunSpec, Sweep, sweep
from isthmus.studies.model import Judged, Rows, Scale, Study, command
from isthmus.studies.verdicts import Check, found_by, pipeline_check, summed, to_table, unknown_all

ABOUT, CLAIMS, FIGURES = "study.json", "claims.json", "figures.json"
Step = Literal["simulating", "checking", "measuring"]
Tell = Callable[[Step], None]


class Result(msgspec.Struct, frozen=True):
    """A study that has been carried out."""

    study: Study
    folder: Path
    claims: list[Judged]
    verdicts: list[dict[str, Any]]  # rows of verdicts.parquet
    failed: list[tuple[RunSpec, Outcome]]
    run_count: int
    took_s: float

    def exit_code(self) -> int:
        """1: an order was broken or a run failed; 3: something is unknown; a claim that does not hold is a finding."""
        statuses = {row["status"] for row in self.verdicts}
        if self.failed or "violated" in statuses:
            return 1
        return 3 if "unknown" in statuses or any(claim.verdict == "unknown" for claim in self.claims) else 0


def run_study(
    spark: SparkSession,
    study: Study,
    scale: Scale,
    out: Path,
    *,
    seeds: int | None = None,
    progress: Progress | None = None,
    tell: Tell = lambda _: None,
    check: Check | None = pipeline_check,
    make: Make = make_run,
) -> Result:
    """Carry out a study; `check` None leaves the checks out, and their verdicts unknown."""
    start = time.monotonic()
    folder = out / study.name
    refuse_stranger(folder)
    building = out / f".{study.name}"
    shutil.rmtree(building, ignore_errors=True)
    specs = study.specs(scale, seeds)
    try:
        tell("simulating")
        done = sweep(spark, specs, building, progress=progress, make=make)
        tell("checking")
        verdicts = judge(study, specs, done, check)
        tell("measuring")
        collected = measure(study, done, building / "tables")
        failed = [(specs[outcome.run], outcome) for outcome in done.failed()]
        claims = [claim.judge(collected, len(failed)) for claim in study.claims]
        pq.write_table(to_table(verdicts), building / "verdicts.parquet")
        write_json(building / CLAIMS, claims)
        write_json(building / FIGURES, study.figures)
        took_s = time.monotonic() - start
        about = {
            "name": study.name,
            "title": study.title,
            "question": study.question,
            "source": study.source,
            "scale": scale,
            "seeds": study.seeds[scale] if seeds is None else seeds,
            "runs": len(specs),
            "failed_runs": len(failed),
            "versions": versions(spark),
            "command": command("run", study.name, scale, seeds),
            "took_s": round(took_s, 1),
            "spark_master": spark.conf.get("spark.master", "connect"),
        }
        write_json(building / ABOUT, about)
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Result(study, folder, claims, verdicts, failed, len(specs), took_s)


def refuse_stranger(folder: Path) -> None:
    """Only a study's own folder is replaced."""
    if folder.exists() and not (folder / ABOUT).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "", "something that is no study", "a new folder, or one that a study wrote")


def judge(study: Study, specs: list[RunSpec], done: Sweep, check: Check | None) -> list[dict[str, Any]]:
    """The verdicts, added up; what cannot be checked is unknown."""
    runs = range(len(specs))
    if check is None:
        found = unknown_all(runs, study.properties, "the checks were not run")
    elif len(done.failed()) == len(specs):
        found = unknown_all(runs, study.properties, "every run failed")
    else:
        found = found_by(check(done.good_trace(), study.properties))
    return summed(specs, done.outcomes, study.properties, found)


def measure(study: Study, done: Sweep, folder: Path) -> dict[str, Rows]:
    """The tables: each collected, and written as one small file."""
    folder.mkdir()
    good = done.runs.where("status = 'ok'")
    collected: dict[str, Rows] = {}
    for name, frame in study.tables(done.good_trace(), good).items():
        table = frame.toArrow()
        pq.write_table(table, folder / f"{name}.parquet")
        collected[name] = table.to_pylist()
    return collected


def write_json(path: Path, value: object) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    path.write_bytes(text + b"\n")


def versions(spark: SparkSession) -> dict[str, str]:
    """What it was run with."""
    row = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS java").first()
    return {
        "isthmus": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "java": row["java"] if row is not None else "unknown",
    }
