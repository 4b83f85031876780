"""Flow control: a slow receiver bounds its senders, and so every buffer between them.

Problem: an ordering layer buffers messages that it cannot deliver yet, and an application may read slowly. Without a
bound on messages in flight, one slow site makes the buffers of all others grow.

Idea: a sender may have at most `window` messages at each destination that the application there has not consumed.
Receivers report how many they consumed (`Grant`, a total, so that a lost one does not matter) after each quarter of a
window. This layer sits above the ordering layer: a message that waits for credit has no place in any order yet, so
tickets and acknowledgements below are never stuck behind it.

Invariants: sent(q) - granted(q) <= window for every destination q; the queue keeps the application's order.

Bounds: `queue_max` messages wait here; then `writable` is false and the application gets Busy. A site thus holds
at most window times members undelivered messages, twice that just after a view change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Finality, Handler, Layer, View, places
from isthmus.core.message import ALL, Cast, Message, SiteId, Targets
from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range
from isthmus.trace.schema import Gauge

PROBE = 0  # timer key
BACKOFF_MAX = 2
LIST_BYTES = 8_192  # what waits goes down in lists of about this: a bound in bytes below is overshot by no more
FINAL = Finality.FINAL
SENDER = attrgetter("sender")


class CreditOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of flow control."""

    window: int = 1024
    queue_max: int = 1024
    probe_period_ms: float = 250.0

    def __post_init__(self) -> None:
        check_range("window", self.window, 1, COUNT_MAX, "a whole number")
        check_range("queue_max", self.queue_max, 1, COUNT_MAX, "a whole number")
        check_range("probe_period_ms", self.probe_period_ms, PERIOD_MIN_MS, DURATION_MAX_MS)


class Grant(Message, frozen=True, gc=False, array_like=True, tag=16):
    """Reports how many of the receiver's messages the application at the sender has consumed in this view."""

    consumed: int  # below 0 while messages of an earlier view are still unconsumed


class Probe(Message, frozen=True, gc=False, array_like=True, tag=17):
    """Asks for a Grant, from a sender without credit, in case one was lost."""


