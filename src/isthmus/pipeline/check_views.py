"""Views: numbers ascend at each process, a number means the same members everywhere, and there is one primary.

The idea: VIEW rows are few, so that windows over them say it all. For `primary` the views of one group are looked at
together, outside SQL, because the question is one of paths: there are as many rows as views and installations of them.

Primary. A view is a number with its members. It is *established* if more than half of its members installed it. It is
*primary* if it is established, and either none of those who installed it had an earlier view, or it has more than
half of the members of a primary view that one of them installed just before it. Two primary views must be ordered: a
chain of processes leads from one to the other, each of which installed both ends of its link one after the other.
Two halves of a group that both go on as the group break this; so do two groups that were founded apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from isthmus.core.layer import Kind
from isthmus.pipeline.findings import COLUMNS, FINDING, evidence, key, listed, say, violations
from isthmus.pipeline.lives import GROUP, is_kind
from isthmus.pipeline.tables import Tables

View = tuple[int, tuple[int, ...]]  # number and members


def views(tables: Tables) -> DataFrame:
    """Findings: a number that does not ascend, or that two processes understand differently."""
    if not tables.has_views:
        return evidence(tables.seen, "views", 0)
    rows = tables.told.where(is_kind(Kind.VIEW)).select(
        *GROUP, "process", "local", "time_ns", F.col("value").alias("view"), "destinations"
    )
    order = Window.partitionBy(*GROUP, "process").orderBy("local")
    # As the oracle reads them: the lowest process that installed a view tells its members.
    same = Window.partitionBy(*GROUP, "view").orderBy("process", "local")
    told = (
        rows.withColumn("before", F.lag("view").over(order))
        .withColumn("teller", F.first("process").over(same))
        .withColumn("told", F.first("destinations").over(same))
    )
    compared = F.col("before").isNotNull() | (F.col("teller") != F.col("process"))
    count = evidence(told.groupBy(*GROUP).agg(F.count_if(compared).alias("count")), "views", "count")
    back = told.where(F.col("view") <= F.col("before"))
    backward = violations(
        back,
        "views",
        F.format_string("process %d installed view %d after view %d", F.col("process"), F.col("view"), F.col("before")),
        [
            key(Kind.VIEW, "process", "installed before", None, None, value="before"),
            key(Kind.VIEW, "process", "installed after", None, None, local="local"),
        ],
        "time_ns",
    )
    differ = violations(
        told.where(F.col("destinations") != F.col("told")),
        "views",
        say(
            F.format_string("view %d is ", F.col("view")),
            listed(F.col("destinations")),
            F.format_string(" at process %d and ", F.col("process")),
            listed(F.col("told")),
            F.format_string(" at process %d", F.col("teller")),
        ),
        [
            key(Kind.VIEW, "teller", "installed", None, None, value="view"),
            key(Kind.VIEW, "process", "installed otherwise", None, None, local="local"),
        ],
        "time_ns",
    )
    return count.unionByName(backward).unionByName(differ)


def primary(tables: Tables) -> DataFrame:
    """Findings: two primary views that nothing puts in an order."""
    if not tables.has_views:
        return evidence(tables.seen, "primary", 0)
    rows = tables.epochs.where(F.col("destinations").isNotNull()).select(
        *GROUP, "process", "life", F.col("start").alias("local"), "view", F.col("destinations").alias("members")
    )

    def judge(parts: tuple[int, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(rivals(int(parts[0]), int(parts[1]), frame), columns=list(COLUMNS))

    return rows.groupBy(*GROUP).applyInPandas(judge, FINDING)


def rivals(run: int, group: int, frame: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """The findings of one group."""
    installed: dict[View, dict[int, int]] = {}  # view to where it was installed, with the local number
    before: dict[View, set[View]] = {}  # view to those that were installed just before it somewhere
    for _, steps in frame.sort_values("local").groupby(["process", "life"], sort=True):
        last: View | None = None
        for process, local, number, members in zip(
            steps["process"], steps["local"], steps["view"], steps["members"], strict=True
        ):
            view = (int(number), tuple(int(member) for member in members))
            installed.setdefault(view, {}).setdefault(int(process), int(local))
            before.setdefault(view, set())
            if last is not None and last != view:
                before[view].add(last)
            last = view
    found = primaries(installed, before)
    yield run, group, "primary", len(installed) if len(installed) > 1 else 0, 0, None, None, None, None
    ahead = {view: earlier(view, before) for view in found}
    for one, other in combinations(found, 2):
        if one not in ahead[other] and other not in ahead[one]:
            sentence = f"views {name(one)} and {name(other)} are both primary, and nobody went from one to the other"
            keys = [event(installed[view], group) for view in (one, other)]
            yield run, group, "primary", 0, 1, one[0], sentence, keys, None


def primaries(installed: dict[View, dict[int, int]], before: dict[View, set[View]]) -> list[View]:
    """The primary views, by number."""
    found: list[View] = []
    for view in sorted(installed):
        members = set(view[1])
        established = 2 * len(members & set(installed[view])) > len(members)
        heir = any(old in found and 2 * len(members & set(old[1])) > len(old[1]) for old in before[view])
        if established and (heir or not before[view]):
            found.append(view)
    return found


def earlier(view: View, before: dict[View, set[View]]) -> set[View]:
    """All views that a chain of installations leads from to this one."""
    seen: set[View] = set()
    left = [view]
    while left:
        for old in before[left.pop()] - seen:
            seen.add(old)
            left.append(old)
    return seen


def name(view: View) -> str:
    return f"{view[0]} {view[1]}"


def event(places: dict[int, int], group: int) -> tuple[object, ...]:
    process = min(places)
    return (group, process, places[process], int(Kind.VIEW), None, None, None, "installed")
