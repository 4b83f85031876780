"""A process of a composed group: addresses messages to groups, holds messages that could overtake, filters arriving
copies.

Problem: an application sends to groups, not to routers. A message that is ordered elsewhere must not be delivered where
it only passes; a retransmission of a router must not be delivered twice; and a message must not overtake an earlier one
of the same sender on a longer route. Idea: two filters below the application.

*The sender's filter.* A message of a class that is ordered in another node leaves as a copy that is not delivered here;
the copy that comes back is delivered. Under shadow-and-hold a message waits while an earlier one of this process with a
higher ordering node has not come back, and all messages behind it wait, too. End-to-end credit: a process has at most
`window` unsettled messages under way to a group, so that a slow group slows its senders and routers' queues are
bounded.

*The receiver's filter.* A copy is delivered if the walk of its class ends with it here and its author's number is new
(filter.py). The courier is checked, but duplicates are found by author alone.

*Reports.* A process reports to the routers of its group how far it has consumed each author's messages: shortly after a
message for which a router waits, after a quarter of a window, and when queried.

The application is given a `Carried` with the author; its sender is the site that submitted the copy here, which gets
the credit back.

Bounds: `queue_max` messages wait in the sender's filter; beyond that the application gets Busy.
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
        self.under_way: dict[tuple[int, int], deque[int]] = {}  # the same: messages that are not settled
        self.waiting: deque[Waiting] = deque()
        self.outstanding: dict[int, Waiting] = {}  # by number: sent, not back, and others wait for it
        self.packed: dict[tuple[SiteId, int], int] = {}  # messages of couriers: how many copies are not consumed
        self.refusing = False  # `writable` returned False; `resume` is due
        self.on_passed: Callable[[], None] | None = None  # called when a message to other groups has left
        self.done = DoneTable(options.enquire_ms)  # consumed by the application
        self.unread: dict[Author, Unread] = {}  # delivered, not consumed
        self.unreported: dict[StreamKey, None] = {}
        self.reported: dict[StreamKey, int] = {}
        self.courier = (-1, NOBODY)  # the last router that forwarded, with its epoch
        self.report_armed = self.enquire_armed = self.ask_armed = False
        self.asked_count = 0  # enquiries without an answer
        self.turn = 0
        self.passed: dict[tuple[int, ...], tuple[int, int]] = {}  # by groups: the last that has left, and its view

    # Sending

    def receivers(self, groups: tuple[int, ...]) -> Targets:
        """Return the processes of groups (ascending); raises LocalError where this group may not send to them."""
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
        """Whether messages inside the group need not wait; they do before the first view."""
        return not self.waiting and not self.outstanding and bool(self.stack.view.members)

    def enter(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        self.release()

    def release(self) -> None:
        """Send waiting messages in order, up to the first that may not go."""
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
        """Whether a message has credit, overtakes nothing, and has routers in the view."""
        joined = bool(self.stack.view.members)
        return joined and not self.is_held(waiting) and not self.full(waiting) and self.has_way(waiting)

    def has_way(self, waiting: Waiting) -> bool:
        """Whether the view has the routers that a message needs; without them it would be lost."""
        to = waiting.to
        return not to or self.routes.is_taken_on(self.routes.walk(self.host.group, to), self.stack.view.members)

    def full(self, waiting: Waiting) -> list[int]:
        """Return the groups without credit for a message."""
        ways, window = self.under_way, self.options.window
        return [group for group in waiting.to if len(ways.get((waiting.domain, group), ())) >= window]

    def enquire_later(self) -> None:
        """Enquire after a while, unless the message has left by then."""
        if not self.enquire_armed:
            self.enquire_armed = True
            wait_ms = self.options.enquire_ms * 2 ** min(self.asked_count, BACKOFF_MAX)
            self.host.set_timer(self, ENQUIRE, round(wait_ms * 1e6))

    def enquire(self) -> None:
        """Query what is settled; where an answer is long overdue, send a Chase for messages that may be lost."""
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
        """Deliver the messages that a copy makes deliverable."""
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
            self.consumed(Cast(arrived.courier, arrived.number))  # missing messages are sent again without a request
        elif not found and not self.ask_armed:
            self.ask_armed = True
            self.host.set_timer(self, ASK, round(self.options.enquire_ms * 1e6))

    def note_own(self, copy: Routed, walk: Walk) -> None:
        """Note that a message of this process has left this group, or is back.

        Where routes are FIFO and nothing is sent again, no earlier message can come back after it.
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
        """Stop waiting for messages that have not arrived before a trailer."""
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
        """Return credit for a message once all copies that arrived in it are consumed."""
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

    # Reports and settled messages

    def owe_report(self, key: StreamKey, at_once: bool) -> None:
        """Schedule a report on an author's messages: soon, or after a quarter of a window."""
        self.unreported[key] = None
        due = at_once or 4 * (self.done.count(key) - self.reported.get(key, 0)) >= self.options.window
        if due and not self.report_armed:
            self.report_armed = True
            self.host.set_timer(self, REPORT, round(self.options.report_ms * 1e6))

    def routers(self) -> Targets:
        """Return the routers in the view."""
        return tuple(site for site in self.stack.view.members if site in self.routes.router_of)

    def report(self, keys: Sequence[StreamKey], routers: Targets) -> None:
        if keys and routers:
            self.reported |= {key: self.done.count(key) for key in keys}
            self.send(routers, ConsumedReport(tuple((key, self.done.advance(key, self.host.now_ns)) for key in keys)))

    def on_enquire(self, source: SiteId, enquire: Enquire) -> None:  # noqa: ARG002
        self.report(self.done.keys(), (source,))

    def on_settled(self, source: SiteId, settled: Settled) -> None:
        if source not in self.routes.router_of:
            raise RemoteError(f"a Settled of site {source}, which is no router")
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
            raise RemoteError(f"a Forgotten of site {source}, which is no router")
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
        """Request missing messages from the last router that forwarded, or another one."""
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
        """Hold messages that would overtake one of an earlier life of this process that is not back yet."""
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
