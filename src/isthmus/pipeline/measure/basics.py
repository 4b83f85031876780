"""What measures share: units, kinds of rows, and the usual summary of a time."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS

NS_PER_S = 1_000_000_000
ACCURACY = 10_000
SHARES = (0.5, 0.9, 0.99)


def of_kind(*kinds: Kind) -> Column:
    return F.col("kind").isin([int(kind) for kind in kinds])


def ms(column: Column | str) -> Column:
    """Nanoseconds as milliseconds."""
    return (F.col(column) if isinstance(column, str) else column) / F.lit(NS_PER_MS)


def spread(column: Column, prefix: str = "", suffix: str = "") -> list[Column]:
    """Mean, percentiles and maximum of a column, as aggregates."""
    names = [f"{prefix}{name}{suffix}" for name in ("mean", *(f"p{round(100 * share)}" for share in SHARES), "max")]
    shares = [F.percentile_approx(column, share, ACCURACY) for share in SHARES]
    return [found.alias(name) for found, name in zip([F.mean(column), *shares, F.max(column)], names, strict=True)]


def spread_ms(column: str, prefix: str) -> list[Column]:
    """The same of a column in ns, in ms; formats.spread_columns names them."""
    return spread(ms(column), f"{prefix}_", "_ms")
