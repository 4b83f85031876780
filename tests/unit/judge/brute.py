"""Checkers that try everything, for comparison with the oracle and with Spark: slow, and short enough to read."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from isthmus.core.layer import Kind
from isthmus.trace.domain import Domain
from isthmus.trace.schema import DESTINATIONS, GROUP, KIND, LOCAL, ORIGIN, PAYLOAD, PROCESS, SENDER, Row

DELIVER, SUBMIT = Kind.DELIVER, Kind.SUBMIT


def name(row: Row) -> tuple[int, int, int]:
    return row[ORIGIN:GROUP]


def is_home(row: Row) -> bool:
    """Whether a SUBMIT row is the submission of its message."""
    return row[KIND] == SUBMIT and row[PROCESS] == row[SENDER] and row[ORIGIN] == row[GROUP]


def in_domain(rows: list[Row], domain: Domain) -> list[Row]:
    """The submits and deliveries that a domain is about."""
    inside = [row for row in rows if row[GROUP] in domain.groups and (row[KIND] == DELIVER or is_home(row))]
    crossing = {name(row) for row in inside if row[KIND] == DELIVER and row[GROUP] != row[ORIGIN]}
    return [row for row in inside if domain.scope == "all" or name(row) in crossing]


def first_deliveries(rows: list[Row]) -> dict[int, list[tuple[int, int, int]]]:
    """What each process delivered, each message where it came first."""
    own: dict[int, dict[tuple[int, int, int], None]] = {}
    for row in sorted((row for row in rows if row[KIND] == DELIVER), key=lambda row: row[LOCAL]):
        own.setdefault(row[PROCESS], {}).setdefault(name(row))
    return {process: list(order) for process, order in own.items()}


def broken_in(domain: Domain, rows: list[Row]) -> set[str]:
    """The properties that a run without recoveries breaks in a domain."""
    kept = in_domain(rows, domain)
    submits = {name(row): row for row in reversed(rows) if is_home(row)}
    given = [row for row in kept if row[KIND] == DELIVER]
    orders = first_deliveries(kept)
    down = {row[PROCESS] for row in rows if row[KIND] == Kind.CRASH}
    altered = any(name(row) not in submits or submits[name(row)][PAYLOAD] != row[PAYLOAD] for row in given)
    again = sum(row[KIND] == SUBMIT for row in kept) > len({name(row) for row in kept if row[KIND] == SUBMIT})
    found = {"integrity"} if altered or again or sum(map(len, orders.values())) < len(given) else set()
    for order in orders.values():
        if any(a[:2] == b[:2] and a[2] > b[2] for place, a in enumerate(order) for b in order[place:]):
            found.add("fifo")
    past = pasts(kept, submits)
    for order in orders.values():
        if any(later in past.get(one, ()) for place, one in enumerate(order) for later in order[place + 1 :]):
            found.add("causal")
    if cyclic([order for process, order in orders.items() if process not in down]):
        found.add("total")
    return found | ({"uniform-total"} if cyclic(list(orders.values())) else set())


def cyclic(orders: list[list[tuple[int, int, int]]]) -> bool:
    """Whether the union of some orders has a cycle."""
    sorter: TopologicalSorter[tuple[int, int, int]] = TopologicalSorter()
    for order in orders:
        for before, after in pairwise(order):
            sorter.add(after, before)
    try:
        sorter.prepare()
    except CycleError:
        return True
    return False


def pasts(rows: list[Row], submits: dict[tuple[int, int, int], Row]) -> dict[tuple[int, int, int], set]:
    """What happened before each message that is submitted among the rows: walk every process until nothing is added."""
    by_process: dict[int, list[Row]] = {}
    for row in sorted((row for row in rows if row[KIND] in (SUBMIT, DELIVER)), key=lambda row: row[LOCAL]):
        by_process.setdefault(row[PROCESS], []).append(row)
    here = {name(row) for row in rows if row[KIND] == SUBMIT}
    past: dict[tuple[int, int, int], set] = {message: set() for message in submits if message in here}
    size = -1
    while size != sum(map(len, past.values())):
        size = sum(map(len, past.values()))
        for own in by_process.values():
            seen: set = set()
            for row in own:
                if submits.get(name(row)) is row:
                    past[name(row)] |= seen
                if name(row) in submits:
                    seen |= {name(row)} | past.get(name(row), set())
    return past


def breaks_causality(rows: list[Row]) -> bool:
    """Whether, in a static group, a process delivers a message before, or without, one of its past addressed to it."""
    submits = {name(row): row for row in reversed(rows) if is_home(row)}
    down = {row[PROCESS] for row in rows if row[KIND] == Kind.CRASH}
    orders = first_deliveries(rows)
    past = pasts(rows, submits)
    for process, order in orders.items():
        for place, message in enumerate(order):
            for earlier in past.get(message, set()) - {message} - set(order[:place]):
                to = submits[earlier][DESTINATIONS]
                if to is not None and process not in to and earlier not in order:
                    continue
                survives = any(earlier in other for p, other in orders.items() if p not in down)
                if earlier in order or earlier[1] not in down or survives:
                    return True
    return False
