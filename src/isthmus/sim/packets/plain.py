"""The packet network's events in plain Python: the reference implementation of the compiled engine.

One event per hop. A packet that enters a link starts to leave when the link is free, max(now, free); it has left after
its size over the rate, and arrives at the far end one propagation time later. Nothing else affects it on that link, so
its arrival is known on entry. Links are FIFO: of all packets on one, only the first can be next, and the heap
holds links, not packets. The order is that of a heap of packets: by time of arrival, then by the order in which they
entered their links.

The load of a link is measured without sampling: the mean number of packets over time is the sum of their stays,
known on entry, over the span (Little's law).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple, Protocol

from isthmus.sim.packets.ways import NOBODY, Roots, Ways

Packet = tuple[
    int, int, int, int, int, bool
]  # arrival in ns, order of entry, message, step, bytes, last of its message
Hop = tuple[int, int, int, int]  # time in ns, node, message, packets left on the link


class CompletedMessage(NamedTuple):
    """A message that has fully arrived at an end point."""

    time_ns: int
    node: int
    message: int


class Engine(Protocol):
    """An engine carries packets over links; both engines give the same arrivals, order of arrivals and figures.

    All fragments of a message but the last have the same size.
    """

    @property
    def hop_count(self) -> int: ...  # packets that reached the end of a link
    @property
    def load_ns(self) -> int: ...  # the sum of all stays on links
    @property
    def load_max(self) -> int: ...  # maximum packets on one link: queued, leaving and in flight
    @property
    def last_ns(self) -> int: ...  # of the last hop
    def start(self, now_ns: int, roots: Roots, message: int, sizes: Sequence[int]) -> None: ...
    def next_ns(self) -> int | None: ...
    def advance(self, limit_ns: int) -> CompletedMessage | None: ...  # before the limit; None: no message arrived
    def take_hops(self) -> list[Hop]: ...  # since the last call, if enabled


class PlainEngine:
    """Queues as deques, and a heap of links."""

    __slots__ = (
        "dropped_count", "drops", "free_ns", "heap", "hop_count", "hops", "last_ns", "load_max", "load_ns", "lost",
        "order", "queue_max", "queues", "wants_hops", "ways",
    )  # fmt: skip

    def __init__(self, ways: Ways, wants_hops: bool = False, queue_max: int | None = None) -> None:
        links = ways.wiring.links
        self.queue_max = queue_max  # packets on one link
        self.dropped_count = 0
        self.drops: list[tuple[int, int]] = []  # message and step where it was cut off
        self.lost: dict[int, int] = {}  # by step: the message that lost a packet there, until its last packet
        self.ways = ways
        self.queues: list[deque[Packet]] = [deque() for _ in range(links)]
        self.free_ns = [0] * links  # by link: when it has sent all packets queued for it
        self.heap: list[tuple[int, int, int]] = []  # arrival and order of the first packet on a link, the link
        self.order = 0  # of the last packet that entered a link
        self.hop_count = self.load_ns = self.load_max = self.last_ns = 0
        self.wants_hops = wants_hops
        self.hops: list[Hop] = []

    def start(self, now_ns: int, roots: Roots, message: int, sizes: Sequence[int]) -> None:
        """Send a message: fragment by fragment over all branches that leave the source."""
        first, count = roots
        for place, size in enumerate(sizes, start=1):
            for step in range(first, first + count):
                self.enter(now_ns, step, message, size, place == len(sizes))

    def enter(self, now_ns: int, step: int, message: int, size: int, last: bool) -> None:
        link, wiring = self.ways.link[step], self.ways.wiring
        if self.queue_max is not None and (len(self.queues[link]) >= self.queue_max or self.lost.get(step) == message):
            self.drop(step, message, last)
            return
        free_ns = self.free_ns[link]
        leaving_ns = free_ns if free_ns > now_ns else now_ns
        self.free_ns[link] = gone_ns = leaving_ns + (size * wiring.ps_per_byte[link] + 500) // 1000
        due_ns = gone_ns + wiring.propagation_ns[link]
        self.load_ns += due_ns - now_ns
        self.order += 1
        queue = self.queues[link]
        if not queue:
            heappush(self.heap, (due_ns, self.order, link))
        queue.append((due_ns, self.order, message, step, size, last))
        if len(queue) > self.load_max:
            self.load_max = len(queue)

    def drop(self, step: int, message: int, last: bool) -> None:
        """Drop a packet and the rest of its message on this path, as it could not be reassembled.

        On one step the packets of a message are adjacent, as all come from the same previous step.
        """
        self.dropped_count += 1
        if self.lost.get(step) != message:
            self.drops.append((message, step))
        if last:
            self.lost.pop(step, None)
        else:
            self.lost[step] = message

    def take_drops(self) -> list[tuple[int, int]]:
        taken, self.drops = self.drops, []
        return taken

    def next_ns(self) -> int | None:
        return self.heap[0][0] if self.heap else None

    def advance(self, limit_ns: int) -> CompletedMessage | None:
        heap, ways = self.heap, self.ways
        while heap and heap[0][0] < limit_ns:
            link = heap[0][2]
            queue = self.queues[link]
            now_ns, _, message, step, size, last = queue.popleft()
            if queue:
                heapreplace(heap, (queue[0][0], queue[0][1], link))
            else:
                heappop(heap)
            self.hop_count += 1
            self.last_ns = now_ns
            if self.wants_hops:
                self.hops.append((now_ns, ways.wiring.heads[link], message, len(queue)))
            first = ways.first_branch[step]
            for branch in range(first, first + ways.branch_count[step]):
                self.enter(now_ns, branch, message, size, last)
            if last and ways.deliver_to[step] != NOBODY:
                return CompletedMessage(now_ns, ways.deliver_to[step], message)
        return None

    def take_hops(self) -> list[Hop]:
        taken, self.hops = self.hops, []
        return taken
