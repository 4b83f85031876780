"""Means over runs that differ in their seed alone, with their confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

SEEDS_MIN = 3  # for an interval
DEGREES_MAX = 30  # of freedom; Student's t counts as normal above


def over_seeds(table: DataFrame, by: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """The mean of each column over runs that differ in their seed alone, and the half-width of its 95 % interval.

    Fewer than three runs have no interval: null. Of two it would be a dozen times their distance wide. Runs without a
    value count for neither mean nor interval. `runs` says how many there were.
    """
    student, normal = student_quantiles()
    found: list[Column] = [F.count("*").alias("runs")]
    for name in columns:
        known = F.count(name)
        quantile = F.coalesce(F.get(F.array(*map(F.lit, student)), known.cast("int") - 2), F.lit(normal))
        half = F.when(known >= SEEDS_MIN, quantile * F.stddev_samp(name) / F.sqrt(known))
        found += [F.mean(name).alias(name), half.alias(f"{name}_half")]
    return table.groupBy(*by).agg(*found).orderBy(*by)


def student_quantiles() -> tuple[list[float], float]:
    """Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on, and the normal one."""
    from scipy.special import stdtrit  # behind scipy.stats.t.ppf, which takes half a second longer to import

    *student, normal = stdtrit([*range(1, DEGREES_MAX + 1), inf], 0.975).tolist()
    return student, normal
