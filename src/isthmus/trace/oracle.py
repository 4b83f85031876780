"""A judge in this process for one run: nine properties, each valid, violated or unknown, of groups and of domains.

The problem: after every small random run someone must say whether the promised order was kept, fast and without false
alarms; for traces that outgrow a process the same definitions are judged elsewhere. The idea: keep only the rows that
matter, arrange them once (history.py), and let one pure function per property (properties.py, order.py, causal.py,
finality.py) look for the first way in which it is broken.

Invariants: no verdict rests on a protocol's own timestamps, only on local orders and on who submitted and delivered
what. A verdict without evidence is unknown, never valid. A crashed life owes nothing after its crash; what it did
before counts. Rows may be fed in any order: `local` says where each belongs. docs/TRACE.md defines every property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from isthmus.core.errors import InputError
from isthmus.trace.causal import causal
from isthmus.trace.domain import DOMAIN_PROPERTIES, Domain, check_names
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
from isthmus.trace.witness import NOTHING, EventKey, located, sentence

Status = Literal["valid", "violated", "unknown"]
KEPT = frozenset((SUBMIT, TENTATIVE, DELIVER, REVOKE, VIEW, SUSPECT, TRUST, CRASH, RECOVER))
PROPERTIES: dict[str, Callable[[Group], Finding]] = {
    "integrity": integrity,
    "fifo": fifo,
    "causal": causal,
    "total": total,
    "uniform-total": uniform_total,
    "agreement": agreement,
    "validity": validity,
    "views": views,
    "final": final,
}


class Verdict(msgspec.Struct, frozen=True):
    """What the oracle says of one property in one group or domain of a run."""

    property: str
    status: Status
    evidence_count: int  # how often the property could have been broken
    violation_count: int
    witness: str  # the first violation as a sentence; for unknown, why; empty for valid
    group: int = 0  # NONE: a domain
    domain: str = ""  # its name
    events: tuple[EventKey, ...] = ()  # of the first violation


class Oracle:
    """Takes the rows of one run and judges them, group by group, and domain by domain where some are named."""

    __slots__ = ("_domains", "_groups", "_rows")

    def __init__(self, rows: Iterable[Row] = (), domains: Sequence[Domain] = ()) -> None:
        check_names(domains)
        self._rows: list[Row] = [row for row in rows if row[KIND] in KEPT]
        self._domains = tuple(domains)
        self._groups: list[Group] | None = None

    def feed(self, row: Row) -> None:
        """Take one row of the run."""
        if row[KIND] in KEPT:
            self._rows.append(row)
            self._groups = None

    append = feed  # an oracle is a sink too

    def verdicts(self, properties: Iterable[str] = tuple(PROPERTIES)) -> list[Verdict]:
        """One verdict per property over all groups and domains, in the order asked for; it names the first at fault."""
        return [over_all(self.scoped([name])) for name in properties]

    def in_group(self, group: int, properties: Iterable[str] = tuple(PROPERTIES)) -> list[Verdict]:
        """One verdict per property of one group; feed the rows of all groups, as messages may come from others."""
        asked = list(properties)
        one = [found for found in self._arranged(asked) if found.number == group and found.domain is None]
        if not one:
            return [Verdict(name, "unknown", 0, 0, NOTHING, group) for name in asked]
        return [self._judge(name, one[0]) for name in asked]

    def scoped(self, properties: Iterable[str] = tuple(PROPERTIES)) -> list[Verdict]:
        """One verdict per property and group, then per property and domain."""
        asked = list(properties)
        groups = self._arranged(asked)
        found = [
            self._judge(name, group)
            for group in groups
            for name in asked
            if group.domain is None or name in DOMAIN_PROPERTIES
        ]
        nothing = [Verdict(name, "unknown", 0, 0, NOTHING) for name in asked]
        return found if any(group.domain is None for group in groups) else nothing + found

    def _arranged(self, asked: list[str]) -> list[Group]:
        """The groups and domains, once all properties are known ones."""
        for name in asked:
            if name not in PROPERTIES:
                raise InputError("property", "", repr(name), "one of " + ", ".join(PROPERTIES))
        if self._groups is None:
            self._groups = arrange(self._rows, self._domains)
        return self._groups

    def _judge(self, name: str, group: Group) -> Verdict:
        """Judge one property of one group or domain."""
        finding = PROPERTIES[name](group)
        counts = (finding.evidence_count, finding.violation_count)
        place = (group.number, "" if group.domain is None else group.domain.name)
        if finding.witness is not None:
            groups = (group.number,) if group.domain is None else group.domain.groups
            events = located(self._rows, finding.witness.events, groups)
            return Verdict(name, "violated", *counts, sentence(finding.witness, group.number), *place, events)
        if finding.evidence_count:
            return Verdict(name, "valid", *counts, "", *place)
        return Verdict(name, "unknown", *counts, finding.lack, *place)


def over_all(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdicts of one property as one: violated if any is, unknown only if all are."""
    statuses = [verdict.status for verdict in verdicts]
    worst = next(status for status in ("violated", "valid", "unknown") if status in statuses)
    chosen = verdicts[statuses.index(worst)]
    return msgspec.structs.replace(
        chosen,
        evidence_count=sum(verdict.evidence_count for verdict in verdicts),
        violation_count=sum(verdict.violation_count for verdict in verdicts),
    )
