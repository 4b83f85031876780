"""A judge in this process for one run: eight properties, each valid, violated or unknown.

The problem: after every small random run someone must say whether the promised order was kept, fast and without false
alarms; for traces that outgrow a process the same definitions are judged elsewhere. The idea: keep only the rows that
matter, arrange them once (history.py), and let one pure function a property (properties.py, order.py) look for the
first way in which it is broken.

Invariants: no verdict rests on a protocol's own timestamps, only on local orders and on who submitted and delivered
what. A verdict without evidence is unknown, never valid. A crashed life owes nothing after its crash; what it did
before counts. Rows may be fed in any order: `local` says where each belongs. docs/TRACE.md defines every property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.trace.finality import final
from isthmus.trace.history import (
    CRASH,
    DELIVER,
    RECOVER,
    REVOKE,
    SUBMIT,
    SUSPECT,
    TENTATIVE,
    TRUST,
    VIEW,
    Group,
    arrange,
)
from isthmus.trace.order import total, uniform_total
from isthmus.trace.properties import Finding, agreement, fifo, integrity, validity, views
from isthmus.trace.schema import KIND, Row

Status = Literal["valid", "violated", "unknown"]
KEPT = frozenset((SUBMIT, TENTATIVE, DELIVER, REVOKE, VIEW, SUSPECT, TRUST, CRASH, RECOVER))
PROPERTIES: dict[str, Callable[[Group], Finding]] = {
    "integrity": integrity,
    "fifo": fifo,
    "total": total,
    "uniform-total": uniform_total,
    "agreement": agreement,
    "validity": validity,
    "views": views,
    "final": final,
}


class Verdict(msgspec.Struct, frozen=True):
    """What the oracle says of one property in one run."""

    property: str
    status: Status
    evidence_count: int  # how often the property could have been broken
    violation_count: int
    witness: str  # the first violation as a sentence; for unknown, why; empty for valid


class Oracle:
    """Takes the rows of one run and judges them."""

    __slots__ = ("_groups", "_rows")

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: list[Row] = [row for row in rows if row[KIND] in KEPT]
        self._groups: list[Group] | None = None

    def feed(self, row: Row) -> None:
        """Take one row of the run."""
        if row[KIND] in KEPT:
            self._rows.append(row)
            self._groups = None

    append = feed  # an oracle is a sink too

    def verdicts(self, properties: Iterable[str] = tuple(PROPERTIES)) -> list[Verdict]:
        """One verdict a property, in the order asked for."""
        if self._groups is None:
            self._groups = arrange(self._rows)
        return [judge(name, self._groups) for name in properties]


def judge(name: str, groups: list[Group]) -> Verdict:
    """Judge one property in every group; the first violation found is the witness."""
    if name not in PROPERTIES:
        raise InputError("property", "", repr(name), "one of " + ", ".join(PROPERTIES))
    findings = [PROPERTIES[name](group) for group in groups]
    evidence = sum(finding.evidence_count for finding in findings)
    violations = sum(finding.violation_count for finding in findings)
    status: Status = "violated" if violations else "valid" if evidence else "unknown"
    witness = ""
    if status == "violated":
        witness = next(finding.witness for finding in findings if finding.violation_count)
    elif status == "unknown":
        witness = next((finding.lack for finding in findings if finding.lack), "nobody submitted or delivered anything")
    return Verdict(name, status, evidence, violations, witness)
