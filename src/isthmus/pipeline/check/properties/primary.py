"""Primary: at most one view at a time goes on as the group, as judge/properties/primary.py defines it.

The views of one group are looked at together, outside SQL, because the question is one of paths: there are as many rows
as views and installations of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from isthmus.judge.properties.primary import Step, rivals
from isthmus.pipeline.check.findings import evidence, finding_row
from isthmus.pipeline.check.tables import Tables
from isthmus.pipeline.engine.formats import FINDING, GROUP, ddl

NAME = "primary"


def primary(tables: Tables) -> DataFrame:
    if not tables.has_views:
        return evidence(tables.seen, NAME, 0)
    installed = tables.epochs.where(F.col("destinations").isNotNull())

    def judge(parts: tuple[int, ...], frame: pd.DataFrame) -> pd.DataFrame:
        found = rivals(steps_of(frame))
        counts = {"evidence_count": found.evidence_count, "violation_count": found.violation_count}
        row = finding_row(
            int(parts[0]), int(parts[1]), NAME, **counts, rank=0, witness=found.witness, doubt=found.doubt or None
        )
        return pd.DataFrame([row], columns=list(FINDING))

    return installed.groupBy(*GROUP).applyInPandas(judge, ddl(FINDING))


def steps_of(frame: pd.DataFrame) -> Iterator[Step]:
    """The views that the lives of one group installed, by life and in local order."""
    columns = (frame.sort_values(["process", "life", "start"])[name] for name in COLUMNS)
    for process, life, local, number, members, weights in zip(*columns, strict=True):
        votes = () if weights is None else tuple(map(int, weights))
        yield int(process), int(life), int(local), (int(number), tuple(map(int, members)), votes)


COLUMNS = ("process", "life", "start", "view", "destinations", "weights")
