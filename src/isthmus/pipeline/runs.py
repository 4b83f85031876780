"""Runs that fit a task, judged in the executors by the oracle of one process; so both engines say the same of them.

The idea: most traces are many small runs, or one that a process could hold. Their rows are brought together by run, and
the in-process oracle (trace/oracle.py) gives the verdicts and witnesses there, all runs in parallel. Only runs that
outgrow a task need tables of their own (tables.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from isthmus.pipeline.formats import VERDICT, ddl
from isthmus.trace.domain import Domain
from isthmus.trace.oracle import Oracle, Verdict
from isthmus.trace.reader import to_rows
from isthmus.trace.schema import SCHEMA
from isthmus.trace.witness import WitnessEvent

Spans = Mapping[str, Sequence[range] | None]  # each property with the runs that it is asked of; None: all


def judge_runs(
    trace: DataFrame, spans: Spans, bounds: Mapping[str, int], domains: Sequence[Domain], partial: bool
) -> DataFrame:
    """The verdicts on every run of a trace, each run in one task."""
    wanted = {name: None if given is None else list(given) for name, given in spans.items()}
    shape = pa.schema(
        [pa.field(name, kind) for name, kind in zip(VERDICT, map(arrow_type, VERDICT.values()), strict=True)]
    )

    def judge(rows: pa.Table) -> pa.Table:
        run = rows.column("run")[0].as_py()
        asked = [name for name, given in wanted.items() if given is None or any(run in span for span in given)]
        oracle = Oracle(domains=domains, bounds=bounds, partial=partial)
        for batch in rows.select(SCHEMA.names).cast(SCHEMA).to_batches():
            oracle.extend(to_rows(batch))
        found = [verdict_row(run, verdict) for verdict in oracle.scoped(asked)] if asked else []
        return pa.Table.from_pylist(found, schema=shape)

    return trace.select(*SCHEMA.names).groupBy("run").applyInArrow(judge, ddl(VERDICT))


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a Spark type, by its name."""
    shape = StructType.fromDDL(f"x {kind}")
    assert isinstance(shape, StructType)
    return to_arrow_type(shape["x"].dataType)


def verdict_row(run: int, verdict: Verdict) -> dict[str, object]:
    """A verdict of the oracle in the columns of a table."""
    shown = verdict.shown
    return {
        "run": run,
        "group": verdict.group,
        "domain": verdict.domain,
        "property": verdict.property,
        "status": verdict.status,
        "evidence_count": verdict.evidence_count,
        "violation_count": verdict.violation_count,
        "witness": verdict.witness,
        "witness_events": [event_row(event) for event in verdict.events],
        "shown": None
        if shown is None
        else {
            "form": shown.form,
            "lives": [{"process": process, "life": life} for process, life in shown.lives],
            "messages": [
                {"origin": origin, "sender": sender, "number": number} for origin, sender, number in shown.messages
            ],
            "numbers": list(shown.numbers),
            "members": [list(members) for members in shown.members],
        },
    }


def event_row(event: WitnessEvent) -> dict[str, object]:
    place = {"process": event.process, "local": event.local, "time_ns": event.time_ns, "kind": int(event.kind)}
    message = {"origin": event.origin, "sender": event.sender, "number": event.number}
    return place | message | {"group": event.group, "view": event.view, "role": event.role, "missing": event.missing}
