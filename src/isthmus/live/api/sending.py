"""What a live group sends: gathered in turns, held back while the stack is busy, waited for with a word in the log.

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
from isthmus.live.api.errors import SendTimeout
from isthmus.live.api.plans import JoinedGroup
from isthmus.live.node.member import Member
from isthmus.live.node.submitting import Addressed, submit
from isthmus.live.node.waiting import WORD_S, Patience, waited_for
from isthmus.protocols.application import Application
from isthmus.protocols.transport.base import Transport

TURN_MAX = 64  # messages of one turn
CHECK_S = 0.02
FORM_S = 5.0  # how long the first message of a new group waits, at most, for all its sites to be in


class Sending:
    """The way of one group's messages from the program into the stack."""

    def __init__(self, member: Member, joined: JoinedGroup) -> None:
        self.member = member
        self.joined = joined
        self.application: Application  # set once it is there
        self.writable = asyncio.Event()
        self.turn_max = min(TURN_MAX, joined.options.credit.queue_max)
        self.casts: list[Cast] = []  # sent in this turn
        self.addressed: Addressed = {}  # of these, what goes to other groups
        self.patience = Patience()
        self.entered_s: float | None = None  # when this site was first in a view
        self.formed = False  # all sites of the group have been in a view together, or it has gone on for long

    def is_blocked(self) -> bool:
        """Whether nothing can be sent now: the group forms, its view changes, or this side of it has no majority."""
        port = self.joined.port
        return port is None or port.view_id == 0 or port.stack.find(Transport).blocked or self.is_forming()

    def is_forming(self) -> bool:
        """Whether a group begins, and others that are to be in it from the start are not yet: they would miss this."""
        if self.formed or self.member.agreed is None or self.entered_s is None:
            return False
        return time.monotonic() - self.entered_s < FORM_S

    def note_view(self, view: View) -> None:
        """Learn from a view whether all are there; its founder begins alone, and the others are let in one by one.

        A group begins, for the first time or after all had stopped, where no member started long before this site:
        incarnations are seconds. A site that comes back alone finds elders, and waits for nobody.
        """
        if self.entered_s is None:
            self.entered_s = time.monotonic()
            ours = self.joined.port.incarnation if self.joined.port is not None else 0
            self.formed = any(theirs < ours - FORM_S for theirs in view.incarnations)
            asyncio.get_running_loop().call_later(FORM_S, self.writable.set)
        self.formed |= len(view.members) == len(self.joined.members)

    def has_room(self) -> bool:
        """Whether this turn takes one more message; nothing is submitted before its end, so the stack is asked once."""
        if self.casts:
            return len(self.casts) < self.turn_max and not self.application.fragments.prepared_count
        if self.member.agreed is not None and self.is_blocked():
            return False  # what waited in the stack would be lost with this life
        return self.application.writable()

    async def until_writable(self, timeout: float | None) -> None:
        """Wait until the stack takes a message and this turn has room for it."""
        started_s = time.monotonic()
        while True:
            self.member.joined()
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
        word_s = max(started_s, self.patience.logged_s) + WORD_S
        until_s = word_s if end_s is None else min(word_s, end_s)
        try:
            async with asyncio.timeout(max(0.0, until_s - time.monotonic())):
                await event.wait()
        except TimeoutError:
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                raise SendTimeout(f"not sent within {timeout:g} s; waiting for {self.waits_for()}") from None
            self.patience.log("send", now_s - started_s, self.waits_for)

    async def settle(self, timeout: float) -> bool:
        """Wait until the others have all that was sent here; whether they have."""
        started_s = time.monotonic()
        while True:
            self.member.joined()
            if not self.casts and self.application.settled():
                return True
            waited_s = time.monotonic() - started_s
            if waited_s >= timeout and not self.casts:
                return False
            if waited_s > WORD_S:
                self.patience.log("settle", waited_s, self.waits_for)
            await asyncio.sleep(CHECK_S if not self.casts else 0)

    def waits_for(self) -> str:
        """What the stack waits for, in words."""
        port = self.joined.port
        if port is None:
            return "nothing: the group is not joined"
        if port.view_id == 0:
            return "a view to be let into"
        if self.is_forming():
            missing = [site for site in self.joined.members if site not in port.stack.view.members]
            return f"{', '.join([self.member.topology.sites[site].name for site in missing])} to come in"
        if self.is_blocked():
            view = port.stack.view
            names = ", ".join([self.member.topology.sites[site].name for site in view.members])
            return f"a majority of view {view.view_id} ({names}) to go on"
        return waited_for(port.stack, port.owner.peers, port.owner.clock())

    def group_ids(self, names: Sequence[str], to: Sequence[str]) -> tuple[GroupId, ...]:
        """The groups of a composition by their names, ascending; raises where this one may not send to them."""
        routes = self.member.routes
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
            addressed, self.addressed = self.addressed, {}
            submit(self.application, casts, addressed)
