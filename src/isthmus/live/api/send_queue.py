"""What a live group sends: gathered in turns, and held back while the stack takes nothing; long waits are logged.

Bounds: `TURN_MAX` messages of one turn; nothing is taken behind a large one until that has left, piece by piece.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import View
from isthmus.core.message import Cast, GroupId
from isthmus.core.validation import one_of
from isthmus.live.node.errors import SendTimeout
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site_group import SiteGroup
from isthmus.live.node.waiting import LOG_S, WaitLog, waited_for
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.protocols.transport.base import Transport
from isthmus.trace.schema import Gauge

TURN_MAX = 64  # messages of one turn
CHECK_S = 0.02
FORM_S = 5.0  # how long the first message of a new group waits, at most, for all its sites to be in
Addressed = dict[int, tuple[GroupId, ...]]  # by number: the groups, ascending, that a message is for


class SendQueue:
    """The messages of one group on their way from the program into the stack."""

    def __init__(self, runtime: SiteRuntime, joined: SiteGroup, application: Application) -> None:
        self.runtime = runtime
        self.joined = joined
        self.application = application
        self.writable = asyncio.Event()
        self.turn_max = min(TURN_MAX, joined.options.credit.queue_max)
        self.casts: list[Cast] = []  # sent in this turn
        self.held_over = 0  # of these, the first ones were submitted in an earlier view
        self.addressed: Addressed = {}  # of these, what goes to other groups
        self.wait_log = WaitLog()
        self.entered_s: float | None = None  # when this site was first in a view
        self.lost = False  # a life has ended before the others had all that it had sent, and nobody was told
        self.formed = False  # all sites of the group have been in a view together, or it has gone on for long

    def is_blocked(self) -> bool:
        """Whether nothing can be sent now: the group forms, its view changes, or this side of it has no majority."""
        port = self.joined.port
        return port is None or port.view_id == 0 or port.stack.find(Transport).blocked or self.is_forming()

    def is_forming(self) -> bool:
        """Whether the group begins and some of its sites are not in yet: they would miss a message."""
        if self.formed or self.runtime.agreed is None or self.entered_s is None:
            return False
        return time.monotonic() - self.entered_s < FORM_S

    def note_view(self, view: View) -> None:
        """Learn from a view whether all sites are in; the founder begins alone, and the others are let in one by one.

        A group begins, for the first time or after all sites had stopped, where no member started long before this
        site: incarnations are seconds. A site that comes back alone finds older members, and waits for nobody.
        """
        self.held_over = len(self.casts)
        if self.entered_s is None:
            self.entered_s = time.monotonic()
            ours = self.joined.port.incarnation if self.joined.port is not None else 0
            self.formed = any(theirs < ours - FORM_S for theirs in view.incarnations)
            asyncio.get_running_loop().call_later(FORM_S, self.writable.set)
        self.formed |= len(view.members) == len(self.joined.members)

    def has_room(self) -> bool:
        """Whether this turn takes one more message; the stack is asked once, as nothing is submitted before the end."""
        if self.casts:
            return len(self.casts) < self.turn_max and not self.application.fragments.prepared_count
        if self.runtime.agreed is not None and self.is_blocked():
            return False  # what waited in the stack would be lost with this life
        return self.application.writable()

    async def until_writable(self, timeout: float | None) -> None:
        """Wait until the stack takes a message and this turn has room for it."""
        started_s = time.monotonic()
        while True:
            self.runtime.joined()
            if self.has_room():
                return
            if self.casts:
                await asyncio.sleep(0)  # the turn ends
            else:
                self.writable.clear()
                await self.pause(self.writable, started_s, timeout)

    async def pause(self, event: asyncio.Event, started_s: float, timeout: float | None) -> None:
        """Wait for an event; log a long wait, and raise where it is too long."""
        end_s = None if timeout is None else started_s + timeout
        patience_s = FORM_S if self.entered_s is None or self.is_forming() else LOG_S  # a group needs its time to form
        log_s = max(started_s, self.wait_log.logged_s) + patience_s
        until_s = log_s if end_s is None else min(log_s, end_s)
        try:
            async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                await event.wait()
        except TimeoutError:
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                raise SendTimeout(f"not sent within {timeout:g} s; waiting for {self.waits_for()}") from None
            self.wait_log.log("send", now_s - started_s, self.waits_for)

    async def settle(self, timeout: float) -> bool:
        """Wait until the others have all that was sent here; return whether they do.

        Where a life of this site has ended with messages that they had not acknowledged, these may be lost: then the
        first call says False.
        """
        started_s = time.monotonic()
        while True:
            self.runtime.joined()
            if self.lost:
                self.lost = False
                return False
            if not self.casts and self.application.settled():
                return True
            waited_s = time.monotonic() - started_s
            if waited_s >= timeout and not self.casts:
                return False
            if waited_s > LOG_S:
                self.wait_log.log("settle", waited_s, self.waits_for)
            await asyncio.sleep(CHECK_S if not self.casts else 0)

    def waits_for(self) -> str:
        """What the stack waits for, as a phrase."""
        port = self.joined.port
        if port is None:
            return "nothing: the group is not joined"
        if port.view_id == 0:
            return "a view that admits this site"
        if self.is_forming():
            missing = [site for site in self.joined.members if site not in port.stack.view.members]
            return f"{', '.join([self.runtime.topology.sites[site].name for site in missing])} to come in"
        if self.is_blocked():
            view = port.stack.view
            names = ", ".join([self.runtime.topology.sites[site].name for site in view.members])
            return f"a majority of view {view.view_id} ({names}) to go on"
        return waited_for(port.stack, port.owner.peers, port.owner.clock())

    def group_ids(self, names: Sequence[str], to: Sequence[str]) -> tuple[GroupId, ...]:
        """The groups of a composition by their names, ascending; raises where this one may not send to them."""
        routes = self.runtime.routes
        if routes is None:
            raise LocalError("a message to groups, from a group of no composition: join with composition=...")
        if to:
            raise InputError("to", "", f"{list(to)!r} besides groups", "either sites or groups")
        known = [group.name for group in routes.composition.groups]
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise InputError("groups", "", repr(unknown), one_of(unknown, known))
        found = tuple(sorted({routes.group_ids[name] for name in names}))
        reason = routes.refusal(self.joined.group, found)
        if reason:
            raise LocalError(reason)
        return found

    def gather(self) -> None:
        """Submit what this turn has sent."""
        if self.casts:
            casts, self.casts = self.casts, []
            for cast in casts[: self.held_over]:
                self.application.host.gauge(Gauge.SENT_VIEW, self.application.stack.view.view_id, cast)
            self.held_over = 0
            addressed, self.addressed = self.addressed, {}
            submit(self.application, casts, addressed)

    def clear(self) -> None:
        """Forget what was sent in this turn, with the life that it belongs to."""
        self.lost |= bool(self.casts) or not self.application.settled()
        self.casts, self.addressed, self.held_over = [], {}, 0


def submit(application: Application, casts: list[Cast], addressed: Addressed) -> None:
    """Submit messages in order: those to all that follow each other as a list, the others singly."""
    if len(casts) > 1 and not any(cast.destinations for cast in casts):
        application.submit_all(casts)
        return
    run: list[Cast] = []
    for cast in casts:
        if not cast.destinations:
            run.append(cast)
            continue
        if run:
            application.submit_all(run)
            run = []
        if cast.number in addressed:
            application.route(cast, addressed[cast.number])
        else:
            application.submit(cast, cast.destinations)
    if len(run) == 1:
        application.submit(run[0])
    elif run:
        application.submit_all(run)


def check_payload(payload: bytes) -> None:
    if not isinstance(payload, bytes):
        raise TypeError(f"a payload is bytes, not {type(payload).__name__}: encode it first")
    if len(payload) > LARGEST_BYTES:
        raise LocalError(f"a payload of {len(payload)} bytes; a message carries at most {LARGEST_BYTES}")
