"""Run studies: sweep, check, measure, judge the claims, and write one folder per study with all results.

OUT/NAME (results.py) is built under a hidden name and gets its own when complete: a visible folder is whole. One Spark
session serves any number of studies; small ones share one sweep and one check, which changes no result.
"""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event

import msgspec
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession

from isthmus import __version__
from isthmus.core.errors import InputError
from isthmus.judge.verdict import exit_code
from isthmus.pipeline.engine.session import cancel_jobs
from isthmus.pipeline.sweep.balance import expected_cost
from isthmus.pipeline.sweep.simulate import Make, Outcome
from isthmus.pipeline.sweep.sweep import Progress, RunSpec, Sweep, sweep_together
from isthmus.sim.simulate import make_run
from isthmus.studies import results as formats
from isthmus.studies.catalogue import STUDIES
from isthmus.studies.claim import Rows
from isthmus.studies.model import Scale, Study, study_command
from isthmus.studies.verdicts import Check, check_sweeps, count_by_status, to_table, unknown_all, worst_verdicts
from isthmus.topology.written import topology_to_toml

TOGETHER = 20_000_000  # expected deliveries of the studies that are run together
MEASURED_AT_ONCE = 2  # studies whose tables are computed concurrently
OnStep = Callable[[str], None]  # gets the name of each step


class SweptStudy(msgspec.Struct, frozen=True):
    """A study whose runs have been simulated."""

    study: Study
    specs: list[RunSpec]
    done: Sweep

    def failed(self) -> list[tuple[RunSpec, Outcome]]:
        return [(self.specs[outcome.run], outcome) for outcome in self.done.failed()]


class StudyResult(msgspec.Struct, frozen=True):
    """A study that has been run."""

    about: formats.About
    folder: Path
    claims: list[formats.ClaimResult]
    verdicts: list[formats.VerdictRow]
    failed: list[tuple[RunSpec, Outcome]]

    def exit_code(self) -> int:
        """1: an order was broken or a run failed; 3: something is unknown; a claim that does not hold is a finding."""
        claims = ["unknown" if claim.verdict == "unknown" else "valid" for claim in self.claims]
        return exit_code([*(row.status for row in self.verdicts), *claims], failed=bool(self.failed))


def run_studies(
    spark: SparkSession,
    studies: Sequence[Study],
    scale: Scale,
    out: Path,
    *,
    seeds: int | None = None,
    progress: Progress | None = None,
    on_step: OnStep = lambda _: None,
    check: Check | None = check_sweeps,
    make: Make = make_run,
) -> Generator[StudyResult, None, None]:
    """Run studies together: one sweep, one check, and then the tables and claims of each.

    With `check` None nothing is checked, and all verdicts are unknown.
    """
    start = time.monotonic()
    under = {study.name: out / f".{study.name}" for study in studies}
    for study in studies:
        refuse_other_folder(out / study.name)
        shutil.rmtree(under[study.name], ignore_errors=True)
    specs = [study.specs(scale, seeds) for study in studies]
    try:
        on_step("simulating")
        grids = dict(zip(under.values(), specs, strict=True))
        swept = sweep_together(spark, grids, progress=progress, make=make)
        asked = [SweptStudy(*parts) for parts in zip(studies, specs, swept, strict=True)]
        on_step("checking")
        judged = judge_runs(asked, check)
        made_with = versions(spark)
        with closing(measure_studies(asked, under, on_step)) as measured:
            for one, verdicts, tables in zip(asked, judged, measured, strict=True):
                building, folder = under[one.study.name], out / one.study.name
                claims = write_results(one, verdicts, tables, scale, building)
                study = one.study
                about = formats.About(
                    **{name: getattr(study, name) for name in ("name", "title", "question", "paper", "source")},
                    place=list(STUDIES).index(study.name) if study.name in STUDIES else len(STUDIES),
                    scale=scale,
                    seeds=study.seeds[scale] if seeds is None else seeds,
                    runs=len(one.specs),
                    failed_runs=len(one.done.failed()),
                    command=study_command("run", study.name, scale, seeds),
                    versions=made_with,
                    took_s=round(time.monotonic() - start, 1),
                    together=len(studies),
                    spark_master=spark.conf.get("spark.master", "connect") or "",
                )
                write_json(building / formats.ABOUT, about)
                shutil.rmtree(folder, ignore_errors=True)
                building.rename(folder)
                yield StudyResult(about, folder, claims, verdicts, one.failed())
    finally:
        for folder in under.values():
            shutil.rmtree(folder, ignore_errors=True)


