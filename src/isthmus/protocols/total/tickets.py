"""The ticket order: which tickets are known, and which of them nothing can come before any more.

A ticket is (number, issuer): tickets are ordered by number, and by issuer where numbers are equal. Each issuer's
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
from heapq import heappop, heappush

from isthmus.core.message import SiteId

Place = tuple[int, SiteId]  # number, issuer: a position in the order
Held = tuple[int, SiteId, SiteId, int]  # number, issuer, sender, index of the sender's entry
NEVER: Place = (2**63, SiteId(2**31))  # behind every ticket


class TicketOrder:
    """The tickets of one view at one site."""

    __slots__ = (
        *(
            "active",
            "clock",
            "delivered",
            "heap",
            "highest",
            "horizon",
            "known",
            "last",
            "site",
            "under_way",
            "waiting",
        ),
    )

    def __init__(self, site: SiteId, members: Iterable[SiteId], active: Iterable[SiteId], clock: int) -> None:
        self.site = site
        self.active = set(active)  # who issues tickets
        self.clock = clock  # the highest number issued or promised here, or heard of
        self.last = dict.fromkeys(members, 0)  # promises
        self.known = dict.fromkeys(members, 0)  # the highest entry of each sender with a known ticket
        self.delivered = dict.fromkeys(members, 0)  # the last entry of each sender that was delivered
        self.heap: list[Held] = []
        self.waiting: set[tuple[SiteId, int]] = set()  # the entries in the heap
        self.under_way: deque[int] = deque()  # own tickets that have not come back
        self.horizon: Place | None = None  # None: to be worked out

    def issue(self, sender: SiteId, index: int, reading: int) -> int:
        """A ticket for an entry, by a ticket clock's reading; strictly higher than any before."""
        self.clock = max(self.clock + 1, reading)
        self.known[sender] = index
        self.under_way.append(self.clock)
        if len(self.under_way) == 1:
            self.horizon = None
        return self.clock

    def promise(self, issuer: SiteId, number: int) -> None:
        """Note that an issuer's later tickets are higher than a number."""
        self.clock = max(self.clock, number)
        if number > self.last[issuer]:
            self.last[issuer] = number
            if self.horizon is not None and self.horizon[1] == issuer:
                self.horizon = None

    def returned(self) -> None:
        """The oldest own ticket under way has come back."""
        self.under_way.popleft()
        self.horizon = None

    def add(self, number: int, issuer: SiteId, sender: SiteId, index: int) -> None:
        """Take a ticket of an entry that is not delivered yet; a second ticket for it changes nothing."""
        if index <= self.delivered[sender] or (sender, index) in self.waiting:
            return
        self.waiting.add((sender, index))
        heappush(self.heap, (number, issuer, sender, index))
        self.known[sender] = max(self.known[sender], index)

    def head(self) -> Held | None:
        """The next ticket, where it is stable."""
        if not self.heap:
            return None
        if self.horizon is None:
            self.horizon = self.work_out_horizon()
        first = self.heap[0]
        return first if (first[0], first[1]) < self.horizon else None

    def work_out_horizon(self) -> Place:
        """The least place that a ticket still to come can have."""
        places = [(self.last[issuer] + 1, issuer) for issuer in self.active if issuer != self.site]
        if self.under_way:
            places.append((self.under_way[0], self.site))
        return min(places, default=NEVER)

    def pop(self) -> Held:
        """Take the first ticket out, stable or not."""
        held = heappop(self.heap)
        self.waiting.discard((held[2], held[3]))
        return held

    def admit(self, issuer: SiteId, number: int) -> None:
        """From the ticket with this number on, a member issues tickets, all of them higher."""
        self.active.add(issuer)
        self.last[issuer] = max(self.last[issuer], number)
        self.horizon = None

    def dismiss(self, issuer: SiteId) -> None:
        """A member issues no more tickets."""
        self.active.discard(issuer)
        self.horizon = None
