"""The shapes of what the pipeline hands on, each declared once: keys, findings, verdicts, runs and measures.

A shape is a dict of column to Spark type, in order; `ddl` makes the schema of it. What produces a table selects these
columns, what reads one names them from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

# Keys

GROUP = ("run", "group")  # group: a group's number, or below NONE a domain's (domains.py)
IDENTITY = ("run", "origin", "sender", "number")  # a message, wherever it is seen
MESSAGE = ("run", "group", "origin", "sender", "number")  # a message in a group
PLACE = ("run", "group", "process", "life")  # a life in a group
HOLDER = (*MESSAGE, "life", "word")  # deliverers of a message, 64 processes a word


def struct(columns: Mapping[str, str]) -> str:
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in columns.items()) + ">"


def ddl(columns: Mapping[str, str]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


# What a check hands in (properties/), added up to verdicts (verdicts.py)

EVENT_KEY = {  # judge.witness.EventKey; what is null is not compared
    "kind": "tinyint",
    "process": "int",
    "origin": "int",
    "sender": "int",
    "number": "bigint",
    "local": "bigint",
    "value": "bigint",
    "role": "string",
}
WITNESS = {  # judge.witness.Witness
    "form": "string",
    "lives": "array<struct<process:int,life:int>>",
    "messages": "array<struct<origin:int,sender:int,number:bigint>>",
    "numbers": "array<bigint>",
    "members": "array<array<int>>",
    "events": f"array<{struct(EVENT_KEY)}>",
}
FINDING = {
    "run": "bigint",
    "group": "int",
    "property": "string",
    "evidence_count": "bigint",
    "violation_count": "bigint",
    "rank": "bigint",  # the witness of the lowest is shown
    **WITNESS,
    "lack": "string",  # why there is no evidence
    "doubt": "string",  # why the property cannot be called valid, whatever the evidence
}
EVENT = {  # one row of the trace that a witness shows, or that is missing (judge.witness.WitnessEvent)
    "process": "int",
    "local": "bigint",
    "time_ns": "bigint",
    "kind": "tinyint",
    "origin": "int",
    "sender": "int",
    "number": "bigint",
    "group": "int",
    "view": "int",
    "role": "string",
    "missing": "boolean",  # there is no such row, and there should be; local: the row that it should precede
}
SHOWN = {name: kind for name, kind in WITNESS.items() if name != "events"}
VERDICT_KEY = ("run", "group", "domain", "property")
VERDICT = {
    "run": "bigint",
    "group": "int",  # NONE: a domain
    "domain": "string",  # its name; empty for a group
    "property": "string",
    "status": "string",  # valid, violated, unknown
    "evidence_count": "bigint",
    "violation_count": "bigint",
    "witness": "string",  # a sentence; where unknown, the reason
    "witness_events": f"array<{struct(EVENT)}>",
    "shown": struct(SHOWN),  # the first violation, as fields; null where there is none
}

# The table of runs, made by a sweep; then the fields of simulate.Outcome and one column per parameter

RUN_SPEC = ("run", "study", "stack", "seed", "parameters", "replay")

# Measures (measure/), each after `run` and what it was asked by


def spread_columns(prefix: str) -> tuple[str, ...]:
    """The columns that measure.basics.spread_ms computes of a time."""
    return tuple(f"{prefix}_{name}_ms" for name in ("mean", "p50", "p90", "p99", "max"))


MEASURES: dict[str, tuple[str, ...]] = {
    "message_latency": ("messages", "undelivered", *spread_columns("latency")),
    "delivery_latency": ("deliveries", *spread_columns("latency")),
    "optimistic": (
        "deliveries",
        *(name for prefix in ("latency", "tentative", "window") for name in spread_columns(prefix)),
        "late_share",
    ),
    "hit_ratios": ("deliveries", "hit", "late_share", "pairs", "hit_pair", "hit_either"),
    "throughput": ("span_s", "messages_per_s", "deliveries_per_s"),
    "queue": ("queue_mean", "queue_max"),
    "control_bytes": (
        "control_bytes",
        "control_bytes_per_message",
        "control_bytes_per_delivery",
        "packets_per_message",
    ),
    "sent_bytes": ("process", "multicasts", "copies", "payload_bytes", "control_bytes"),
    "link_load": (
        "source",
        "target",
        "packets",
        "payload_bytes",
        "control_bytes",
        "packets_per_s",
        "bytes_per_s",
    ),
    "gauges": ("gauge", "rows", "mean", "p50", "p90", "p99", "max"),
    "view_installs": ("process", "change", "changed_ms", "view", "first_ms", "last_ms"),
    "role_changes": ("role_changes", "role_changes_max"),
}


def measured(frame: DataFrame, name: str, by: Sequence[str] = ()) -> DataFrame:
    return frame.select("run", *by, *MEASURES[name])
