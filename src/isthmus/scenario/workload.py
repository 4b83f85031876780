"""Workloads as data: senders, sizes, times and destinations of messages.

Each kind of workload yields, for each of its sites, the times of its messages; the site's own random source decides,
so that the same seed gives the same arrivals under every protocol. A reply workload has no times of its own: it
replies to deliveries; a closed one has the times of its first batch only, and deliveries trigger the next ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

import msgspec

from isthmus.core.message import ALL, SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import DURATION_MAX_MS, PERIOD_MIN_MS, BadValue, check_range, show
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.topology.model import Topology

NS_PER_S = 1_000_000_000
Arrival = tuple[int, int]  # time in ns, payload bytes


PAYLOAD_MAX = LARGEST_BYTES  # each is held in memory
RATE_MIN, RATE_MAX = 1e-9, 1e6  # messages per second: one in 30 years, one per microsecond
TO_GROUPS = ("all", "other", "others")
BURST_MAX = 1_000_000


def span_ms(key: str, value: float, least: float = 0.0) -> None:
    check_range(key, value, least, DURATION_MAX_MS)


def rate(key: str, value: float) -> None:
    check_range(key, value, RATE_MIN, RATE_MAX)


def probability(key: str, value: float) -> None:
    check_range(key, value, 0, 1, "a probability")


class Traffic(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all workloads."""

    group: str = ""  # the sending group; "" for the first
    sites: tuple[str, ...] = ()  # sites or clusters that send; () for all of the group
    to: str | int | tuple[str, ...] = "all"  # "all", names of sites or clusters, or that many drawn at random
    among: tuple[str, ...] = ()  # sites or clusters to draw them from; () for all of the group
    to_groups: str | tuple[str, ...] = ()  # of a composition: names, "all", "other" (one drawn), "others"; (): its own
    payload_bytes: int = 64
    start_ms: float = 0.0
    stop_ms: float | None = None  # None: the end of the scenario
    count: int | None = None  # maximum messages per site

    def __post_init__(self) -> None:
        check_range("payload_bytes", self.payload_bytes, 0, PAYLOAD_MAX, "a whole number")
        span_ms("start_ms", self.start_ms)
        if self.stop_ms is not None and not self.start_ms < self.stop_ms <= DURATION_MAX_MS:
            raise BadValue("stop_ms", repr(self.stop_ms), f"a time after start_ms ({self.start_ms:g})")
        if self.count is not None and self.count < 0:
            raise BadValue("count", show(self.count), "a whole number of at least 0")
        if isinstance(self.to, str) and self.to != "all":
            raise BadValue("to", repr(self.to), '"all", a list of names, or a number of sites drawn at random')
        if isinstance(self.to, int) and self.to < 1:
            raise BadValue("to", show(self.to), "at least 1 site")
        if self.among and not isinstance(self.to, int):
            raise BadValue("among", show(list(self.among)), "nothing, unless `to` is a number of sites")
        if isinstance(self.to_groups, str) and self.to_groups not in TO_GROUPS:
            raise BadValue("to_groups", repr(self.to_groups), f"a list of names, or one of {', '.join(TO_GROUPS)}")
        if self.to_groups and self.to != "all":
            raise BadValue("to", show(self.to), '"all", where to_groups is given')
        if self.to == ():
            raise BadValue("to", "an empty list", 'at least one name, or "all"')
        self.check()

    def check(self) -> None:
        """Reject values that are invalid for this kind of workload."""

    def gaps(self, random: Random) -> Iterator[float]:  # noqa: ARG002
        """Yield the gaps between messages in ns, the first from the start; empty if `arrivals` is overridden."""
        return iter(())

    def senders(self, topology: Topology, members: Targets | None = None) -> Targets:
        """Return the sending sites, out of the members of the group."""
        if members is None:
            members = tuple(SiteId(number) for number in range(len(topology.sites)))
        named = named_sites(topology, self.sites, "sites")
        return tuple(site for site in members if site in named) if named else members

    def largest_bytes(self) -> int:
        """Return the size of the largest message."""
        return self.payload_bytes

    def arrivals(self, random: Random, place: int, places: int) -> Iterator[Arrival]:  # noqa: ARG002
        """Yield the messages of the sender at a place among the workload's senders."""
        now = self.start_ms * NS_PER_MS
        for number, gap in enumerate(self.gaps(random)):
            now += gap
            if number == self.count or (self.stop_ms is not None and now >= self.stop_ms * NS_PER_MS):
                return
            yield round(now), self.payload_bytes

    def candidates(self, topology: Topology, members: Targets) -> Targets:
        """Return the members that destinations are drawn from."""
        if not self.among:
            return members
        named = frozenset(named_sites(topology, self.among, "among"))
        return tuple(site for site in members if site in named)

    def destinations(self, topology: Topology, members: Targets, random: Random) -> Targets:
        """Return the destinations of the next message, in order of site ids."""
        if self.to == "all":
            return ALL
        if isinstance(self.to, int):
            named = self.candidates(topology, members)
            return tuple(sorted(random.sample(named, min(self.to, len(named)))))
        return named_sites(topology, self.to, "to")  # type: ignore[arg-type]


