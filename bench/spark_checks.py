"""All checks together, beside the time Spark takes to read and sort the same trace once: `make bench-spark`.

The trace is that of bench/traces.py, which is longer than what one task judges by itself. The yardstick is a shuffle by
process and a sort by (process, local) of all columns, written nowhere. Ratios are what counts: both times are taken in
one session, one after the other, on two cores and 4 GiB; the first small run warms the machine up and is not shown.

    python -m bench.spark_checks [DELIVERIES ...] [--subsets]

`--subsets` sends every message to a random tenth instead, so that no position is common and the dearer ways are taken.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from bench.traces import write
from isthmus.judge.oracle import PROPERTIES
from isthmus.pipeline.check.verdicts import check
from isthmus.pipeline.engine.session import spark_session

SIZES = (5_000_000, 20_000_000)
WARM = 200_000  # deliveries of a first run that is not shown
RATIO_MAX = 5.0
GROWTH_MAX = 4.4  # from 5 to 20 million
SETTINGS = {"spark.sql.shuffle.partitions": "32"}


def seconds(spark: SparkSession, action: Callable[[], object]) -> tuple[float, float]:
    """The time an action takes by the wall clock, and how much of the processors its Java used."""
    start, used = time.perf_counter(), java_seconds(spark)
    action()
    return time.perf_counter() - start, java_seconds(spark) - used


def java_seconds(spark: SparkSession) -> float:
    """Processor time of Spark's Java so far: what a machine shared with others does not distort."""
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    ticks = Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


def sort_once(spark: SparkSession, path: Path) -> None:
    rows = spark.read.parquet(str(path)).repartition("run", "process").sortWithinPartitions("run", "process", "local")
    rows.write.format("noop").mode("overwrite").save()


def check_all(spark: SparkSession, path: Path) -> None:
    verdicts = check(spark.read.parquet(str(path)), PROPERTIES).collect()
    wrong = [(row["property"], row["witness"]) for row in verdicts if row["status"] == "violated"]
    assert not wrong, wrong


Times = tuple[float, float]


def measured(sizes: list[int], share: float) -> Iterator[tuple[int, Times, Times]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session(master="local[2]", memory="4g", settings=SETTINGS) as spark,
    ):
        for size in (WARM, *sizes):
            path = Path(folder) / f"{size}.parquet"
            write(path, size, share)
            sort = seconds(spark, lambda path=path: sort_once(spark, path))
            checks = seconds(spark, lambda path=path: check_all(spark, path))
            if size != WARM:
                yield size, sort, checks


def main(arguments: list[str] | None = None) -> bool:
    """Print a row a size; false where a figure falls short."""
    words = arguments or []
    share = 0.1 if "--subsets" in words else 1.0
    sizes = [int(word) for word in words if not word.startswith("--")] or list(SIZES)
    print("deliveries    sort, s   checks, s   ratio   of processor time")
    found = []
    for size, sort, checks in measured(sizes, share):
        ratios = [one / other for one, other in zip(checks, sort, strict=True)]
        found.append((size, checks[0], ratios[0]))
        print(f"{size:10,} {sort[0]:10.1f} {checks[0]:11.1f} {ratios[0]:7.2f} {ratios[1]:19.2f}", flush=True)
    good = found[-1][2] <= RATIO_MAX
    print(f"ratio at most {RATIO_MAX:g}: {'yes' if good else 'NO'}")
    if len(found) > 1:
        growth, allowed = found[-1][1] / found[0][1], GROWTH_MAX / 4 * found[-1][0] / found[0][0]
        print(f"growth of the checks {growth:.2f} times, at most {allowed:.2f}: {'yes' if growth <= allowed else 'NO'}")
        good = good and growth <= allowed
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
