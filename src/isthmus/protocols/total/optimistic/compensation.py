"""When to deliver tentatively: the delay rules of optimistic total order, as arithmetic without a layer.

Problem: a follower p sees message m when its DATA arrives and learns m's place when its ticket arrives. In between, it
guesses the order. By arrival alone the guess is poor: a message of q reaches p earlier or later, against the others,
than it reaches the sequencer. Idea: delay each sender's messages by a span of its own, so that at p they follow each
other as they do at the sequencer. Tickets tell p how they did: those leave the sequencer at the moment of numbering,
and what the way to p adds is the same for all.

The time from a message's arrival to its ticket's, x = ticket - arrival, is what the rules estimate or correct. If all
senders had the same x here, arrival order would be ticket order. Only differences matter, so the sequencer's own
messages, which have x = 0 at every follower, must be held back by the sequencer itself, at the followers' request.

- *none*: no delay, the spontaneous order.
- *compensation* (the paper's): each two consecutive final messages m', m give delta = (t - t') - (o - o'), with t the
  arrival of the ticket and o the scheduled tentative time. Where it is above 0, m should have come later: lower the
  delay of m' by (1 - alpha) delta, and what is left below 0 goes to m; otherwise with m and m' exchanged.
- *open-loop*: x[q] is estimated as a mean; the delay is x[q] - W, with W the least x, which is the window.
- *stamped*: a sender writes its clock's time into the message; the ticket's arrival less that stamp is estimated
  instead. The random part of the delay to p then no longer matters. Stamps are of the monotonic clock, so they never
  jump; where they seem to, as the sender was started again elsewhere, samples far off the estimate have that sender
  scheduled as open-loop until its stamps agree again. Where a clock service runs they are calendar times, which a
  receiver converts to its own monotonic clock: then drifting clocks no longer bias the estimate.

Invariants: a due time is never before the message's arrival. In *compensation* the least delay is 0. No rule can change
the final order: a wrong delay makes a wrong guess, or none. Requests to the sequencer are bounded and expire.

Times are ns of the site's monotonic clock; differences only, but for stamps, whose constant offset is part of the
estimate.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from isthmus.core.message import SiteId, Targets
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import DURATION_MAX_MS, PERIOD_MIN_MS, check_range
from isthmus.protocols.total.optimistic.estimate import ODD_MAX, Estimate

PolicyName = Literal["none", "compensation", "open-loop", "stamped"]


class OptimisticOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which delay rule, and its constants."""

    policy: PolicyName = "stamped"
    alpha: float = 0.95  # compensation: the share of a delay that one correction leaves alone; below 0.9 it oscillates
    gain: float = 0.02  # open-loop, stamped: the weight of a new sample, once there are many
    window_ms: float | None = None  # open-loop, stamped: aim at this window; None: the widest that fits all senders
    sizes: bool = True  # allow for what the size of a message costs on its way
    delay_max_ms: float = 1_000.0  # the longest delay of a tentative delivery, and of the sequencer's own messages
    request_age_ms: float = 10_000.0  # a request of a site that has been silent for this long is void
    calendar: bool = False  # stamped: by the calendar; a scenario with a clock service sets it

    def __post_init__(self) -> None:
        check_range("alpha", self.alpha, 0, 1)
        check_range("gain", self.gain, 1e-6, 1)
        if self.window_ms is not None:
            check_range("window_ms", self.window_ms, 0, DURATION_MAX_MS)
        check_range("delay_max_ms", self.delay_max_ms, 0, DURATION_MAX_MS)
        check_range("request_age_ms", self.request_age_ms, PERIOD_MIN_MS, DURATION_MAX_MS)


class MessageArrival(NamedTuple):
    """What a delay rule knows of a message that has arrived."""

    sender: SiteId
    stamp_ns: int  # the sender's clock when it was sent
    size_bytes: int
    arrival_ns: int


