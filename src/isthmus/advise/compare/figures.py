"""The runs of each stack as one row of figures: means over seeds with their intervals, distributions over all runs.

A figure is the mean over seeds; its interval is Student's, at 95 %, and there is one only from three seeds on: of two,
it would be a dozen times their distance wide. Distributions pool the messages of all seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

import msgspec

from isthmus.advise.compare.measure import ComparedRun
from isthmus.core.units import NS_PER_MS
from isthmus.judge.result import RunResult
from isthmus.judge.verdict import STATUSES, worst_status
from isthmus.measure.spread import LatencySpread, spread_of

SEEDS_MIN = 3  # for an interval
Promises = Literal["kept", "broken", "unknown"]


class Mean(msgspec.Struct, frozen=True):
    """A mean over seeds, with the half-width of its 95 % interval where there are seeds enough."""

    mean: float
    half: float | None = None


class PropertyTally(msgspec.Struct, frozen=True):
    """A promised property over all runs of a stack."""

    property: str
    valid: int
    violated: int
    unknown: int
    witness: str = ""  # of the first run that is not valid
    seed: int | None = None  # of that run


class StackFigures(msgspec.Struct, frozen=True):
    """One stack of a comparison."""

    stack: str
    promises: Promises
    seeds: tuple[int, ...]  # in the order of `message_ms_by_seed`
    message_ms: Mean  # submit to last delivery
    message_ms_by_seed: tuple[float, ...]
    delivery_ms: Mean  # submit to each delivery
    message_spread: LatencySpread
    delivery_spread: LatencySpread
    tentative_ms: Mean | None  # submit to tentative delivery
    tentative_spread: LatencySpread | None
    hit_percent: Mean | None  # guesses at the place in the order that were right
    packets_per_message: Mean
    control_bytes_per_message: Mean | None
    timestamp_entries: Mean | None  # of a message in causal order
    timestamp_bytes: Mean | None
    history_entries: Mean | None  # of a site
    cpu_us_per_delivery: Mean  # of the simulator; the protocol's share is what differs between stacks
    submitted: int
    undelivered: int
    forgiven: int  # deliveries that crashes ended, which no latency counts
    errors: tuple[str, ...]
    verdicts: tuple[PropertyTally, ...]


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of one value per seed, with its interval."""
    if len(values) < SEEDS_MIN:
        return Mean(fmean(values))
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / sqrt(len(values))
    return Mean(fmean(values), half)


def figures_of(stack: str, runs: Sequence[ComparedRun]) -> StackFigures:
    """The runs of one stack, in the order of their seeds."""
    results = [run.result for run in runs]
    summaries = [result.summary for result in results]

    def over_seeds(value: Callable[[RunResult], float]) -> Mean:
        return mean_of([value(result) for result in results])

    def per_message(value: Callable[[RunResult], float]) -> Mean:
        return over_seeds(lambda result: value(result) / max(1, result.summary.submitted_count))

    def metadata(values: Sequence[float | None]) -> Mean | None:
        known = [value for value in values if value is not None]
        return mean_of(known) if known else None

    by_seed = tuple(summary.per_message.mean() / NS_PER_MS for summary in summaries)
    guessed = [result.guesses for result in results if result.guesses is not None]
    sized = any(result.control_bytes is not None for result in results)
    sizes = [run.metadata for run in runs if run.metadata is not None]
    verdicts = tally(results)
    errors = tuple(f"seed {one.scenario.seed}: {one.error.splitlines()[-1]}" for one in results if one.error)
    broken = any(one.violated for one in verdicts) or bool(errors)
    return StackFigures(
        stack=stack,
        promises="broken" if broken else "unknown" if any(one.unknown for one in verdicts) else "kept",
        seeds=tuple(result.scenario.seed for result in results),
        message_ms=mean_of(by_seed),
        message_ms_by_seed=by_seed,
        delivery_ms=over_seeds(lambda result: result.summary.delivered.mean() / NS_PER_MS),
        message_spread=spread_of([summary.per_message for summary in summaries]),
        delivery_spread=spread_of([summary.delivered for summary in summaries]),
        tentative_ms=mean_of([one.latency_ms for one in guessed]) if guessed else None,
        tentative_spread=spread_of([one.seen for one in guessed]) if guessed else None,
        hit_percent=mean_of([100 * one.hit for one in guessed]) if guessed else None,
        packets_per_message=per_message(lambda result: result.packets),
        control_bytes_per_message=per_message(lambda result: result.control_bytes or 0) if sized else None,
        timestamp_entries=metadata([one.timestamp_entries for one in sizes]),
        timestamp_bytes=metadata([one.timestamp_bytes for one in sizes]),
        history_entries=metadata([one.history_entries for one in sizes]),
        cpu_us_per_delivery=over_seeds(lambda result: 1e6 * result.cpu_s / max(1, result.summary.delivered.count)),
        submitted=sum(summary.submitted_count for summary in summaries),
        undelivered=sum(summary.undelivered_count() for summary in summaries),
        forgiven=sum(summary.forgiven_count for summary in summaries),
        errors=errors,
        verdicts=verdicts,
    )


def tally(results: Sequence[RunResult]) -> tuple[PropertyTally, ...]:
    """The verdicts of all runs by property; those of several groups count each."""
    found = [(one.scenario.seed, verdict) for one in results if one.judgement for verdict in one.judgement.counted()]
    tallies = []
    for name in dict.fromkeys(verdict.property for _, verdict in found):
        own = [(seed, verdict) for seed, verdict in found if verdict.property == name]
        counts = {status: sum(verdict.status == status for _, verdict in own) for status in STATUSES}
        worst = worst_status(verdict.status for _, verdict in own if verdict.status != "valid")
        seed, witness = next(((seed, verdict.witness) for seed, verdict in own if verdict.status == worst), (None, ""))
        tallies.append(PropertyTally(name, **counts, witness=witness, seed=seed))
    return tuple(tallies)