class Periodic(Traffic, frozen=True, kw_only=True, tag="periodic"):
    """One message per period, with jitter (quasi-periodic)."""

    rate_per_s: float
    jitter: float = 0.02  # standard deviation of a gap, as a fraction of the period

    def check(self) -> None:
        rate("rate_per_s", self.rate_per_s)
        check_range("jitter", self.jitter, 0, 1)

    def gaps(self, random: Random) -> Iterator[float]:
        period = NS_PER_S / self.rate_per_s
        yield random.random() * period
        while True:
            yield max(0.0, random.gauss(period, self.jitter * period)) if self.jitter else period


class Poisson(Traffic, frozen=True, kw_only=True, tag="poisson"):
    """Independent messages at a mean rate (a Poisson process)."""

    rate_per_s: float

    def check(self) -> None:
        rate("rate_per_s", self.rate_per_s)

    def gaps(self, random: Random) -> Iterator[float]:
        while True:
            yield random.expovariate(self.rate_per_s) * NS_PER_S


class Burst(Traffic, frozen=True, kw_only=True, tag="burst"):
    """Bursts of messages, repeated, at every sender at the same time."""

    period_ms: float
    burst_count: int  # messages in a burst
    spacing_ms: float = 0.0  # between the messages of one burst
    one_turn: bool = False  # messages due at one instant are submitted in one turn

    def check(self) -> None:
        span_ms("period_ms", self.period_ms, PERIOD_MIN_MS)
        check_range("burst_count", self.burst_count, 1, BURST_MAX, "a whole number")
        span_ms("spacing_ms", self.spacing_ms)
        if self.spacing_ms * (self.burst_count - 1) > self.period_ms:
            raise BadValue("spacing_ms", repr(self.spacing_ms), "a burst that fits in period_ms")

    def gaps(self, random: Random) -> Iterator[float]:  # noqa: ARG002
        rest = self.period_ms - self.spacing_ms * (self.burst_count - 1)
        for number in count():
            first = number % self.burst_count == 0
            yield NS_PER_MS * (0.0 if number == 0 else rest if first else self.spacing_ms)


class Closed(Traffic, frozen=True, kw_only=True, tag="closed"):
    """A closed loop: a batch at the start, and the next once the sender has delivered all its own messages of the last.

    Over a ring this is the worst time to send: the token has just left. In a composition, messages to other groups
    count once they have passed their own. A sender that crashes does not restart the loop.
    """

    burst_count: int  # messages in a batch
    rounds: int  # batches
    inter_share: float = 0.0  # fraction sent to other groups of a composition: half to all, half to one drawn

    def check(self) -> None:
        probability("inter_share", self.inter_share)
        if self.to != "all":
            raise BadValue("to", show(self.to), '"all": a closed loop waits for its own messages')
        if self.to_groups not in ((), "all"):
            raise BadValue("to_groups", show(self.to_groups), '"all", or nothing and an inter_share')
        if self.inter_share and self.to_groups:
            raise BadValue("to_groups", show(self.to_groups), "nothing, where inter_share is given")
        check_range("burst_count", self.burst_count, 1, BURST_MAX, "a whole number")
        check_range("rounds", self.rounds, 1, BURST_MAX, "a whole number")

    def arrivals(self, random: Random, place: int, places: int) -> Iterator[Arrival]:  # noqa: ARG002
        """Yield the first batch; deliveries trigger the later ones."""
        start = round(self.start_ms * NS_PER_MS)
        for _ in range(self.burst_count if self.count is None else min(self.count, self.burst_count)):
            yield start, self.payload_bytes


