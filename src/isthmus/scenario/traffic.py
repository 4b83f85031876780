"""The applications of one site: submit its share of a scenario's workloads, and read at the configured speed.

Both hosts use it, each with its own way to schedule actions; the same random sources decide times and destinations, so
that one scenario means the same traffic on both. A site that is down sends nothing, but its sources advance: what a
later incarnation sends does not depend on the length of the outage.

Varied payloads are a function of the message's identity, and are checked at every delivery: a protocol that mixes up
messages is detected whatever it mixes up. Messages that a burst submits in one turn are passed down as a list.

A closed loop is driven by deliveries: a sender's delivery of its own message counts for the first loop that waits.

Bounds: one arrival, or one burst, is scheduled per workload; unread messages are bounded by flow control; replies wait
at most the scenario's delay, one per delivered message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from random import Random

from isthmus.core.errors import Busy, LocalError
from isthmus.core.layer import Finality
from isthmus.core.message import ALL, ONLY_GROUP, Cast, GroupId, SiteId, Targets
from isthmus.core.port import Port
from isthmus.core.units import NS_PER_MS
from isthmus.protocols.application import Application
from isthmus.protocols.routing.process import ComposedProcess
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.scenario.composition.check import addressed, routes_of
from isthmus.scenario.model import GroupOfRun, Scenario
from isthmus.scenario.workload import Arrival, Burst, Closed, Poisson, Reply, Workload, named_sites

ALL_THEN_ONE = tuple(Poisson(rate_per_s=1, to_groups=to) for to in ("all", "other"))  # destinations of a closed loop
FRESH = 0  # depth of a message that is not a reply; the first byte of a payload

At = Callable[[int, GroupId, Callable[[], None]], None]  # schedule an action in a group, in ns from the start


class MessageSource:
    """One workload at this site."""

    __slots__ = (
        "arrivals", "beyond", "group", "members", "mixed", "one_turn", "open", "random", "rounds", "to_groups",
        "turn_max", "workload",
    )  # fmt: skip

    def __init__(self, workload: Workload, group: GroupOfRun, random: Random, arrivals: Iterator[Arrival]) -> None:
        self.workload = workload
        self.group = group.id
        self.members: Targets = group.processes
        self.to_groups: list[tuple[GroupId, ...]] = []  # one is drawn per message; empty: its own group
        self.mixed: list[tuple[GroupId, ...]] = []  # of a closed loop, for other groups: all, then each
        self.random = random
        self.arrivals = arrivals
        self.one_turn = isinstance(workload, Closed) or (isinstance(workload, Burst) and workload.one_turn)
        self.turn_max = group.stack.credit.queue_max  # maximum messages per list
        self.beyond: Arrival | None = None  # the first arrival after a turn
        self.rounds = workload.rounds - 1 if isinstance(workload, Closed) else 0  # remaining batches of a closed loop
        self.open = 0  # messages of the last batch of a closed loop not yet delivered by their sender

    def take(self) -> list[Arrival]:
        """Return the next arrival, or all arrivals of one instant if they share a turn."""
        first, self.beyond = self.beyond or next(self.arrivals, None), None
        if first is None or not self.one_turn:
            return [] if first is None else [first]
        taken = [first]
        while (following := next(self.arrivals, None)) is not None and following[0] == first[0]:
            taken.append(following)
        self.beyond = following
        return taken


class Mailbox:
    """The application of one incarnation of the site in one group, with its unread messages."""

    __slots__ = ("application", "unread")

    def __init__(self, application: Application) -> None:
        self.application = application
        self.unread: deque[Cast] = deque()


class SiteTraffic:
    """The applications of one site, across its incarnations; `at` and `now_ns` count from the start of the run."""

    def __init__(
        self,
        scenario: Scenario,
        site: SiteId,
        at: At,
        now_ns: Callable[[], int],
        groups: Sequence[GroupOfRun] | None = None,
    ) -> None:
        self.topology = scenario.topology
        self.site = site
        self.at = at
        self.now_ns = now_ns
        self.end_ns = round(scenario.duration_ms * NS_PER_MS)
        self.varied = scenario.payloads == "varied"
        self.mailboxes: dict[GroupId, Mailbox] = {}  # empty while the site is down
        self.carries = site in scenario.couriers()  # a router: no application reads here
        self.sent_to = [0] * len(self.topology.sites)  # messages addressed to each site
        self.submitted_count = self.refused_count = 0
        self.pending_count = 0  # messages scheduled but not yet submitted
        self.consume_ns = 0  # time per message of a slow application; 0: it reads at once
        for reader in scenario.readers:
            if site in named_sites(self.topology, reader.sites, "sites"):
                self.consume_ns = round(reader.consume_ms * NS_PER_MS)
        self.sources: list[MessageSource] = []
        self.replies: list[MessageSource] = []
        given = scenario.groups_of_run() if groups is None else groups
        for index, workload in enumerate(scenario.workloads):
            group = next(group for group in given if workload.group in ("", group.name))
            senders = workload.senders(self.topology, group.processes)
            if site in senders:
                random = scenario.random("workload", index, site)
                arrivals = workload.arrivals(random, senders.index(site), len(senders))
                kind = self.replies if isinstance(workload, Reply) else self.sources
                source = MessageSource(workload, group, random, arrivals)
                if scenario.composition is not None:
                    routes = routes_of(scenario.composition, self.topology)
                    if workload.to_groups:
                        source.to_groups = sets_of(routes, workload, group.id)
                    if isinstance(workload, Closed) and workload.inter_share:
                        source.mixed = [to for one in ALL_THEN_ONE for to in sets_of(routes, one, group.id)]
                kind.append(source)

    def boot(self, group: GroupId = ONLY_GROUP) -> Application:
        """Return the application of a new incarnation of the site in a group."""
        replies = [source for source in self.replies if source.group == group]
        closed = [source for source in self.sources if source.group == group and isinstance(source.workload, Closed)]

        def deliver(cast: Cast, _finality: Finality) -> None:
            self.deliver(mailbox, replies, cast)
            if closed and cast.sender == self.site:
                self.close_loop(closed)

        plain = not (replies or closed or self.varied or self.consume_ns)
        on_deliver = None if plain else deliver
        mailbox = Mailbox(Application(on_deliver=on_deliver, auto_consume=not self.consume_ns, wants=(Finality.FINAL,)))
        self.mailboxes[group] = mailbox
        return mailbox.application

    @property
    def delivered_count(self) -> int:
        """Count the messages delivered to the applications of this incarnation."""
        return sum(mailbox.application.delivered_count for mailbox in self.mailboxes.values())

    def crash(self) -> None:
        """Drop the applications, with their unread messages."""
        self.mailboxes = {}

    def start(self) -> None:
        for source in self.sources:
            self.schedule(source)

    def done(self) -> bool:
        """Return whether this site will submit nothing more, except replies to future deliveries."""
        return self.pending_count == 0 and self.now_ns() >= self.end_ns

    def schedule(self, source: MessageSource) -> None:
        arrivals = source.take()
        if arrivals and arrivals[0][0] < self.end_ns:
            self.pending_count += len(arrivals)
            self.at(arrivals[0][0], source.group, lambda: self.arrive(source, arrivals))

    def arrive(self, source: MessageSource, arrivals: list[Arrival]) -> None:
        mailbox = self.mailboxes.get(source.group)
        elsewhere = source.to_groups or source.mixed
        source.open = len(arrivals)  # set before the first submit: a host may deliver a message at once
        if source.mixed and mailbox is not None:
            mailbox.application.stack.find(ComposedProcess).on_passed = partial(self.close_loop, [source])
        if len(arrivals) > 1 and source.workload.to == "all" and not elsewhere and mailbox is not None:
            self.submit_turn(source, mailbox, [size for _, size in arrivals])
        else:
            for _, size in arrivals:
                self.submit(source, FRESH, size)
        self.schedule(source)

    def submit_turn(self, source: MessageSource, mailbox: Mailbox, sizes: list[int]) -> None:
        """Submit the messages of one turn as lists that fit the send queue; singly once the stack accepts no more."""
        application, part = mailbox.application, source.turn_max
        while sizes and application.writable():
            casts = [application.prepare(payload(FRESH, size, self.mark(mailbox, size))) for size in sizes[:part]]
            sizes = sizes[part:]
            self.pending_count -= len(casts)
            application.submit_all(casts)
            self.note_submitted(source, len(casts))
        for size in sizes:
            self.submit(source, FRESH, size)

    def submit(self, source: MessageSource, depth: int, size: int) -> None:
        self.pending_count -= 1
        destinations = source.workload.destinations(self.topology, source.members, source.random)
        mailbox = self.mailboxes.get(source.group)
        if mailbox is None:
            return
        to = groups_of_next(source)
        content = payload(depth, size, self.mark(mailbox, size, whole=to not in ((), (source.group,))))
        try:
            if to:
                destinations = mailbox.application.multicast(content, to).destinations
            else:
                mailbox.application.cast(content, destinations)
        except Busy:  # traced as refused; an open-loop source does not wait
            self.refused_count += 1
            source.open -= 1
            return
        self.note_submitted(source, 1, destinations)

    def close_loop(self, closed: list[MessageSource]) -> None:
        """Count a message that returned to its sender; after the last of a batch, schedule the next one."""
        source = next((source for source in closed if source.open), None)
        if source is None:
            return
        source.open -= 1
        if not source.open and source.rounds and self.now_ns() < self.end_ns:
            source.rounds -= 1
            source.arrivals = source.workload.arrivals(source.random, 0, 1)
            batch = [(self.now_ns(), size) for _, size in source.take()]
            self.pending_count += len(batch)
            self.at(self.now_ns(), source.group, lambda: self.arrive(source, batch))

    def note_submitted(self, source: MessageSource, count: int, destinations: Targets = ALL) -> None:
        self.submitted_count += count
        for site in destinations or source.members:
            self.sent_to[site] += count

    def mark(self, mailbox: Mailbox, size: int, whole: bool = False) -> int:
        """Return the mark that makes the site's next payload unique; used where payloads are varied."""
        port = mailbox.application.host
        assert isinstance(port, Port)
        numbers = 1 if whole else mailbox.application.fragments.count_of(size)
        return mark_of(self.site, port.number + numbers) if self.varied else 0

    def deliver(self, mailbox: Mailbox, replies: list[MessageSource], cast: Cast) -> None:
        if self.varied:
            check_payload(cast)
        if self.consume_ns:
            self.read(mailbox, cast)
        for source in replies:
            self.consider(source, cast)

    def consider(self, source: MessageSource, cast: Cast) -> None:
        """Reply to a message, with the configured probability and up to the maximum depth."""
        reply, now = source.workload, self.now_ns()
        assert isinstance(reply, Reply)
        depth = cast.payload[0] if cast.payload else FRESH
        if depth < reply.depth and now < self.end_ns and source.random.random() < reply.probability:
            self.pending_count += 1
            size, at_ns = max(1, reply.payload_bytes), now + round(reply.delay_ms * NS_PER_MS)
            self.at(at_ns, source.group, lambda: self.submit(source, depth + 1, size))

    def read(self, mailbox: Mailbox, cast: Cast) -> None:
        """Queue a message for reading; start if the application is idle."""
        mailbox.unread.append(cast)
        if len(mailbox.unread) == 1:
            self.read_on(mailbox)

    def read_on(self, mailbox: Mailbox) -> None:
        group = mailbox.application.host.group
        self.at(self.now_ns() + self.consume_ns, group, lambda: self.consume(mailbox))

    def consume(self, mailbox: Mailbox) -> None:
        if self.mailboxes.get(mailbox.application.host.group) is mailbox:  # the incarnation is unchanged
            mailbox.application.consumed(mailbox.unread.popleft())
            if mailbox.unread:
                self.read_on(mailbox)


