"""A process of a composed group: addresses messages to groups, holds back what could overtake, filters what comes.

The problem: an application sends to groups, not to routers. What is ordered elsewhere must not be delivered where it
only passes; what a router repeats must not be delivered twice; and a message must not overtake an earlier one of the
same sender that has a longer way. The idea: two filters below the application.

*The sender's filter.* A message of a class with an ordering node elsewhere goes out as a copy that nobody here
delivers; the copy that comes back is delivered. Under shadow-and-hold a message waits while an earlier one of this
process with a higher ordering node has not come back; everything behind it waits, too.

*The receiver's filter.* A copy is delivered if it is one that the walk of its class ends with here, and was not taken
before, by its author's numbers (filter.py). Who carried it is checked, but not counted by.

What the application is given is a `Carried` with its author; whoever submitted the copy here is its sender, which is
who gets credit back for it.

Bounds: `HELD_MAX` messages wait in the sender's filter; then the process is told Busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.layer import Finality, Handler, Kind, Layer
from isthmus.core.message import ALL, Carried, Cast, GroupId, Message, SiteId, Targets
from isthmus.protocols.routing.filter import Filter, stream_of
from isthmus.protocols.routing.routes import Routes
from isthmus.protocols.routing.walks import SENDER, Walk
from isthmus.protocols.routing.wire import Pack, Routed

HELD_MAX = 4096
FINAL = Finality.FINAL
BOTTOM = 1 << 30  # the level of what stays inside a group: below every ordering node of its sender


class Waiting(msgspec.Struct, frozen=True):
    """A message in the sender's filter."""

    cast: Cast  # as it goes down
    domain: int  # NONE: it stays inside, and waits for those of all domains
    level: int  # of its ordering node
    holds: bool  # what is ordered lower waits until it has come back


NO_DOMAIN = -1


class Member(Layer):
    """The filters of one process in one composed group."""

    __slots__ = ("before", "filter", "on_passed", "outstanding", "packed", "refusing", "routes", "waiting")

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.filter = Filter()
        self.before: dict[int, int] = {}  # group to the number of the last message of this process to it
        self.waiting: deque[Waiting] = deque()
        self.outstanding: dict[int, Waiting] = {}  # by number: sent, not back, and others wait for it
        self.packed: dict[tuple[SiteId, int], int] = {}  # packs by courier and number: how many of it are not consumed
        self.refusing = False  # `writable` said no; `resume` is owed
        self.on_passed: Callable[[], None] | None = None  # called when a message of this process to others has left

    def ordered(self) -> dict[type[Message], Handler]:
        return {Routed: self.on_bare, Pack: self.on_bare}

    def on_bare(self, source: SiteId, body: Message) -> None:
        raise LocalError(f"{body} of site {source} passed the filter")

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
        before = tuple(self.before.get(group, 0) for group in groups)
        self.before |= dict.fromkeys(groups, cast.number)
        routed = Routed(own, cast.sender, cast.number, groups, 0, before, cast.payload)
        carried: Carried[Any] = Carried(cast.sender, cast.number, b"", ALL, None, routed)
        holds = walk.holds and walk.own > 0
        self.enter(Waiting(carried, walk.domain, walk.level, holds))

    def submit(self, message: Message, targets: Targets = ALL) -> None:
        """Take a message that stays inside the group."""
        assert isinstance(message, Cast) and targets == message.destinations
        if not self.waiting and not self.outstanding:
            self.below.submit(message, targets)
        else:
            self.enter(Waiting(message, NO_DOMAIN, BOTTOM, holds=False))

    def submit_all(self, casts: Sequence[Cast]) -> None:
        if not self.waiting and not self.outstanding:
            self.below.submit_all(casts)
            return
        for cast in casts:
            self.submit(cast, cast.destinations)

    def enter(self, waiting: Waiting) -> None:
        self.waiting.append(waiting)
        self.release()

    def release(self) -> None:
        """Send what waits and may go, in order."""
        while self.waiting and not self.is_held(self.waiting[0]):
            first = self.waiting.popleft()
            if first.holds:
                self.outstanding[first.cast.number] = first
            self.below.submit(first.cast, first.cast.destinations)
        if self.refusing and 2 * len(self.waiting) <= HELD_MAX:
            self.refusing = False
            self.above.resume()

    def is_held(self, waiting: Waiting) -> bool:
        """Whether an earlier message with a higher ordering node has not come back."""
        return any(
            earlier.level < waiting.level and waiting.domain in (earlier.domain, NO_DOMAIN)
            for earlier in self.outstanding.values()
        )

    def writable(self) -> bool:
        self.refusing = len(self.waiting) >= HELD_MAX
        return not self.refusing and self.below.writable()

    def settled(self) -> bool:
        return not self.waiting and not self.outstanding and self.below.settled()

    # Receiving

    def deliver(self, cast: Cast, finality: Finality = FINAL) -> None:
        if not isinstance(cast, Carried) or not isinstance(cast.body, Routed | Pack):
            self.above.deliver(cast, finality)
            return
        if finality is not FINAL:
            return
        copies = (cast.body,) if isinstance(cast.body, Routed) else cast.body.copies
        key = (cast.sender, cast.number)
        self.packed[key] = len(copies)
        for copy in copies:
            try:
                taken = self.take(cast.sender, copy)
            except RemoteError:
                self.host.trace(Kind.REJECT, value=cast.sender)
                taken = False
            if taken:
                author = copy.author
                self.above.deliver(Carried(cast.sender, cast.number, copy.payload, ALL, author))
            else:
                self.consumed(cast)
        if self.waiting:
            self.release()

    def take(self, courier: SiteId, copy: Routed) -> bool:
        """Whether the application is to have a copy; raises RemoteError where it is none of a walk through here."""
        walk = checked_walk(self.routes, self.host.group, courier, copy)
        if copy.sender == self.host.site and copy.origin == self.host.group and copy.copy == walk.own:
            self.outstanding.pop(copy.number, None)
        if not walk.copies[copy.copy].for_application:
            if courier == self.host.site and self.on_passed is not None:
                self.on_passed()
            return False
        before = copy.before[copy.to.index(self.host.group)]
        return self.filter.takes(stream_of(*copy.author), copy.number, before)

    def consumed(self, cast: Cast) -> None:
        """Give back credit for a message once all that came with it is done with."""
        key = (cast.sender, cast.number)
        if key in self.packed:
            self.packed[key] -= 1
            if self.packed[key]:
                return
            del self.packed[key]
        self.below.consumed(cast)

    def consumed_all(self, casts: Sequence[Cast]) -> None:
        for cast in casts:
            self.consumed(cast)

    # Views

    def state(self) -> bytes:
        return self.filter.state()

    def restore(self, state: bytes) -> None:
        self.filter.restore(state)

    def resume(self) -> None:
        self.release()
        self.above.resume()


def checked_walk(routes: Routes, group: GroupId, courier: SiteId, copy: Routed) -> Walk:
    """The walk of a copy; raises RemoteError where its courier has no business to bring it here."""
    reason = routes.refusal(copy.origin, copy.to)
    if reason:
        raise RemoteError(reason)
    walk = routes.walk(copy.origin, copy.to)
    if copy.copy >= len(walk.copies) or walk.copies[copy.copy].node != group or len(copy.before) != len(copy.to):
        raise RemoteError(f"copy {copy.copy} of {copy.author} in group {group}, where its way does not lead")
    router = walk.copies[copy.copy].router
    if courier not in ((copy.sender,) if router == SENDER else routes.sites[router]):
        raise RemoteError(f"site {courier} brings {copy.author}, which is not its message, nor on its way")
    return walk
