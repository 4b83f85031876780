"""Undelivered entries of the hybrid order, by sender and index: arithmetic over plain dicts."""

from __future__ import annotations

from collections import defaultdict, deque

from isthmus.core.message import Cast, SiteId
from isthmus.protocols.total.hybrid.tickets import NEVER, TicketOrder
from isthmus.protocols.total.hybrid.wire import RANGE_MAX, ReassignEntries, RolePlan, RoleRequest

Entry = tuple[
    Cast | RoleRequest | RolePlan | None, SiteId, int
]  # what it is (None: not for us), its sequencer, in which term
Entries = dict[tuple[SiteId, int], Entry]


def named_from(entries: Entries, sender: SiteId, index: int, site: SiteId, term: int) -> int:
    """Count the entries of a sender from an index on that name a sequencer in a term, at most RANGE_MAX."""
    count = 0
    while (
        count < RANGE_MAX
        and (entry := entries.get((sender, index + count))) is not None
        and entry[1] == site
        and entry[2] == term
    ):
        count += 1
    return count


def take_casts(entries: Entries, sender: SiteId, index: int, count: int) -> list[Cast]:
    """Remove up to `count` messages of a sender from an index on, up to a missing entry or one that is no message."""
    casts: list[Cast] = []
    for place in range(index, index + count):
        entry = entries.pop((sender, place), None)
        if entry is None or not isinstance(entry[0], Cast):
            if entry is not None:
                entries[sender, place] = entry
            break
        casts.append(entry[0])
    return casts


def rename(entries: Entries, source: SiteId, reassign: ReassignEntries) -> None:
    """Replace the sequencer of a member's entries."""
    for (sender, index), (body, _, _) in entries.items():  # a peer may name a range as wide as it likes
        if sender == source and reassign.after < index <= reassign.upto:
            entries[sender, index] = (body, reassign.sequencer, reassign.role_number)


def closing_order(order: TicketOrder, entries: Entries) -> list[tuple[int, SiteId, int]]:
    """Return number, sender and index of the ticketed entries, in order, each after its sender's earlier ones.

    A ticket may have died with two processes, and the next one for the same sender not: hence the earlier ones. It
    empties the order.
    """
    left: dict[SiteId, deque[int]] = defaultdict(deque)  # what is here; a peer may name an index far beyond
    for sender, index in sorted(entries):
        left[sender].append(index)
    found = []
    while order.heap:
        held = order.first_below(NEVER)
        assert held is not None
        number, _, sender, index, count = held
        order.pop(count)
        while left[sender] and left[sender][0] < index + count:
            found.append((number, sender, left[sender].popleft()))
    return found