def sets_of(routes: CompositionRoutes, workload: Workload, group: GroupId) -> list[tuple[GroupId, ...]]:
    """Return the sets of groups that messages of a workload may go to."""
    return [tuple(map(GroupId, to)) for to in addressed(routes, workload, group)]


def groups_of_next(source: MessageSource) -> tuple[GroupId, ...]:
    """Return the destination groups of a source's next message; empty: its own group only."""
    draw, workload = source.random, source.workload
    if source.mixed and isinstance(workload, Closed):
        if draw.random() >= workload.inter_share:
            return ()
        return source.mixed[0] if draw.random() < 0.5 else draw.choice(source.mixed[1:])
    if len(source.to_groups) > 1:
        return draw.choice(source.to_groups)
    return source.to_groups[0] if source.to_groups else ()


def payload(depth: int, size: int, mark: int = 0) -> bytes:
    """Return a payload of the given size that holds a depth and, if given, a mark."""
    if not mark or not size:
        return plain_payload(depth, size)
    filled: bytes = (bytes([depth]) + mark.to_bytes(8, "little") * (size // 8 + 1))[:size]
    return filled


@cache
def plain_payload(depth: int, size: int) -> bytes:
    """Return the payload of a depth and a size without a mark."""
    return bytes([depth]) + bytes(size - 1) if size > 0 else b""


def mark_of(sender: SiteId, number: int) -> int:
    """Return the mark of a message; even its low bytes differ between messages."""
    return sender + 1 + 997 * (number & 0xFFFFFFFF)


def check_payload(cast: Cast) -> None:
    """Reject a payload that does not match the identity of its message."""
    _, sender, number = cast.identity(ONLY_GROUP)
    depth = cast.payload[0] if cast.payload else FRESH
    if cast.payload != payload(depth, len(cast.payload), mark_of(sender, number)):
        raise LocalError(f"message {sender}:{number} came with the payload of another")
