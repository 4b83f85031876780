"""Detectors of a mean compared on traffic: how far the estimate of each is from the gaps that follow.

The *error* is the factor by which an estimate is off the mean of the gaps that follow, too high or too low alike; the
*bias* is the same with its sign: below 1, periods seem shorter than they are. Traffic is the submissions of the study's
own runs, and a conversation as recorded in chats (`chat_gaps`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, log
from random import Random
from statistics import fmean
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.protocols.detectors import DETECTORS
from isthmus.studies.dynamic_roles.claims import CHAT
from isthmus.studies.tickets.labels import SOURCES

CHATS = 4  # conversations
AHEAD = 8  # gaps whose mean an estimate is compared with
SAMPLES: Mapping[str, int] = {
    "mean-shift": 7,
    "sliding": 32,
    "exponential": 32,
    "cusum": 32,
}  # the number of samples each is designed for
LEAST = 1e-9  # a gap of 0, in records of whole seconds, would make the factor infinite


class DetectorFit(NamedTuple):
    """The accuracy of a detector on a series of gaps."""

    error_factor: float  # geometric mean of the factor by which estimates are too high or too low, at least 1
    bias_factor: float  # geometric mean of estimate over actual mean
    judged: int  # estimates compared


def fit_detector(gaps: Sequence[float], name: str) -> DetectorFit:
    """Feed gaps to a detector, and compare each of its estimates with the gaps that follow."""
    judge, logs = DETECTORS[name](SAMPLES[name]), []
    for place, gap in enumerate(gaps):
        judge.add(gap)
        coming = gaps[place + 1 : place + 1 + AHEAD]
        if judge.mean is not None and len(coming) == AHEAD:
            logs.append(log(max(judge.mean, LEAST) / max(fmean(coming), LEAST)))
    if not logs:
        return DetectorFit(1.0, 1.0, 0)
    return DetectorFit(exp(fmean(map(abs, logs))), exp(fmean(logs)), len(logs))


def chat_gaps(seed: int, count: int = 2_000) -> list[float]:
    """Times between the messages of a conversation, in seconds: bursts, and pauses that may be very long."""
    random = Random(f"chat/{seed}")
    return list(_gaps(random, count))


def _gaps(random: Random, count: int) -> Iterator[float]:
    given = 0
    while given < count:
        pace = random.lognormvariate(log(12.0), 0.8)  # seconds between answers of one burst
        length = 1 + int(random.paretovariate(1.1))
        for _ in range(min(length, 200, count - given)):
            given += 1
            yield random.expovariate(1 / pace)
        if given < count:
            given += 1
            yield 60.0 * random.paretovariate(0.9)


def compare_detectors(traffic: Mapping[str, Sequence[Sequence[float]]]) -> list[dict[str, object]]:
    """One row per kind of traffic and detector, over all series of that kind."""
    rows: list[dict[str, object]] = []
    for kind, series in traffic.items():
        for name in DETECTORS:
            fits = [found for found in (fit_detector(gaps, name) for gaps in series) if found.judged]
            weights = sum(found.judged for found in fits) or 1
            error = exp(sum(log(found.error_factor) * found.judged for found in fits) / weights)
            bias = exp(sum(log(found.bias_factor) * found.judged for found in fits) / weights)
            rows.append({"traffic": kind, "detector": name, "error_factor": error, "bias_factor": bias})
    return rows


def submission_gaps(trace: DataFrame, runs: DataFrame) -> dict[str, list[list[float]]]:
    """The times between the submissions of each site in ms, by kind of source, and those of chats."""
    first = F.broadcast(runs.select("run", "source"))
    rows = trace.where(F.col("kind") == int(Kind.SUBMIT)).join(first, "run")
    times = rows.groupBy("source", "run", "process").agg(F.sort_array(F.collect_list("time_ns")).alias("times"))
    found: dict[str, list[list[float]]] = {source: [] for source in SOURCES}
    for row in times.orderBy("source", "run", "process").toArrow().to_pylist():
        found[row["source"]].append([(after - before) / 1e6 for before, after in pairwise(row["times"])])
    return found | {CHAT: [chat_gaps(seed) for seed in range(CHATS)]}
