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

from isthmus.advise.compare.measure import Measured
from isthmus.core.units import NS_PER_MS
from isthmus.measure.histogram import Histogram

SEEDS_MIN = 3  # for an interval
SHARES = (1, 5, 25, 50, 75, 90, 95, 99)  # percentiles that are written out
Promises = Literal["kept", "broken", "unknown"]


class Mean(msgspec.Struct, frozen=True):
    """A mean over seeds, with the half-width of its 95 % interval where there are seeds enough."""

    mean: float
    half: float | None = None


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a latency over the messages or deliveries of all seeds, ms."""

    count: int
    mean: float
    percentiles: dict[str, float]  # p1, p5 ...
    maximum: float


class Judged(msgspec.Struct, frozen=True):
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
    message_spread: Spread
    delivery_spread: Spread
    tentative_ms: Mean | None  # submit to tentative delivery
    tentative_spread: Spread | None
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
    verdicts: tuple[Judged, ...]


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of one value per seed, with its interval."""
    if len(values) < SEEDS_MIN:
        return Mean(fmean(values))
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / sqrt(len(values))
    return Mean(fmean(values), half)


def spread_of(histograms: Sequence[Histogram]) -> Spread:
    pooled = Histogram()
    for one in histograms:
        pooled.merge(one)
    shares = {f"p{share}": pooled.percentile(share) / NS_PER_MS for share in SHARES}
    return Spread(pooled.count, pooled.mean() / NS_PER_MS, shares, pooled.maximum / NS_PER_MS)


def figures_of(stack: str, runs: Sequence[Measured]) -> StackFigures:
    """The runs of one stack, in the order of their seeds."""

    def over_seeds(value: Callable[[Measured], float]) -> Mean:
        return mean_of([value(run) for run in runs])

    by_seed = tuple(run.per_message.mean() / NS_PER_MS for run in runs)
    guessed = [run.guessed for run in runs if run.guessed is not None]
    sized = [run.control_bytes for run in runs if run.control_bytes is not None]
    told = [run.metadata for run in runs if run.metadata is not None]

    def metadata(values: Sequence[float | None]) -> Mean | None:
        known = [value for value in values if value is not None]
        return mean_of(known) if known else None

    verdicts = judged(runs)
    errors = tuple(f"seed {run.seed}: {run.error.splitlines()[-1]}" for run in runs if run.error)
    broken = any(one.violated for one in verdicts) or bool(errors)
    return StackFigures(
        stack=stack,
        promises="broken" if broken else "unknown" if any(one.unknown for one in verdicts) else "kept",
        seeds=tuple(run.seed for run in runs),
        message_ms=mean_of(by_seed),
        message_ms_by_seed=by_seed,
        delivery_ms=over_seeds(lambda run: run.delivered.mean() / NS_PER_MS),
        message_spread=spread_of([run.per_message for run in runs]),
        delivery_spread=spread_of([run.delivered for run in runs]),
        tentative_ms=mean_of([one.latency_ms for one in guessed]) if guessed else None,
        tentative_spread=spread_of([one.seen for one in guessed]) if guessed else None,
        hit_percent=mean_of([100 * one.hit for one in guessed]) if guessed else None,
        packets_per_message=over_seeds(lambda run: run.packets / max(1, run.submitted)),
        control_bytes_per_message=(
            over_seeds(lambda run: (run.control_bytes or 0) / max(1, run.submitted)) if sized else None
        ),
        timestamp_entries=metadata([one.timestamp_entries for one in told]),
        timestamp_bytes=metadata([one.timestamp_bytes for one in told]),
        history_entries=metadata([one.history_entries for one in told]),
        cpu_us_per_delivery=over_seeds(lambda run: 1e6 * run.cpu_s / max(1, run.delivered.count)),
        submitted=sum(run.submitted for run in runs),
        undelivered=sum(run.undelivered for run in runs),
        forgiven=sum(run.forgiven for run in runs),
        errors=errors,
        verdicts=verdicts,
    )


def judged(runs: Sequence[Measured]) -> tuple[Judged, ...]:
    """The verdicts of all runs by property; those of several groups count each."""
    names = dict.fromkeys(verdict.property for run in runs for verdict in run.verdicts)
    found = []
    for name in names:
        own = [(run.seed, verdict) for run in runs for verdict in run.verdicts if verdict.property == name]
        valid, violated, unknown = (
            sum(v.status == status for _, v in own) for status in ("valid", "violated", "unknown")
        )
        worst = "violated" if violated else "unknown"
        seed, witness = next(((seed, v.witness) for seed, v in own if v.status == worst), (None, ""))
        found.append(Judged(name, valid, violated, unknown, witness, seed))
    return tuple(found)
