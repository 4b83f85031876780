"""A process of a composed group: addresses messages to groups, holds back what could overtake, filters what comes.

The problem: an application sends to groups, not to routers. What is ordered elsewhere must not be delivered where it
only passes; what a router repeats must not be delivered twice; and a message must not overtake an earlier one of the
same sender that has a longer way. The idea: two filters below the application.

*The sender's filter.* A message of a class with an ordering node elsewhere goes out as a copy that nobody here
delivers; the copy that comes back is delivered. Under shadow-and-hold a message waits while an earlier one of this
process with a higher ordering node has not come back; everything behind it waits, too. End-to-end credit: at most
`window` messages of a process are under way to a group, as far as it has heard; a slow group so slows those that send
to it, and routers' queues are bounded.

*The receiver's filter.* A copy is delivered if it is one that the walk of its class ends with here, and was not taken
before, by its author's numbers (filter.py). Who carried it is checked, but not counted by.

*Reports.* A process tells the routers of its group up to where it is done with each author's messages: a while after a
message for which a router waits, after a quarter of a window, and when it is asked.

What the application is given is a `Carried` with its author; whoever submitted the copy here is its sender, which is
who gets credit back for it.

Bounds: `queue_max` messages wait in the sender's filter; then the process is told Busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Layer, View
from isthmus.core.message import ALL, Author, Carried, Cast, Message, SiteId, Targets
from isthmus.core.port import INCARNATION_SHIFT
from isthmus.protocols.routing.calculus.walks import Walk
from isthmus.protocols.routing.done import DoneTable
from isthmus.protocols.routing.filter import stream_of
from isthmus.protocols.routing.held import BOTTOM, NO_DOMAIN, Unread, Waiting
from isthmus.protocols.routing.intake import (
    NOBODY,
    ORDERED,
    CopyIntake,
    ReceivedCopy,
    UnfinishedMessage,
    refuse,
    unintercepted,
)
from isthmus.protocols.routing.keeping import SettledTable
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.routing.routes import CompositionRoutes
from isthmus.protocols.routing.wire import (
    Alive,
    Chase,
    ConsumedReport,
    Distances,
    Enquire,
    Forgotten,
    Missing,
    Pack,
    Routed,
    Settled,
    StreamKey,
    Trailer,
)

REPORT, ENQUIRE, ASK = 0, 1, 2  # timer keys
BACKOFF_MAX = 4


class ComposedProcess(Layer):
    """The filters of one process in one composed group."""

    __slots__ = (
        "ask_armed",
        "asked_count",
        "before",
        "courier",
        "done",
        "enquire_armed",
        "intake",
        "on_passed",
        "options",
        "outstanding",
        "packed",
        "passed",
        "refusing",
        "report_armed",
        "reported",
        "routes",
        "turn",
        "under_way",
        "unread",
        "unreported",
        "waiting",
    )
    timer_names = ("report", "enquire", "ask")

    def __init__(self, routes: CompositionRoutes, options: RouterOptions) -> None:
        self.routes = routes
        self.intake = CopyIntake(routes, SettledTable())
        self.options = options
        self.before: dict[tuple[int, int], int] = {}  # domain and group: the last message of this process to it
        self.under_way: dict[tuple[int, int], deque[int]] = {}  # the same: those that it is not known to be done with
        self.waiting: deque[Waiting] = deque()
        self.outstanding: dict[int, Waiting] = {}  # by number: sent, not back, and others wait for it
        self.packed: dict[tuple[SiteId, int], int] = {}  # messages of couriers: how many copies are not consumed
        self.refusing = False  # `writable` said no; `resume` is owed
        self.on_passed: Callable[[], None] | None = None  # called when a message of this process to others has left
        self.done = DoneTable(options.enquire_ms)  # what the application has consumed
        self.unread: dict[Author, Unread] = {}  # what it has not
        self.unreported: dict[StreamKey, None] = {}
        self.reported: dict[StreamKey, int] = {}
        self.courier = (-1, NOBODY)  # the router that forwarded of late, with its epoch
        self.report_armed = self.enquire_armed = self.ask_armed = False
        self.asked_count = 0  # enquiries without an answer
        self.turn = 0
        self.passed: dict[tuple[int, ...], tuple[int, int]] = {}  # by groups: the last that has left, and its view

    # Sending

    def receivers(self, groups: tuple[int, ...]) -> Targets:
        """The processes of groups, ascending, that this one may send to; raises LocalError where it may not."""
        reason = self.routes.refusal(self.host.group, groups)
        if reason:
            raise LocalError(reason)
        return self.routes.receivers(groups)

    def route(self, cast: Cast, groups: tuple[int, ...]) -> None:
        """Send a message of the application to groups, ascending, of which some are others."""
        own = self.host.group
        walk = self.routes.walk(own, groups)
        streams = [(walk.domain, group) for group in self.routes.stops(walk)]
        before = tuple(self.before.get(stream, 0) for stream in streams)
        self.before |= dict.fromkeys(streams, cast.number)
        first = self.routes.first_copy(own, cast.sender, cast.number, groups)
        routed = msgspec.structs.replace(first, before=before, payload=cast.payload)
        carried: Carried[Any] = Carried(cast.sender, cast.number, b"", ALL, None, routed)
        holds = walk.holds and walk.own > 0
        self.enter(Waiting(carried, groups, walk.domain, walk.level, holds))

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        """Take a message that stays inside the group."""
        assert isinstance(message, Cast) and targets == message.destinations
        if self.is_free():
            self.below.submit(message, targets)
        else:
            self.enter(Waiting(message, (), NO_DOMAIN, BOTTOM, holds=False))

    def submit_all(self, casts: Sequence[Cast]) -> None:
        if self.is_free():
            self.below.submit_all(casts)
            return
        for cast in casts:
            self.submit(cast, cast.destinations)

    def is_free(self) -> bool:
        """Whether what stays inside need not wait; before its first view a process does not know what it waits for."""
        return not self.waiting and not self.outstanding and bool(self.stack.view.members)

    def enter(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        self.release()

    def release(self) -> None:
        """Send what waits and may go, in order."""
        while self.waiting and self.may_go(self.waiting[0]):
            first = self.waiting.popleft()
            if first.holds:
                self.outstanding[first.cast.number] = first
            for group in first.to:
                self.under_way.setdefault((first.domain, group), deque()).append(first.cast.number)
            self.below.submit(first.cast, first.cast.destinations)
        if self.waiting:
            self.enquire_later()
        if self.refusing and 2 * len(self.waiting) <= self.options.queue_max:
            self.refusing = False
            self.above.resume()

    def is_held(self, waiting: Waiting) -> bool:
        """Whether an earlier message with a higher ordering node has not come back."""
        return any(
            earlier.level < waiting.level and waiting.domain in (earlier.domain, NO_DOMAIN)
            for earlier in self.outstanding.values()
        )

    def may_go(self, waiting: Waiting) -> bool:
        """Whether a message has credit, overtakes nothing, and somebody here would take it on."""
        joined = bool(self.stack.view.members)
        return joined and not self.is_held(waiting) and not self.full(waiting) and self.has_way(waiting)

    def has_way(self, waiting: Waiting) -> bool:
        """Whether the routers that a message needs are in the view: without them it would be lost."""
        to = waiting.to
        return not to or self.routes.is_taken_on(self.routes.walk(self.host.group, to), self.stack.view.members)

    def full(self, waiting: Waiting) -> list[int]:
        """The groups that have no room for a message."""
        ways, window = self.under_way, self.options.window
        return [group for group in waiting.to if len(ways.get((waiting.domain, group), ())) >= window]

    def enquire_later(self) -> None:
        """Have those asked in a while for whom a message waits, unless it has gone by then."""
        if not self.enquire_armed:
            self.enquire_armed = True
            wait_ms = self.options.enquire_ms * 2 ** min(self.asked_count, BACKOFF_MAX)
            self.host.set_timer(self, ENQUIRE, round(wait_ms * 1e6))

    def enquire(self) -> None:
        """Ask what is settled; and where an answer is long overdue, whether what is waited for is lost."""
        first = self.waiting[0]
        self.asked_count += 1
        full, held = self.full(first), self.is_held(first)
        if full and not held:
            self.turn += 1
            turn = (self.host.incarnation << INCARNATION_SHIFT) + self.turn
            self.send(self.routers(), Enquire(self.host.site, turn))
        if self.asked_count > 1:
            missed = {one.to for one in self.outstanding.values()}
            for to, last in self.passed.items():
                if to in missed if held else not set(full).isdisjoint(to):
                    self.send(self.routers(), Chase(to, *last))

    def writable(self) -> bool:
        self.refusing = len(self.waiting) >= self.options.queue_max
        return not self.refusing and self.below.writable()

    def settled(self) -> bool:
        return not self.waiting and not self.outstanding and self.below.settled()

    # Receiving

    def start(self) -> None:
        self.intake.host = self.host

    def ordered(self) -> dict[type[Message], Handler]:
        return dict.fromkeys(ORDERED, unintercepted)

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            ConsumedReport: refuse("routers"),
            Missing: refuse("routers"),
            Chase: refuse("routers"),
            Alive: refuse("routers that find ways"),
            Settled: self.on_settled,
            Enquire: self.on_enquire,
            Forgotten: self.on_forgotten,
        }

    def deliver(self, cast: Cast, finality: Finality = Finality.FINAL) -> None:
        body = cast.body if isinstance(cast, Carried) else None
        if isinstance(body, Routed | Pack):
            if finality is Finality.FINAL:
                self.take_all(cast, body.copies if isinstance(body, Pack) else (body,))
        elif not isinstance(body, Distances):
            self.above.deliver(cast, finality)  # of the group alone
        elif finality is Finality.FINAL:
            self.below.consumed(cast)

    def take_all(self, cast: Cast, copies: tuple[Routed, ...]) -> None:
        self.packed[cast.sender, cast.number] = len(copies)
        for copy in copies:
            self.take(ReceivedCopy(cast.sender, cast.number, copy))
        if self.waiting:
            self.release()

    def take(self, arrived: ReceivedCopy) -> None:
        """Deliver what a copy allows to be delivered."""
        copy = arrived.copy
        walk = self.intake.checked(arrived.courier, copy)
        found: list[ReceivedCopy] | None = None
        if walk is not None:
            if copy.sender == self.host.site and copy.origin == self.host.group:
                self.note_own(copy, walk)
            if isinstance(copy, Trailer):
                self.take_trailer(arrived, walk)
                return
            self.intake.keep(copy, walk)
            self.intake.note_begun(copy, walk)
            if arrived.courier in self.routes.router_of:
                self.courier = max(self.courier, (copy.epoch, arrived.courier))
            found = self.intake.sift(arrived, walk)
            ours = self.routes.for_application(copy, walk, self.host.group)
            own = arrived.courier == self.host.site and not ours
            if own and self.on_passed is not None:
                self.on_passed()
            if found is None and self.intake.is_end(copy, walk):
                self.owe_report(stream_of(copy, walk.domain), at_once=self.routes.reports(walk))
        if found is None:
            self.consumed(Cast(arrived.courier, arrived.number))
            return
        for one in found:
            self.hand_up(one)
        if not found and self.routes.recomputed:
            self.consumed(Cast(arrived.courier, arrived.number))  # what is missing comes unasked
        elif not found and not self.ask_armed:
            self.ask_armed = True
            self.host.set_timer(self, ASK, round(self.options.enquire_ms * 1e6))

    def note_own(self, copy: Routed, walk: Walk) -> None:
        """Note how far a message of this process has come: it has passed this group, or is back.

        What comes back by one way in order has nothing behind it that is earlier, where nobody sends anything again.
        """
        final = self.routes.is_final(walk)
        if copy.copy == 0 and final and not isinstance(copy, Trailer):
            self.passed[copy.to] = (copy.number, self.intake.view_id)
        if copy.copy == walk.own:
            earlier = [number for number, one in self.outstanding.items() if number < copy.number and one.to == copy.to]
            for number in [copy.number, *(earlier if final and self.routes.is_fifo(walk.domain) else ())]:
                self.outstanding.pop(number, None)
            self.asked_count = 0

    def take_trailer(self, arrived: ReceivedCopy, walk: Walk) -> None:
        """Wait no more for what has not come before it."""
        copy = arrived.copy
        if self.intake.is_end(copy, walk):
            key = stream_of(copy, walk.domain)
            before = self.done.note_handed(key, copy.number, copy.number, final=True, complete=False)
            if before < copy.number:
                self.done.note_consumed(key, copy.number, before)
            self.owe_report(key, at_once=True)
        self.consumed(Cast(arrived.courier, arrived.number))

    def hand_up(self, arrived: ReceivedCopy) -> None:
        copy = arrived.copy
        walk = self.routes.walk(copy.origin, copy.to)
        routes, key = self.routes, stream_of(copy, walk.domain)
        before = self.done.note_handed(
            key, copy.number, self.intake.before_of(copy, walk), routes.is_final(walk), routes.in_order(walk)
        )
        self.unread[copy.author] = Unread(key, before, routes.reports(walk))
        carried: Carried[Any] = Carried(arrived.courier, arrived.number, copy.payload, ALL, copy.author)
        if routes.for_application(copy, walk, self.host.group):
            self.above.deliver(carried)
        else:
            self.consumed(carried)  # a shadow

    def consumed(self, cast: Cast) -> None:
        """Give back credit for a message once all that came with it is done with."""
        if isinstance(cast, Carried) and cast.author in self.unread:
            unread = self.unread.pop(cast.author)
            self.done.note_consumed(unread.key, cast.author[2], unread.before)
            self.owe_report(unread.key, unread.reports)
        courier = (cast.sender, cast.number)
        if courier in self.packed:
            self.packed[courier] -= 1
            if self.packed[courier]:
                return
            del self.packed[courier]
        if cast.sender != NOBODY:
            self.below.consumed(cast)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        for cast in casts:
            self.consumed(cast)

    # What the application is done with, and what others are

    def owe_report(self, key: StreamKey, at_once: bool) -> None:
        """Have the routers told how far an author's messages have come: soon, or with a quarter of a window."""
        self.unreported[key] = None
        due = at_once or 4 * (self.done.count(key) - self.reported.get(key, 0)) >= self.options.window
        if due and not self.report_armed:
            self.report_armed = True
            self.host.set_timer(self, REPORT, round(self.options.report_ms * 1e6))

    def routers(self) -> Targets:
        """The routers in the view."""
        return tuple(site for site in self.stack.view.members if site in self.routes.router_of)

    def report(self, keys: Sequence[StreamKey], routers: Targets) -> None:
        if keys and routers:
            self.reported |= {key: self.done.count(key) for key in keys}
            self.send(routers, ConsumedReport(tuple((key, self.done.advance(key, self.host.now_ns)) for key in keys)))

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:  # noqa: ARG002
        self.report(self.done.keys(), (source,))

    def on_settled(self, source: SiteId, settled: Settled) -> None:
        if source not in self.routes.router_of:
            raise RemoteError(f"site {source} is no router, and tells what is settled")
        news = False
        for key, number in settled.entries:
            news |= self.intake.known.note(settled.group, key, number)
            if key[:3] == (self.host.group, self.host.site, self.host.incarnation):
                waiting = self.under_way.get((key[3], settled.group), deque())
                while waiting and waiting[0] <= number:
                    waiting.popleft()
        if news:
            self.asked_count = 0
            self.intake.kept.trim(self.intake.known)
            self.release()

    def on_forgotten(self, source: SiteId, forgotten: Forgotten) -> None:
        if source not in self.routes.router_of:
            raise RemoteError(f"site {source} is no router, and tells what is forgotten")
        if any(forgotten.number == before for before in self.intake.early.get(forgotten.stream, ())):
            self.intake.filter.of(forgotten.stream).skip(forgotten.number)
            self.done.skip(forgotten.stream, forgotten.number)
            for arrived in self.intake.next_of(forgotten.stream):
                self.hand_up(arrived)

    def timer(self, key: int) -> None:
        if key == REPORT:
            self.report_armed = False
            keys, self.unreported = list(self.unreported), {}
            self.report(keys, self.routers())
        elif key == ENQUIRE:
            self.enquire_armed = False
            if self.waiting:
                self.enquire()
            self.release()
        else:
            self.ask_armed = False
            self.ask_for_missing()

    def ask_for_missing(self) -> None:
        """Ask the router that forwarded of late, or another one, for what is missing."""
        routers = self.routers()
        target = self.courier[1] if self.courier[1] in routers else (routers[0] if routers else None)
        gaps = [(key, min(waiting)) for key, waiting in self.intake.early.items() if waiting]
        if gaps:
            self.ask_armed = True
            self.host.set_timer(self, ASK, round(self.options.enquire_ms * 1e6))
        if target is not None:
            for key, number in gaps:
                self.send((target,), Missing(key, number))

    # Views

    def install(self, view: View) -> None:
        """Begin a view; the layers below deliver the rest of the last view before they call this."""
        self.intake.view_id = view.view_id

    def state(self) -> bytes:
        return self.intake.state()

    def restore(self, state: bytes) -> None:
        self.intake.restore(state)
        self.done.restore(self.intake.filter.states())
        for one in self.intake.begun.values():
            if one.sender == self.host.site:
                self.wait_for(one)

    def wait_for(self, begun: UnfinishedMessage) -> None:
        """Hold what would overtake a message of an earlier life of this process, if that is still to come back."""
        walk, life = self.routes.walk(self.host.group, begun.to), begun.number >> INCARNATION_SHIFT
        final = self.routes.is_final(walk) and self.routes.is_fifo(walk.domain)
        key = (self.host.group, begun.sender, life, walk.domain)
        if (final or self.routes.in_order(walk)) and not self.intake.filter.has(key, begun.number):
            cast = Cast(begun.sender, begun.number)
            self.outstanding[begun.number] = Waiting(cast, begun.to, walk.domain, walk.level, holds=True)
            if final:
                self.passed[begun.to] = (begun.number, begun.view)

    def resume(self) -> None:
        self.release()
        self.above.resume()