class OnOff(Traffic, frozen=True, kw_only=True, tag="on-off"):
    """An on-off source: Poisson while on, silent while off; both durations are exponential."""

    rate_per_s: float  # while on
    on_ms: float
    off_ms: float

    def check(self) -> None:
        rate("rate_per_s", self.rate_per_s)
        span_ms("on_ms", self.on_ms, PERIOD_MIN_MS)
        span_ms("off_ms", self.off_ms, PERIOD_MIN_MS)
        if self.on_ms * self.rate_per_s < 1:  # with fewer messages, drawing the next one takes too long
            raise BadValue("on_ms", repr(self.on_ms), "a mean time on that has a message once in a thousand times")

    def gaps(self, random: Random) -> Iterator[float]:
        pause = 0.0
        left = random.expovariate(1 / self.on_ms) * NS_PER_MS
        while True:
            gap = random.expovariate(self.rate_per_s) * NS_PER_S
            while gap > left:  # the period ends first: wait, then draw afresh, as the process is memoryless
                pause += left + random.expovariate(1 / self.off_ms) * NS_PER_MS
                left = random.expovariate(1 / self.on_ms) * NS_PER_MS
                gap = random.expovariate(self.rate_per_s) * NS_PER_S
            left -= gap
            yield pause + gap
            pause = 0.0


class Recorded(Traffic, frozen=True, kw_only=True, tag="recorded"):
    """Recorded messages, with time compressed; senders are assigned to the sites in turn."""

    file: str | None = None  # CSV: columns time and sender; optional: bytes, event, trace
    compression: float = 1.0  # speed-up relative to the recording
    trace: str | None = None  # only rows with this value in column trace
    events: tuple[tuple[float, int, int], ...] = ()  # seconds, sender, bytes; read from the file, or given instead

    def largest_bytes(self) -> int:
        return max([size for _, _, size in self.events], default=0)

    def check(self) -> None:
        check_range("compression", self.compression, 1e-6, 1e9)
        if self.file is None and not self.events:
            raise BadValue("file", "nothing", "the path of a CSV file, or events in its place")
        before = 0.0
        for index, (seconds, sender, size) in enumerate(self.events):
            key = f"events[{index}]"
            check_range(key, seconds, before, DURATION_MAX_MS / 1000, "seconds in order of time,")
            if sender < 0:
                raise BadValue(key, f"sender {sender}", "a sender numbered from 0 on")
            check_range(key, size, 0, PAYLOAD_MAX, "bytes")
            before = seconds

    def arrivals(self, random: Random, place: int, places: int) -> Iterator[Arrival]:  # noqa: ARG002
        sent = 0
        stop_ns = None if self.stop_ms is None else self.stop_ms * NS_PER_MS
        for seconds, sender, size in self.events:
            now = round(self.start_ms * NS_PER_MS + seconds * NS_PER_S / self.compression)
            if sender % places != place:
                continue
            if sent == self.count or (stop_ns is not None and now >= stop_ns):
                return
            sent += 1
            yield now, size


class Reply(Traffic, frozen=True, kw_only=True, tag="reply"):
    """Replies to delivered messages; replies to replies only up to a depth, so that it terminates."""

    probability: float = 1.0
    delay_ms: float = 0.0
    depth: int = 1

    def check(self) -> None:
        probability("probability", self.probability)
        span_ms("delay_ms", self.delay_ms)
        check_range("depth", self.depth, 1, 255, "a whole number")

    def arrivals(self, random: Random, place: int, places: int) -> Iterator[Arrival]:  # noqa: ARG002
        return iter(())


Workload = Periodic | Poisson | Burst | Closed | OnOff | Recorded | Reply


def named_sites(topology: Topology, names: tuple[str, ...], key: str) -> Targets:
    """Return the sites denoted by names of sites and clusters, in order of ids; report unknown names at their key."""
    found: set[SiteId] = set()
    for index, name in enumerate(names):
        try:
            found.update(topology.resolve(name))
        except BadValue as error:
            raise BadValue(f"{key}[{index}]", error.found, error.expected) from None
    return tuple(sorted(found))
