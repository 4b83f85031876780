"""All runs of a trace, judged in this process, and summed up: one line per property, with the first witness.

Verdicts are added up in the order of run, domain and group; Spark adds them up on its own (pipeline/check/check.py), to
the same `Summary`. Unless properties are named, all are judged for which the trace can have evidence; those that turn
out to have none are named as not judged, and so is what safe delivery alone promises where the stacks do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES, Oracle
from isthmus.judge.verdict import STATUSES, Status, Verdict
from isthmus.judge.witness import LACKS, NOTHING, Witness, WitnessEvent
from isthmus.trace.domain import ORDERS, Domain, of_domains
from isthmus.trace.schema import GROUP, KIND, NONE, RUN, Row

NEEDS = {  # the kinds without which a property has no evidence; all others need deliveries
    "validity": Kind.SUBMIT,
    "final": Kind.TENTATIVE,
    "views": Kind.VIEW,
    "primary": Kind.VIEW,
    "clock-precision": Kind.CLOCK,
    "clock-accuracy": Kind.CLOCK,
}
IMPLIED = {"fifo-total": "fifo and total say it"}
SAFE = ("uniform-agreement", "uniform-total", "sending-view")  # what only safe delivery promises
NO_ROWS = "the trace has no rows"
CHUNK = 1 << 16


class Told(msgspec.Struct, frozen=True):
    """The first witness of a property: where it was found, and what shows it."""

    run: int
    group: int  # NONE: a domain
    domain: str
    witness: Witness
    events: tuple[WitnessEvent, ...]


class Summary(msgspec.Struct, frozen=True):
    """The verdicts of one property over all runs, groups and domains."""

    name: str
    counts: dict[str, int]  # by status
    evidence_count: int
    violation_count: int
    told: Told | None  # of the first run that breaks it
    reason: str  # why one is unknown

    @property
    def status(self) -> Status:
        if self.counts["violated"]:
            return "violated"
        return "unknown" if self.counts["unknown"] or not self.counts["valid"] else "valid"


class Judged(msgspec.Struct):
    """What was found in a trace."""

    summaries: list[Summary]
    left_out: dict[str, str]  # properties that were not judged, and why
    row_count: int


class Census:
    """How many rows of each kind a trace has, and in which groups."""

    __slots__ = ("groups", "kinds")

    def __init__(self) -> None:
        self.kinds: Counter[int] = Counter()
        self.groups: set[int] = set()

    def count(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, counted on their way."""
        rows = iter(rows)
        while chunk := list(islice(rows, CHUNK)):
            self.kinds.update(map(itemgetter(KIND), chunk))
            self.groups.update(map(itemgetter(GROUP), chunk))
            yield from chunk


def judge(
    rows: Iterable[Row],
    properties: Sequence[str],
    bounds: Mapping[str, int],
    domains: Sequence[Domain] = (),
    partial: bool = False,
    promised: Collection[str] | None = None,
    composed: bool = False,
) -> Judged:
    """Judge every run of a trace in this process; no properties: all that the trace can have evidence of.

    `promised` is what the stacks of the trace promise, where it says so; `composed`, that it tells the domains itself.
    """
    oracles: dict[int, Oracle] = {}
    census = Census()
    for run, own in groupby(census.count(rows), itemgetter(RUN)):
        if run not in oracles:
            oracles[run] = Oracle(domains=domains, bounds=bounds, partial=partial)
        oracles[run].extend(own)
    if not composed:
        check_domains(domains, census.groups)
    asked, left_out = choose(properties, census.kinds, promised)
    found = [(run, verdict) for run in sorted(oracles) for verdict in oracles[run].scoped(asked)]
    if composed:
        inside = of_domains(domains)
        found = [(run, verdict) for run, verdict in found if verdict.domain or not is_moot(verdict, inside)]
    summaries = [summarize(name, found) for name in asked]
    return settled(summaries, left_out, sum(census.kinds.values()), bool(properties))


def choose(
    properties: Sequence[str], kinds: Mapping[int, int], promised: Collection[str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """The properties to judge, and why the others are not."""
    if properties:
        return list(dict.fromkeys(properties)), {}
    left_out: dict[str, str] = {}
    for name in PROPERTIES:
        needed = NEEDS.get(name, Kind.DELIVER)
        if not kinds.get(int(needed)):
            left_out[name] = f"no {needed.name} row"
        elif name in IMPLIED:
            left_out[name] = IMPLIED[name]
        elif promised is not None and name in SAFE and name not in promised:
            left_out[name] = f"not promised by this stack; --property {name} judges it"
    asked = [name for name in PROPERTIES if name not in left_out]
    return asked or ["integrity"], left_out if asked else {}


def is_moot(verdict: Verdict, inside: Collection[int]) -> bool:
    """Whether a verdict on a group of a composition is about what nobody promises."""
    if verdict.group not in inside:
        return False
    return verdict.property in ORDERS or (verdict.property == "validity" and verdict.status == "unknown")


def summarize(name: str, found: Sequence[tuple[int, Verdict]]) -> Summary:
    own = [(run, verdict) for run, verdict in found if verdict.property == name]
    counts = Counter(verdict.status for _, verdict in own)
    told = [
        Told(run, verdict.group, verdict.domain, verdict.shown, verdict.events)
        for run, verdict in own
        if verdict.shown is not None
    ]
    told.sort(key=lambda one: (one.run, one.domain, one.group))
    totals: dict[str, int] = {status: counts[status] for status in STATUSES}
    return Summary(
        name,
        totals if own else totals | {"unknown": 1},
        sum(verdict.evidence_count for _, verdict in own),
        sum(verdict.violation_count for _, verdict in own),
        told[0] if told else None,
        min((verdict.witness for _, verdict in own if verdict.status == "unknown"), default="" if own else NO_ROWS),
    )


def settled(summaries: list[Summary], left_out: Mapping[str, str], row_count: int, asked: bool) -> Judged:
    """The result; what was not asked for by name and has no evidence is not judged, unless that is all."""
    bare = {} if asked else {one.name: one.reason for one in summaries if is_bare(one)}
    if len(bare) == len(summaries):
        bare = {}
    kept = [one for one in summaries if one.name not in bare]
    together = {**left_out, **bare}
    return Judged(kept, {name: together[name] for name in PROPERTIES if name in together}, row_count)


def is_bare(summary: Summary) -> bool:
    """Whether nothing at all was seen of a property, for no other reason than that there was nothing to see."""
    lacks = (LACKS[summary.name], NOTHING, NO_ROWS)
    return summary.status == "unknown" and not summary.counts["valid"] and summary.reason in lacks


def check_domains(domains: Sequence[Domain], groups: set[int]) -> None:
    """Refuse a domain with a group that the trace does not have: it would be judged as if the group were silent."""
    for domain in domains:
        absent = [group for group in domain.groups if group not in groups]
        if absent and groups:
            known = ", ".join(map(str, sorted(group for group in groups if group != NONE)[:20]))
            found = f"group {absent[0]}, which the trace does not have"
            raise InputError("--domain", domain.name, found, f"groups among {known}")