def write_results(
    one: SweptStudy, verdicts: list[formats.VerdictRow], tables: dict[str, Rows], scale: Scale, folder: Path
) -> list[formats.ClaimResult]:
    """Judge the claims of a study; write them with its verdicts, figures, advice and networks."""
    study = one.study
    asked = [claim for claim in study.claims if not claim.full_only or scale == "full"]
    claims = [claim.judge(tables, len(one.done.failed())) for claim in asked]
    pq.write_table(to_table(verdicts), folder / formats.VERDICTS)
    write_json(folder / formats.CLAIMS, claims)
    write_json(folder / formats.FIGURES, study.figures)
    write_json(
        folder / formats.ADVICE, [found for advice in study.advice if (found := advice.judge(tables)) is not None]
    )
    write_networks(folder / formats.NETWORKS, study)
    return claims


def write_networks(folder: Path, study: Study) -> None:
    folder.mkdir()
    for number, network in enumerate(study.networks()):
        (folder / f"{number}.toml").write_text(topology_to_toml(network), encoding="utf-8")


def batch_studies(studies: Sequence[Study], scale: Scale, seeds: int | None = None) -> list[list[Study]]:
    """Studies to run together: small ones, which cost more in jobs than in rows; a large one runs alone."""
    found: list[list[Study]] = []
    room = 0
    for study in studies:
        cost = sum(expected_cost(spec.scenario) for spec in study.specs(scale, seeds))
        if cost > room:
            found.append([])
            room = TOGETHER
        found[-1].append(study)
        room -= cost
    return found


def refuse_other_folder(folder: Path) -> None:
    if folder.exists() and not (folder / formats.ABOUT).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(str(folder), "", "a path that is not a study", "a new folder, or one that a study wrote")


def judge_runs(asked: Sequence[SweptStudy], check: Check | None) -> list[list[formats.VerdictRow]]:
    """The verdicts of each study, added up; what cannot be checked is unknown.

    All runs are checked by one job, in which the number of a run is its place among the runs of all studies.
    """
    spans: list[range] = []
    properties: dict[str, list[range]] = {}
    for one in asked:
        start = spans[-1].stop if spans else 0
        spans.append(range(start, start + len(one.specs)))
        for name in one.study.properties:
            properties.setdefault(name, []).append(spans[-1])
    good = any(len(one.done.failed()) < len(one.specs) for one in asked)
    found = worst_verdicts(check([one.done for one in asked], properties)) if check and good else {}
    why = "every run failed" if check else "the checks were not run"
    judged = []
    for one, span in zip(asked, spans, strict=True):
        names = one.study.properties
        own = {(run - span.start, name): found[run, name] for run in span for name in names if (run, name) in found}
        if check is None or len(one.done.failed()) == len(one.specs):
            own = unknown_all(range(len(span)), names, why)
        judged.append(count_by_status(one.specs, one.done.outcomes, names, own))
    return judged


def measure_studies(
    asked: Sequence[SweptStudy], under: dict[str, Path], on_step: OnStep
) -> Generator[dict[str, Rows], None, None]:
    """The tables of each study in turn, while those of the next are being computed.

    Most of the cost of small tables is Spark's planning on one core: two studies keep two cores busy.
    """
    pool, stopped = ThreadPoolExecutor(MEASURED_AT_ONCE, "measure"), Event()
    try:
        waiting = [
            pool.submit(collect_tables, one.study, one.done, under[one.study.name] / formats.TABLES, stopped)
            for one in asked
        ]
        for one, found in zip(asked, waiting, strict=True):
            on_step(f"measuring {one.study.name}")
            yield found.result()
    except BaseException:  # interrupts, too: nothing may be written after the folders are removed
        stopped.set()
        cancel_jobs(asked[0].done.trace.sparkSession)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def collect_tables(study: Study, done: Sweep, folder: Path, stopped: Event) -> dict[str, Rows]:
    """Compute the tables, each collected and written as one small file; none after `stopped` is set."""
    folder.mkdir()
    good = done.runs.where("status = 'ok'")
    collected: dict[str, Rows] = {}
    for name, frame in study.tables(done.good_trace(), good).items():
        if stopped.is_set():
            break
        table = frame.toArrow()
        pq.write_table(table, folder / f"{name}.parquet")
        collected[name] = table.to_pylist()
    return collected


def write_json(path: Path, value: object) -> None:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2)
    path.write_bytes(text + b"\n")


def versions(spark: SparkSession) -> dict[str, str | None]:
    row = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS java").first()
    return {
        "isthmus": __version__,
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "java": row["java"] if row is not None else "unknown",
    }