class DelayRule:
    """A delay rule at one site; this class is the rule *none*, without delays."""

    __slots__ = ("members", "options", "sequencer")
    stamps = False  # whether senders write their time into messages

    def __init__(self, options: OptimisticOptions) -> None:
        self.options = options
        self.members: Targets = ()
        self.sequencer = SiteId(-1)

    def enter(self, members: Targets, sequencer: SiteId, joining: bool) -> None:
        """Begin a view. A new sequencer voids all estimates; `joining`: the others were members before."""
        stayed = () if joining or sequencer != self.sequencer else self.members
        fresh = tuple(site for site in members if site not in stayed) if joining or stayed else ()
        self.members, self.sequencer = members, sequencer
        self.begin(stayed, fresh)

    def begin(self, stayed: Targets, fresh: Targets) -> None:
        """Keep estimates of members that stayed; fresh members join a running group. Neither: all begin together."""

    def due_ns(self, message: MessageArrival) -> int:
        """Return the time of a tentative delivery, at arrival or later."""
        return message.arrival_ns

    def ordered(self, message: MessageArrival, due_ns: int, ticket_ns: int) -> None:
        """Learn from a final message, whose ticket arrived at `ticket_ns`."""

    def request_ns(self) -> int:
        """Return how long the sequencer should hold back its own messages."""
        return 0

    def bounded(self, message: MessageArrival, delay_ns: float) -> int:
        longest = self.options.delay_max_ms * NS_PER_MS
        return message.arrival_ns + round(min(max(0.0, delay_ns), longest))


class CompensatedDelay(DelayRule):
    """The paper's rule; messages of another size than usual are shifted by what size was seen to cost on their way."""

    __slots__ = ("before", "delays_ns", "placed", "waits")

    def __init__(self, options: OptimisticOptions) -> None:
        super().__init__(options)
        self.delays_ns: dict[SiteId, float] = {}
        self.waits: dict[SiteId, Estimate] = {}  # from arrival to ticket; for the effect of sizes alone
        self.placed: dict[SiteId, int] = {}  # of a fresh sender: corrections so far; others are not in it
        self.before: tuple[MessageArrival, int, int] | None = (
            None  # the last final message, when it was due, its ticket
        )

    def begin(self, stayed: Targets, fresh: Targets) -> None:
        self.before = None
        known, waits, placed = self.delays_ns, self.waits, self.placed
        self.delays_ns = {site: known.get(site, 0.0) if site in stayed else 0.0 for site in self.members}
        self.waits = {site: waits[site] for site in stayed if site in waits and site in self.members}
        self.placed = {site: placed.get(site, 0) for site in self.members if site in fresh or site in placed}
        if not stayed:
            self.placed = dict.fromkeys(fresh, 0)

    def due_ns(self, message: MessageArrival) -> int:
        wait = self.waits.get(message.sender)
        effect = 0.0 if wait is None else wait.effect(message.size_bytes)
        return self.bounded(message, self.delays_ns[message.sender] + effect)

    def request_ns(self) -> int:
        if self.sequencer in self.placed and not self.placed[self.sequencer]:
            return 0  # not before one of its messages arrived
        longest = max(self.delays_ns.values(), default=0.0)
        return round(longest - self.delays_ns.get(self.sequencer, 0.0))

    def ordered(self, message: MessageArrival, due_ns: int, ticket_ns: int) -> None:
        sender, before = message.sender, self.before
        wait = self.waits.setdefault(sender, Estimate(self.options.gain))
        wait.note(ticket_ns - message.arrival_ns, message.size_bytes, ticket_ns)
        self.before = (message, due_ns, ticket_ns)
        if before is None:
            return
        previous = before[0].sender
        apart_ns = ticket_ns - before[2]
        delta = apart_ns - (due_ns - before[1])
        if sender in self.placed or previous in self.placed:
            self.place(sender, previous, apart_ns - (message.arrival_ns - before[0].arrival_ns))
        elif delta > 0:
            self.adjust(previous, sender, delta)
        else:
            self.adjust(sender, previous, -delta)

    def adjust(self, lowered: SiteId, raised: SiteId, delta_ns: float) -> None:
        """Lower one sender's delay; the remainder below 0 raises the other's. Both may be the same sender."""
        left = self.delays_ns[lowered] - (1 - self.options.alpha) * delta_ns
        if left > 0:
            self.delays_ns[lowered] = left
        else:
            self.delays_ns[lowered] = 0.0
            self.delays_ns[raised] -= left

    def place(self, sender: SiteId, previous: SiteId, apart_ns: float) -> None:
        """Move a fresh sender alone, by the mean of its corrections; the others are right among themselves.

        It is judged by its delay of now and not of when the message was scheduled: that may be a correction ago.
        """
        if sender == previous:
            return
        delta_ns = apart_ns - (self.delays_ns[sender] - self.delays_ns[previous])
        counts = self.placed
        later = sender in counts and (previous not in counts or counts[sender] <= counts[previous])
        fresh = sender if later else previous
        counts[fresh] += 1
        weight = 1 / counts[fresh]
        moved = self.delays_ns[fresh] + (delta_ns if later else -delta_ns) * weight
        self.delays_ns[fresh] = max(0.0, moved)
        if moved < 0:
            for site in self.members:
                if site != fresh:
                    self.delays_ns[site] -= moved
        if weight <= 1 - self.options.alpha:
            del counts[fresh]