class Credit(Layer):
    """Holds back messages that the slowest destination has no room for."""

    __slots__ = (
        "consumed_of",
        "extra_to",
        "granted_by",
        "held_over",
        "holding_up",
        "members",
        "options",
        "probe_armed",
        "probe_count",
        "queue",
        "refusing",
        "reported_to",
        "room",
        "sent_to_all",
        "unread_of",
        "view",
    )
    timer_names = ("probe",)

    def __init__(self, options: CreditOptions | None = None) -> None:
        self.options = options or CreditOptions()
        self.view = View(0, ())
        self.queue: deque[Cast] = deque()
        self.consumed_of: dict[SiteId, int] = {}  # messages of each sender consumed here, in this view
        self.unread_of: dict[SiteId, int] = {}  # delivered and not consumed, over all views, members or not
        self.held_over = 0  # of the queue: messages that were submitted in an earlier view
        self.refusing = False  # `writable` returned False; `resume` is owed
        self.holding_up = False  # `passes` returned False; `resume` is owed once nothing waits here
        self.reset()

    def reset(self) -> None:
        self.sent_to_all = 0  # messages to every member; those to subsets are counted per member on top
        self.members = places(self.view.members)
        self.extra_to: dict[SiteId, int] = {}
        self.granted_by: dict[SiteId, int] = {}  # 0 until the first Grant
        self.reported_to: dict[SiteId, int] = {}
        self.room = 0  # messages that surely have credit everywhere; recomputed when it reaches 0
        self.probe_armed = False
        self.probe_count = 0

    def handlers(self) -> dict[type[Message], Handler]:
        return {Grant: self.on_grant, Probe: self.on_probe}

    def install(self, view: View) -> None:
        self.host.cancel_timer(self, PROBE)
        self.view = view
        self.held_over = len(self.queue)
        self.reset()
        unread = [site for site in view.members if self.unread_of.get(site, 0)]
        self.consumed_of = {site: -self.unread_of[site] for site in unread}
        for site in unread:
            self.grant(site)

    def resume(self) -> None:
        self.pump()
        self.notify()

    # Sending

    def writable(self) -> bool:
        self.refusing = len(self.queue) >= self.options.queue_max
        return not self.refusing

    def sends_at_once(self, destinations: Targets) -> bool:
        room = not self.queue and self.may_send(destinations)
        self.holding_up |= not room
        return room

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        assert isinstance(message, Cast) and targets == message.destinations
        if self.queue or not self.may_send(targets):
            self.queue.append(message)
        else:
            self.pass_down(message)

    def submit_all(self, casts: Sequence[Cast]) -> None:
        """Submit messages to all, as far as credit goes as one list."""
        while casts and not self.queue and self.may_send(ALL):
            fitting = min(self.room, self.below.allowance())
            self.pass_down_all(casts[:fitting])
            casts = casts[fitting:]
        self.queue.extend(casts)

    def may_send(self, destinations: Targets) -> bool:
        if not self.below.writable():
            return False
        if self.room > 0:
            return True
        window = self.options.window
        self.room = min(window - self.outstanding(site) for site in self.view.members)
        if self.room > 0:
            return True
        blocking = [site for site in destinations or self.view.members if self.lacks_credit(site)]
        if blocking and not self.probe_armed:
            self.probe_armed = True
            wait_ms = self.options.probe_period_ms * 2 ** min(self.probe_count, BACKOFF_MAX)
            self.host.set_timer(self, PROBE, round(wait_ms * 1e6))
        return not blocking

    def outstanding(self, site: SiteId) -> int:
        """Messages to a member that its application is not known to have consumed."""
        return self.sent_to(site) - self.granted_by.get(site, 0)

    def sent_to(self, site: SiteId) -> int:
        return self.sent_to_all + self.extra_to.get(site, 0)

    def settled(self) -> bool:
        return not self.queue and self.below.settled()

    def lacks_credit(self, site: SiteId) -> bool:
        return site in self.members and self.outstanding(site) >= self.options.window

    def pass_down(self, cast: Cast) -> None:
        self.room -= 1
        if cast.destinations:
            for site in cast.destinations:
                if site in self.members:
                    self.extra_to[site] = self.extra_to.get(site, 0) + 1
        else:
            self.sent_to_all += 1
        self.below.submit(cast, cast.destinations)

    def pass_down_all(self, casts: Sequence[Cast]) -> None:
        """Send messages to all that there is credit for."""
        self.room -= len(casts)
        self.sent_to_all += len(casts)
        self.below.submit_all(casts)

    def pump(self) -> None:
        """Send waiting messages in order, as far as credit goes; consecutive messages to all as one list."""
        queue = self.queue
        while queue and self.may_send(queue[0].destinations):
            cast = self.next_waiting()
            if cast.destinations or not queue or queue[0].destinations or self.room < 2:
                self.pass_down(cast)
                continue
            run, size, most = [cast], len(cast.payload), min(self.room, self.below.allowance())
            while queue and len(run) < most and size < LIST_BYTES and not queue[0].destinations:
                run.append(self.next_waiting())
                size += len(run[-1].payload)
            self.pass_down_all(run)

    def next_waiting(self) -> Cast:
        """Take the first waiting message; trace the view that it leaves in, if it was submitted in another."""
        cast = self.queue.popleft()
        if self.held_over:
            self.held_over -= 1
            self.host.gauge(Gauge.SENT_VIEW, self.view.view_id, cast)
        return cast

    def notify(self) -> None:
        room = self.refusing and 2 * len(self.queue) <= self.options.queue_max
        if room or (self.holding_up and not self.queue):
            self.refusing &= not room
            self.holding_up &= bool(self.queue)
            self.above.resume()

    def timer(self, key: int) -> None:
        assert key == PROBE
        self.probe_armed = False
        blocking = tuple(site for site in self.view.members if self.lacks_credit(site) and site != self.host.site)
        if (self.queue or self.holding_up) and blocking:
            self.probe_count += 1
            self.send(blocking, Probe())
        self.pump()
        self.notify()

    # Receiving

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        if finality is FINAL:
            unread, sender = self.unread_of, cast.sender
            unread[sender] = unread[sender] + 1 if sender in unread else 1
        self.above.deliver(cast, finality)

    def deliver_all(self, casts: Sequence[Cast]) -> None:
        for sender, count in runs_of_senders(casts):
            self.unread_of[sender] = self.unread_of.get(sender, 0) + count
        self.above.deliver_all(casts)

    def consumed(self, cast: Cast) -> None:
        self.note_consumed(cast.sender, 1)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        for sender, count in runs_of_senders(casts):
            self.note_consumed(sender, count)

    def note_consumed(self, sender: SiteId, count: int) -> None:
        self.unread_of[sender] -= count
        if sender in self.members:
            consumed = self.consumed_of[sender] = self.consumed_of.get(sender, 0) + count
            if 4 * (consumed - self.reported_to.get(sender, 0)) >= self.options.window:
                self.grant(sender)

    def grant(self, sender: SiteId) -> None:
        if self.view is not self.stack.view:
            return  # the view closes: the grant would leave in the next one, where all counts start anew
        consumed = self.consumed_of.get(sender, 0)
        self.reported_to[sender] = consumed
        if sender == self.host.site:
            self.credit(sender, consumed)
        else:
            self.send((sender,), Grant(consumed))

    def on_grant(self, source: SiteId, grant: Grant) -> None:
        if source not in self.members:
            raise RemoteError(f"a Grant of site {source}, which is not in the view")
        if grant.consumed > self.sent_to(source):
            raise RemoteError(f"site {source} reports {grant.consumed} consumed messages, more than it was sent")
        self.credit(source, grant.consumed)

    def credit(self, site: SiteId, consumed: int) -> None:
        """Note the total that a member consumed; a late Grant takes nothing back."""
        known = self.granted_by.get(site)
        if known is None or consumed > known:
            self.granted_by[site] = consumed
            self.room = 0
            self.probe_count = 0
            self.pump()
            self.notify()

    def on_probe(self, source: SiteId, _probe: Probe) -> None:
        if source not in self.members:
            raise RemoteError(f"a Probe of site {source}, which is not in the view")
        self.grant(source)


def runs_of_senders(casts: Sequence[Cast]) -> list[tuple[SiteId, int]]:
    """The senders of consecutive messages, each with the length of its run."""
    if len(set(map(SENDER, casts))) == 1:
        return [(casts[0].sender, len(casts))]
    return [(sender, len(list(run))) for sender, run in groupby(map(SENDER, casts))]
