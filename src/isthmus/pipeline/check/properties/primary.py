"""Primary: at most one view at a time goes on as the group, as judge/properties/primary.py defines it.

The views of one group are looked at together, outside SQL, because the question is one of paths: there are as many rows
as views and installations of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.judge.properties.primary import NumberedView, earlier, primaries
from isthmus.judge.witness import EventKey, Witness
from isthmus.pipeline.check.findings import evidence, finding_row
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import FINDING, GROUP, ddl

NAME = "primary"


def primary(tables: Tables) -> DataFrame:
    if not tables.has_views:
        return evidence(tables.seen, NAME, 0)
    rows = tables.epochs.where(F.col("destinations").isNotNull()).select(
        *GROUP,
        "process",
        "life",
        F.col("start").alias("local"),
        "view",
        F.col("destinations").alias("members"),
        "weights",
    )

    def judge(parts: tuple[int, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(rivals(int(parts[0]), int(parts[1]), frame), columns=list(FINDING))

    return rows.groupBy(*GROUP).applyInPandas(judge, ddl(FINDING))


def rivals(run: int, group: int, frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    installed: dict[NumberedView, dict[int, int]] = {}  # view to where it was installed, with the local number
    before: dict[NumberedView, set[NumberedView]] = {}  # view to those that were installed just before it somewhere
    for _, steps in frame.sort_values("local").groupby(["process", "life"], sort=True):
        last: NumberedView | None = None
        for process, local, number, members, weights in zip(
            steps["process"], steps["local"], steps["view"], steps["members"], steps["weights"], strict=True
        ):
            votes = () if weights is None else tuple(int(vote) for vote in weights)
            view = (int(number), tuple(int(member) for member in members), votes)
            installed.setdefault(view, {}).setdefault(int(process), int(local))
            before.setdefault(view, set())
            if last is not None and last != view:
                before[view].add(last)
            last = view
    found = primaries(installed, before)
    yield finding_row(run, group, NAME, evidence_count=len(installed) if len(installed) > 1 else 0)
    ahead = {view: earlier(view, before) for view in found}
    for one, other in combinations(found, 2):
        if one not in ahead[other] and other not in ahead[one]:
            events = tuple(event(installed[view]) for view in (one, other))
            witness = Witness("rivals", numbers=(one[0], other[0]), members=(one[1], other[1]), events=events)
            yield finding_row(run, group, NAME, violation_count=1, rank=one[0], witness=witness)


def event(places: dict[int, int]) -> EventKey:
    process = min(places)
    return EventKey(Kind.VIEW, process, local=places[process], role="installed")
