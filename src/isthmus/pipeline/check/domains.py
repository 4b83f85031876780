"""Domains on Spark: the rows of several groups once more, as those of one group with a number of its own.

What a domain asks of its groups together is what a group is asked by itself (trace/domain.py). `seen_in` keeps the
group in which a row happened. Groups are numbered from 0, domains from FIRST downwards; NONE is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.check.incarnations import is_home, is_kind
from isthmus.pipeline.engine.formats import IDENTITY
from isthmus.trace.domain import Domain
from isthmus.trace.schema import NONE

FIRST = NONE - 1  # the number of the first domain


def with_domains(trace: DataFrame, domains: Sequence[Domain], hold: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """A trace with `seen_in`, and the rows of its domains; `hold` keeps what is costly to compute."""
    rows = trace.withColumn("seen_in", F.col("group"))
    joined = [rows]
    for index, domain in enumerate(domains):
        given = is_kind(Kind.DELIVER)
        inside = rows.where(F.col("group").isin(list(domain.groups)) & (given | (is_kind(Kind.SUBMIT) & is_home())))
        if domain.scope == "inter":
            crossing = inside.where(given & (F.col("origin") != F.col("group"))).select(*IDENTITY).distinct()
            inside = hold(inside.join(crossing, list(IDENTITY), "left_semi").select(*rows.columns))
        joined.append(inside.withColumn("group", F.lit(FIRST - index).cast("int")))
    whole = joined[0]
    for more in joined[1:]:
        whole = whole.unionByName(more)
    return whole


def is_domain() -> Column:
    return F.col("group") <= FIRST


def domain_names(domains: Sequence[Domain]) -> Column:
    """The name of a row's domain; empty for a group."""
    name = F.lit("")
    for index, domain in enumerate(domains):
        name = F.when(F.col("group") == FIRST - index, domain.name).otherwise(name)
    return name