class OpenLoopDelay(DelayRule):
    """Delays by the mean time from arrival to ticket, less the window."""

    __slots__ = ("waits",)

    def __init__(self, options: OptimisticOptions) -> None:
        super().__init__(options)
        self.waits: dict[SiteId, Estimate] = {}  # from arrival to ticket, by sender

    def begin(self, stayed: Targets, fresh: Targets) -> None:  # noqa: ARG002
        self.waits = {site: wait for site, wait in self.waits.items() if site in stayed and site in self.members}

    def window_ns(self, now_ns: int, others: bool = False) -> float:
        """Return the least wait of recent senders; `others`: without the sequencer, whose wait follows from
        requests."""
        if self.options.window_ms is not None:
            return self.options.window_ms * NS_PER_MS
        oldest_ns = now_ns - self.options.request_age_ms * NS_PER_MS
        left_out = self.sequencer if others else None
        waits = [wait for site, wait in self.waits.items() if site != left_out]
        recent = [wait.level for wait in waits if wait.latest_ns >= oldest_ns]
        return min(recent or [wait.level for wait in waits], default=0.0)

    def due_ns(self, message: MessageArrival) -> int:
        wait = self.waits.get(message.sender)
        if wait is None:
            return message.arrival_ns
        return self.bounded(message, wait.at(message.size_bytes) - self.window_ns(message.arrival_ns))

    def request_ns(self) -> int:
        latest_ns = max((wait.latest_ns for wait in self.waits.values()), default=0)
        return max(0, round(self.window_ns(latest_ns, others=True)))

    def ordered(self, message: MessageArrival, due_ns: int, ticket_ns: int) -> None:  # noqa: ARG002
        wait = self.waits.setdefault(message.sender, Estimate(self.options.gain))
        wait.note(ticket_ns - message.arrival_ns, message.size_bytes, ticket_ns)


class StampedDelay(OpenLoopDelay):
    """Delays by the mean time from a sender's stamp to the ticket, less the window."""

    __slots__ = ("ages",)
    stamps = True

    def __init__(self, options: OptimisticOptions) -> None:
        super().__init__(options)
        self.ages: dict[SiteId, Estimate] = {}  # from stamp to ticket, by sender; the clocks' offset is in it

    def begin(self, stayed: Targets, fresh: Targets) -> None:
        super().begin(stayed, fresh)
        self.ages = {site: age for site, age in self.ages.items() if site in self.waits}

    def due_ns(self, message: MessageArrival) -> int:
        age = self.ages.get(message.sender)
        if age is None or age.odd_count or age.count < ODD_MAX:
            return super().due_ns(message)
        ticket_ns = message.stamp_ns + age.at(message.size_bytes)
        return self.bounded(message, ticket_ns - self.window_ns(message.arrival_ns) - message.arrival_ns)

    def ordered(self, message: MessageArrival, due_ns: int, ticket_ns: int) -> None:
        super().ordered(message, due_ns, ticket_ns)
        age = self.ages.setdefault(message.sender, Estimate(self.options.gain))
        age.note(ticket_ns - message.stamp_ns, message.size_bytes, ticket_ns)


class HoldBackRequests:
    """At the sequencer: the longest recent request to hold back its own messages."""

    __slots__ = ("asked", "options")

    def __init__(self, options: OptimisticOptions) -> None:
        self.options = options
        self.asked: dict[SiteId, tuple[int, int]] = {}  # by member: the requested time, and when it arrived

    def note(self, site: SiteId, request_ns: int, now_ns: int) -> None:
        self.asked[site] = (request_ns, now_ns)

    def keep(self, members: Targets) -> None:
        self.asked = {site: asked for site, asked in self.asked.items() if site in members}

    def longest_ns(self, now_ns: int) -> int:
        """Return the delay of an own message that is submitted now."""
        age_ns = self.options.request_age_ms * NS_PER_MS
        self.asked = {site: (asked, at) for site, (asked, at) in self.asked.items() if now_ns - at <= age_ns}
        longest = max((asked for asked, _ in self.asked.values()), default=0)
        return min(max(0, longest), round(self.options.delay_max_ms * NS_PER_MS))


DELAY_RULES: dict[PolicyName, type[DelayRule]] = {
    "none": DelayRule,
    "compensation": CompensatedDelay,
    "open-loop": OpenLoopDelay,
    "stamped": StampedDelay,
}
