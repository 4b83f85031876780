"""A judge in this process for one run: every property, each valid, violated or unknown, of groups and of domains.

Rows that matter are kept and arranged once (history.py), and one pure function per property looks for the first way in
which it is broken. Invariants: no verdict rests on a protocol's own timestamps. A verdict without evidence is unknown.
A crashed life owes nothing after its crash. Rows may be fed in any order. docs/TRACE.md defines every property.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from isthmus.core.errors import InputError
from isthmus.judge.arrange import arrange, without_unsure
from isthmus.judge.history import GAUGE_ROW, KEPT, RECEIVE, SEND, GroupHistory
from isthmus.judge.properties.agreement import agreement
from isthmus.judge.properties.causal import causal
from isthmus.judge.properties.clocks import clock_accuracy, clock_precision
from isthmus.judge.properties.fifo import fifo
from isthmus.judge.properties.finality import final
from isthmus.judge.properties.finding import Finding
from isthmus.judge.properties.integrity import integrity
from isthmus.judge.properties.primary import primary
from isthmus.judge.properties.sending_view import sending_view
from isthmus.judge.properties.total import total, uniform_total
from isthmus.judge.properties.uniform import uniform_agreement
from isthmus.judge.properties.validity import validity
from isthmus.judge.properties.views import views
from isthmus.judge.verdict import Verdict, combined
from isthmus.judge.witness import LACKS, NOTHING, WitnessEvent, rows_shown, sentence
from isthmus.trace.domain import JOINT, Domain, check_names
from isthmus.trace.schema import GAUGE, GROUP, KIND, LOCAL, PROCESS, Gauge, Row

CHECKS: dict[str, Callable[[GroupHistory], Finding]] = {
    "integrity": integrity,
    "validity": validity,
    "agreement": agreement,
    "uniform-agreement": uniform_agreement,
    "fifo": fifo,
    "causal": causal,
    "total": total,
    "uniform-total": uniform_total,
    "final": final,
    "sending-view": sending_view,
    "views": views,
    "primary": primary,
}
BOTH = "fifo-total"
CLOCKS = {"clock-precision": clock_precision, "clock-accuracy": clock_accuracy}
PROPERTIES = (*CHECKS, BOTH, *CLOCKS)
KEPT_GAUGES = (Gauge.SENT_VIEW, Gauge.CLOCK_BOUND_NS)


class Oracle:
    """Takes the rows of one run and judges them, group by group, and domain by domain where some are named.

    `bounds` are those of the clocks, in ns, beside what they publish; `partial` says that every process's trace may be
    incomplete.
    """

    __slots__ = ("_bounds", "_domains", "_findings", "_groups", "_partial", "_touched", "rows")

    def __init__(
        self,
        rows: Iterable[Row] = (),
        domains: Sequence[Domain] = (),
        bounds: Mapping[str, int] | None = None,
        partial: bool = False,
    ) -> None:
        if domains:
            check_names(domains)
        check_bounds(bounds or {})
        self.rows: list[Row] = []
        self._touched: dict[tuple[int, int], Row] = {}  # process and group to the first SEND or RECEIVE row
        self._domains = tuple(domains)
        self._bounds = dict(bounds or {})
        self._partial = partial
        self._groups: list[GroupHistory] | None = None
        self._findings: dict[tuple[str, int], Finding] = {}  # by property and place of the group
        self.extend(rows)

    def extend(self, rows: Iterable[Row]) -> None:
        kept, others = self.rows, self._touched
        for row in rows:
            kind = row[KIND]
            if kind in KEPT or (kind == GAUGE_ROW and row[GAUGE] in KEPT_GAUGES):
                kept.append(row)
            elif kind == RECEIVE or kind == SEND:  # noqa: SIM109  faster
                place = (row[PROCESS], row[GROUP])
                if place not in others or row[LOCAL] < others[place][LOCAL]:
                    others[place] = row
        self._groups = None

    def feed(self, row: Row) -> None:
        self.extend((row,))

    append = feed  # an oracle is a sink too

    def verdicts(self, properties: Iterable[str] = PROPERTIES) -> list[Verdict]:
        """One verdict per property over all groups and domains, in the order asked for; it names the first at fault."""
        asked = list(properties)
        found = self.scoped(asked)
        return [combined([verdict for verdict in found if verdict.property == name]) for name in asked]

    def in_group(self, group: int, properties: Iterable[str] = PROPERTIES) -> list[Verdict]:
        """One verdict per property of one group; feed the rows of all groups, as messages may come from others."""
        asked = list(properties)
        places = [
            place for place, found in enumerate(self._arranged(asked)) if found.number == group and found.domain is None
        ]
        if not places:
            return [Verdict(name, "unknown", 0, 0, NOTHING, group) for name in asked]
        return self._judge([(name, places[0]) for name in asked])

    def scoped(self, properties: Iterable[str] = PROPERTIES) -> list[Verdict]:
        """One verdict per property and group, then per property and domain."""
        asked = list(properties)
        groups = self._arranged(asked)
        found = self._judge(
            [
                (name, place)
                for place, group in enumerate(groups)
                for name in asked
                if group.domain is None or name in JOINT
            ]
        )
        nothing = [Verdict(name, "unknown", 0, 0, NOTHING) for name in asked]
        return found if any(group.domain is None for group in groups) else nothing + found

    def _arranged(self, asked: list[str]) -> list[GroupHistory]:
        """The groups and domains, once all properties are known ones."""
        for name in asked:
            if name not in PROPERTIES:
                raise InputError("property", "", repr(name), "one of " + ", ".join(PROPERTIES))
        if self._groups is None:
            rows = without_unsure(self.rows) + list(self._touched.values())
            self._groups = arrange(rows, self._domains, self._partial)
            self._findings.clear()
        return self._groups

    def _judge(self, asked: list[tuple[str, int]]) -> list[Verdict]:
        """Judge properties of groups or domains; the rows of all witnesses are looked up together."""
        assert self._groups is not None
        groups = self._groups
        findings = [self._finding(name, place) for name, place in asked]
        broken = [
            (finding.witness, groups_of(groups[place]))
            for (_, place), finding in zip(asked, findings, strict=True)
            if finding.witness is not None
        ]
        events = iter(rows_shown(self.rows, broken) if broken else ())
        return [
            verdict_of(name, groups[place], finding, next(events) if finding.witness is not None else ())
            for (name, place), finding in zip(asked, findings, strict=True)
        ]

    def _finding(self, name: str, place: int) -> Finding:
        key = (name, place)
        if key not in self._findings:
            assert self._groups is not None
            group = self._groups[place]
            if name == BOTH:
                self._findings[key] = both(self._finding("fifo", place), self._finding("total", place))
            elif name in CLOCKS:
                self._findings[key] = CLOCKS[name](group, self._bounds.get(name))
            else:
                self._findings[key] = CHECKS[name](group)
        return self._findings[key]


def check_bounds(bounds: Mapping[str, int]) -> None:
    for name in bounds:
        if name not in CLOCKS:
            raise InputError("bounds", "", repr(name), "one of " + ", ".join(CLOCKS))


def groups_of(group: GroupHistory) -> tuple[int, ...]:
    return (group.number,) if group.domain is None else group.domain.groups


def both(fifo_finding: Finding, total_finding: Finding) -> Finding:
    """Fifo and total together: the violations of either, and evidence only where each has some."""
    finding = Finding(LACKS[BOTH])
    parts = (fifo_finding, total_finding)
    if all(part.evidence_count for part in parts):
        finding.evidence_count = sum(part.evidence_count for part in parts)
    finding.violation_count = sum(part.violation_count for part in parts)
    finding.witness = next((part.witness for part in parts if part.witness is not None), None)
    return finding


def verdict_of(name: str, group: GroupHistory, finding: Finding, events: tuple[WitnessEvent, ...]) -> Verdict:
    counts = (finding.evidence_count, finding.violation_count)
    place = (group.number, "" if group.domain is None else group.domain.name)
    if finding.witness is not None:
        told = sentence(finding.witness, group.number)
        return Verdict(name, "violated", *counts, told, *place, finding.witness, events)
    if finding.doubt:
        return Verdict(name, "unknown", *counts, finding.doubt, *place)
    if finding.evidence_count:
        return Verdict(name, "valid", *counts, "", *place)
    return Verdict(name, "unknown", *counts, finding.lack, *place)
