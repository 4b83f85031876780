"""The ticket order: the known tickets, and which of them are stable.

A ticket is (number, issuer): tickets are ordered by number, and by issuer where numbers are equal. They come in ranges:
consecutive numbers of one issuer for consecutive entries of one sender. Each issuer's
numbers only grow, and with every packet it promises that what it issues later is higher than a number it names. So
the next ticket of issuer j is at least (promise of j + 1, j), and a ticket below that for every active j is *stable*:
no ticket that is still to come goes before it.

Invariants:
- own tickets count from when they come back from the transport; those still under way bound the order like a promise;
- `clock` is at least every promise received, so a ticket issued here goes behind all that is known here;
- the tickets below the horizon are the same, in the same order, at every member that has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace

from isthmus.core.message import SiteId

Place = tuple[int, SiteId]  # number, issuer: a position in the order
Held = tuple[int, SiteId, SiteId, int, int]  # first number, issuer, sender, first index of its entries, how many
NEVER: Place = (2**63, SiteId(2**31))  # behind every ticket


class TicketOrder:
    """The tickets of one view at one site."""

    __slots__ = (
        "active",
        "clock",
        "delivered",
        "heap",
        "horizon",
        "known",
        "last",
        "passed",
        "site",
        "under_way",
        "waiting",
    )

    def __init__(self, site: SiteId, members: Iterable[SiteId], active: Iterable[SiteId], clock: int) -> None:
        self.site = site
        self.active = set(active)  # the issuers
        self.clock = clock  # the highest number issued or promised here, or heard of
        self.last = dict.fromkeys(members, 0)  # promises
        self.known = dict.fromkeys(members, 0)  # the highest entry of each sender with a known ticket
        self.delivered = dict.fromkeys(members, 0)  # the last entry of each sender that was delivered
        self.passed = 0  # how many entries were taken out, the same at every member at the same entry
        self.heap: list[Held] = []
        self.waiting: set[tuple[SiteId, int]] = set()  # the entries in the heap
        self.under_way: deque[int] = deque()  # first numbers of own ranges that have not come back
        self.horizon: Place | None = None  # None: to be computed

    def issue(self, sender: SiteId, index: int, reading: int, count: int = 1) -> int:
        """The first number of tickets for entries from an index on, by a ticket clock's reading; higher than any."""
        first = max(self.clock + 1, reading)
        self.clock = first + count - 1
        self.known[sender] = index + count - 1
        self.under_way.append(first)
        if len(self.under_way) == 1:
            self.horizon = None
        return first

    def next_place(self, count: int = 1) -> int:
        """Return the place of the next entry in the order of the view, and count entries as passed."""
        self.passed += count
        return self.passed - count + 1

    def promise(self, issuer: SiteId, number: int) -> None:
        """Note a promise: later tickets of an issuer are higher than a number."""
        self.clock = max(self.clock, number)
        if number > self.last[issuer]:
            self.last[issuer] = number
            if self.horizon is not None and self.horizon[1] == issuer:
                self.horizon = None

    def returned(self) -> None:
        """Note that the oldest own range under way has come back."""
        self.under_way.popleft()
        self.horizon = None

    def add(self, number: int, issuer: SiteId, sender: SiteId, index: int, count: int = 1) -> None:
        """Add tickets of undelivered entries; a second ticket for an entry changes nothing."""
        if count == 1:
            if index <= self.delivered[sender] or (sender, index) in self.waiting:
                return
            self.waiting.add((sender, index))
        else:
            entries = [(sender, one) for one in range(index, index + count)]
            if index <= self.delivered[sender] or not self.waiting.isdisjoint(entries):  # some have tickets already
                for offset in range(count):
                    self.add(number + offset, issuer, sender, index + offset)
                return
            self.waiting.update(entries)
        heappush(self.heap, (number, issuer, sender, index, count))
        self.known[sender] = max(self.known[sender], index + count - 1)

    def head(self) -> Held | None:
        """Return the stable tickets at the head of the order."""
        if not self.heap:
            return None
        if self.horizon is None:
            self.horizon = self.least_to_come()
        return self.first_below(self.horizon)

    def first_below(self, bound: Place) -> Held | None:
        """Return the tickets at the head of the order that are below a bound and before the next range."""
        first = self.heap[0]
        if (first[0], first[1]) >= bound:
            return None
        if first[4] == 1:
            return first
        for nearest in self.heap[1:3]:  # the next range is one of the two below the root
            bound = min(bound, nearest[:2])
        return (*first[:4], min(first[4], bound[0] - first[0] + (first[1] < bound[1])))

    def least_to_come(self) -> Place:
        """Return the least place of a ticket that is still to come."""
        others = min([(self.last[issuer] + 1, issuer) for issuer in self.active if issuer != self.site], default=NEVER)
        return min(others, (self.under_way[0], self.site)) if self.under_way else others

    def pop(self, count: int = 1) -> None:
        """Remove tickets from the first range, stable or not."""
        number, issuer, sender, index, length = self.heap[0]
        if count == length:
            heappop(self.heap)
        else:
            heapreplace(self.heap, (number + count, issuer, sender, index + count, length - count))
        if count == 1:
            self.waiting.discard((sender, index))
        else:
            self.waiting.difference_update([(sender, one) for one in range(index, index + count)])

    def admit(self, issuer: SiteId, number: int) -> None:
        """Add an issuer, whose tickets are all higher than a number."""
        self.active.add(issuer)
        self.last[issuer] = max(self.last[issuer], number)
        self.horizon = None

    def dismiss(self, issuer: SiteId) -> None:
        """Remove an issuer."""
        self.active.discard(issuer)
        self.horizon = None
