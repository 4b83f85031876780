"""The check of causal order where order is not total, beside one sort of the same trace: part of `make bench-spark`.

The trace is the causal one of bench/traces.py: every process delivers in an order of its own. The yardstick is that of
bench/spark_checks.py. Each number of cores is a process of its own, bound to as many processors, with 2 GiB for Java;
memory is the sum of the peaks of Java and of Spark's Python workers. The first run warms up and is not shown. On a
machine that others use, processor time tells more than the clock; the gain by cores can only be told by the clock.

    python -m bench.spark_causal [DELIVERIES ...] [--subsets]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.spark_checks import SETTINGS, sort_once
from bench.traces import write
from isthmus.pipeline.check.verdicts import check
from isthmus.pipeline.engine.session import spark_session

SIZES = (1_000_000, 5_000_000)
RATIO_MAX = 8.0
GROWTH_MAX = 5.5  # from 1 to 5 million
GAIN_MIN = 1.6  # of twice the cores
MEMORY_MAX = 4 << 30
CORES = (2, 1)
Times = tuple[float, float]  # by the clock, and of the processors


def tree() -> list[int]:
    """The processes that descend from this one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [os.getpid()]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def used_seconds() -> float:
    """Processor time of Spark's Java and of its workers so far."""
    ticks = 0
    for process in tree():
        try:
            stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, stat[11:15]))  # its own, and that of children which ended
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_bytes() -> int:
    """The sum of the most that each process ever held."""
    peak = 0
    for process in tree()[1:]:
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:
            continue
        peak += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) << 10
    return peak


def timed(action: Callable[[], object]) -> Times:
    start, used = time.perf_counter(), used_seconds()
    action()
    return time.perf_counter() - start, used_seconds() - used


def measure(cores: int, paths: list[Path]) -> None:
    """Sort and check each trace with so many cores; one line of JSON."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    found: list[tuple[Times, Times]] = []
    with spark_session(master=f"local[{cores}]", memory="2g", settings=SETTINGS) as spark:

        def check_causal(path: Path) -> None:
            verdicts = check(spark.read.parquet(str(path)), ["causal"]).collect()
            assert [row["status"] for row in verdicts] == ["valid"], verdicts

        sort_once(spark, paths[0])
        check_causal(paths[0])
        for path in paths:
            sort = timed(lambda path=path: sort_once(spark, path))
            found.append((sort, timed(lambda path=path: check_causal(path))))
        print(json.dumps([found, peak_bytes()]), flush=True)


def run(cores: int, paths: list[Path]) -> tuple[list[tuple[Times, Times]], int]:
    command = [sys.executable, "-m", "bench.spark_causal", "--cores", str(cores), *map(str, paths)]
    found, peak = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found, peak


def main(words: list[str]) -> bool:
    """Print a row for each size; false where a figure falls short."""
    if words[:1] == ["--cores"]:
        measure(int(words[1]), list(map(Path, words[2:])))
        return True
    share = 0.1 if "--subsets" in words else 1.0
    sizes = [int(word) for word in words if not word.startswith("--")] or list(SIZES)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{size}.parquet" for size in sizes]
        for path, size in zip(paths, sizes, strict=True):
            write(path, size, share, causal=True)
        found, peak = run(CORES[0], paths)
        print("deliveries    sort, s   causal, s   ratio   of processor time")
        for size, (sort, causal) in zip(sizes, found, strict=True):
            ratios = [one / other for one, other in zip(causal, sort, strict=True)]
            print(f"{size:10,} {sort[0]:10.1f} {causal[0]:11.1f} {ratios[0]:7.2f} {ratios[1]:19.2f}", flush=True)
        growth = found[-1][1][0] / found[0][1][0]
        allowed = GROWTH_MAX / 5 * sizes[-1] / sizes[0]
        good = [
            told(f"ratio at most {RATIO_MAX:g}", ratios[0] <= RATIO_MAX),
            told(f"growth {growth:.2f} times, at most {allowed:.2f}", len(sizes) < 2 or growth <= allowed),
            told(f"memory {peak / (1 << 30):.2f} GiB, at most {MEMORY_MAX >> 30}", peak <= MEMORY_MAX),
        ]
        slower, _ = run(CORES[1], paths[-1:])
    gain = slower[-1][1][0] / found[-1][1][0]
    good.append(told(f"two cores {gain:.2f} times as fast as one, at least {GAIN_MIN:g}", gain >= GAIN_MIN))
    return all(good)


def told(what: str, good: bool) -> bool:
    print(f"{what}: {'yes' if good else 'NO'}", flush=True)
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
