"""A group as a Python program uses it.

    async with isthmus.join("network.toml", "paris-0", addresses=addresses) as group:
        await group.send(b"hello")
        async for message in group:
            print(message.sender, message.payload)

Messages that are sent in one round of the event loop leave together; `batches` gives what has come as lists.

Back-pressure works both ways: `send` waits while the stack is busy, and a message counts as consumed when the iteration
takes it, so that a slow reader slows its senders. Unread messages are bounded by flow control: window times members,
and twice that just after a view change.

A wait of more than a second is logged (`isthmus.live`) with its reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from isthmus.core.errors import LocalError
from isthmus.core.layer import Finality, Reading, View
from isthmus.core.message import ALL, Cast, SiteId
from isthmus.live.api.events import Delivered, Event
from isthmus.live.api.inbox import Guess, Inbox
from isthmus.live.api.participants import LocalParticipant, ParticipantService
from isthmus.live.api.program_state import ProgramState, RestoreState, TakeState, gap_before, later_events
from isthmus.live.api.send_queue import SendQueue, check_payload
from isthmus.live.clock.service import ClockStatus
from isthmus.live.node.errors import Blocked, Refused
from isthmus.live.node.peers import logger
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site import LivePort
from isthmus.live.node.site_group import GroupHandler, SiteGroup
from isthmus.live.seal.status import SessionStatus
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.scenario.workload import named_sites

SETTLE_S = 2.0  # how long leaving waits, at most, for others to have what was sent


class Group:
    """The membership of one site in one group; `isthmus.join` makes it.

    Enter it with `async with`, or `await` it and call `drain` or `close` at the end.

    """

    def __init__(
        self,
        runtime: SiteRuntime,
        joined: SiteGroup,
        state: TakeState | None,
        restore: RestoreState | None,
    ) -> None:
        self.runtime = runtime
        self.topology = runtime.topology
        self.site = runtime.site
        self.name = joined.plan.name
        self.view = View(1, joined.members) if runtime.agreed is None else View(0, ())
        self._joined = joined
        names = () if runtime.routes is None else [group.plan.name for group in runtime.groups]
        self._inbox = Inbox([each.name for each in self.topology.sites], names, joined.group)
        self._changed = asyncio.Event()  # something was delivered, or the group was left
        self._inbox.wake = self._changed.set
        kept = state is not None or restore is not None
        self._program = (
            ProgramState(self._inbox, state, restore, partial(later_events, runtime, joined)) if kept else None
        )
        self._takes_over = restore is not None
        self._application = Application(
            on_deliver=self._deliver,
            on_deliver_all=self._deliver_all,
            on_resume=self._resume,
            on_view=self._install,
            keeper=self._program,
            auto_consume=False,
            wants=(Finality.FINAL,),
        )
        self._sending = SendQueue(runtime, joined, self._application)
        self._missed = runtime.agreed is not None  # what the group had before this life, unless a state comes
        self._watchers: list[asyncio.Queue[View]] = []
        self._participants: ParticipantService | None = None

    # Joining and leaving

    async def __aenter__(self) -> Self:
        await self.runtime.open()
        return self

    def __await__(self) -> Generator[object, None, Self]:
        return self.__aenter__().__await__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is None:
            await self.drain()
        else:
            await self.close()

    async def drain(self, timeout: float = SETTLE_S) -> bool:
        """Send what is queued, wait until the others have it, then leave in order and close.

        The whole site is closed, with all groups that it is in. After `timeout` seconds it leaves anyway, logs a
        warning with the reason, and returns False. What is unread can still be read.

        Example: `if not await group.drain(timeout=10): ...`
        """
        return await self.runtime.drain(timeout)

    async def close(self) -> None:
        """Leave at once, without waiting for anything; the others find out as after a crash."""
        self.runtime.close()

    # Membership

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of the view, by seniority; () while this site is in none."""
        return tuple(self.site_name(site) for site in self.view.members)

    @property
    def blocked(self) -> bool:
        """Whether nothing can be sent now: there is no view, it changes, or this side of it has no majority."""
        return self._sending.is_blocked()

    async def views(self) -> AsyncIterator[View]:
        """The view that is installed, and each one that follows; ends when the group is left."""
        queue: asyncio.Queue[View] = asyncio.Queue()
        if self.view.view_id:
            queue.put_nowait(self.view)
        self._watchers.append(queue)
        try:
            while (view := await queue.get()).view_id:
                yield view
        finally:
            self._watchers.remove(queue)

    async def ready(self) -> View:
        """Wait until this site is in a view, and return it."""
        while self.view.view_id == 0:
            self.runtime.joined()
            self._changed.clear()
            await self._changed.wait()
        return self.view

    def site_name(self, site: SiteId) -> str:
        """The name of a site by its number, such as those in a `View`."""
        return self.topology.sites[site].name

    def participant(self, group: str, name: str) -> LocalParticipant:
        """A participant of a light group at this site, to be entered with `async with`.

        Example: `async with group.participant("orders", "ann") as ann: await ann.send(b"hello")`
        """
        return LocalParticipant(self._participant_service, group, name)

    # Time

    def clock(self) -> Reading:
        """The time; with `SiteConfig(clocks=ClockPlan())` also how far it may be off, and the state of the clock.

        Example: `earliest, latest = group.clock().interval()`
        """
        return self.runtime.clock()

    def clock_status(self) -> ClockStatus:
        """How the clock of this site is kept; raises LocalError where the clock service does not run."""
        return self.runtime.clock_status()

    def reload_keys(self) -> None:
        """Read the key file again: what rests on a key that is gone ends, and new sessions rest on the first."""
        self.runtime.reload_keys()

    def sessions(self) -> list[SessionStatus]:
        """The sealed sessions with the other sites; empty in clear."""
        return self.runtime.sessions()

    # Sending

    async def send(
        self,
        payload: bytes,
        *,
        to: Sequence[str] = (),
        groups: Sequence[str] = (),
        timeout: float | None = None,
        wait: bool = True,
    ) -> Cast:
        """Multicast to all members, or to some; returns once the message is numbered and queued.

        Args:
            payload: at most 64 MiB.
            to: the names of the sites and clusters that it is for; () for all.
            groups: in a composition, the names of the groups that it is for.
            timeout: how long to wait while the stack is busy; then SendTimeout names the sites that are waited for,
                and nothing was sent.
            wait: whether to wait while the view changes or this site is not with a majority; otherwise raises Blocked.

        Example: `await group.send(b"order 17", to=["tokyo"], timeout=0.5)`
        """
        if type(payload) is not bytes or len(payload) > LARGEST_BYTES:
            check_payload(payload)
        if not wait and self.blocked:
            raise Blocked(f"not sent; it waits for {self.waits_for()}")
        destinations = named_sites(self.topology, tuple(to), "to") if to else ALL
        driver, sending = self.runtime.driver, self._sending
        addressed = sending.group_ids(groups, to) if groups else ()
        if driver is None or driver.closed or not sending.has_room():
            await sending.until_writable(timeout)
            driver = self.runtime.joined()
        if addressed and addressed != (self._joined.group,):
            cast = self._application.prepare_routed(payload, addressed)
            sending.addressed[cast.number] = addressed
        else:
            cast = self._application.prepare(payload, destinations)
        sending.casts.append(cast)
        if not driver.turn_asked:
            driver.turn_soon()
        return cast

    async def settle(self, timeout: float = SETTLE_S) -> bool:
        """Wait until the others have all that was sent here, and return whether they do.

        False, once, also where the others went on without this site, which joined again, before they had all: what it
        had sent may be lost. Once this site is gone, nobody can ask it for a retransmission.
        """
        return await self._sending.settle(timeout)

    def waits_for(self) -> str:
        """What the stack waits for, as a phrase for people."""
        return self._sending.waits_for()

    # Reading

    async def __aiter__(self) -> AsyncIterator[Delivered]:
        """The messages in order; ends when the group is left."""
        inbox = self._inbox
        while await self._has_unread():
            while inbox.unread:
                event = inbox.take()
                driver = self.runtime.driver
                if driver is not None and not driver.turn_asked:
                    driver.turn_soon()
                if type(event) is Delivered:
                    yield event

    async def __anext__(self) -> Delivered:
        """The next message in order."""
        while self._inbox.unread or await self._has_unread():
            self._turn_soon()
            if isinstance(event := self._inbox.take(), Delivered):
                return event
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[list[Delivered]]:
        """The messages in order, as lists of all that have come; each counts as consumed when it is given."""
        while await self._has_unread():
            self._turn_soon()
            if messages := self._inbox.take_all():
                yield messages

    def events(self, tentative: bool = False) -> AsyncIterator[Event]:
        """Messages, views and gaps in order; with `tentative` also the guesses of an optimistic order.

        Guesses are given from this call on, as `Tentative`, and as `Revoked` where they will never come true. One
        reader at a time: what this iteration gives, another one does not.

        Example:
            async for event in group.events():
                match event:
                    case Delivered(): ...
                    case View(): ...
                    case Gap(): ...
        """
        if tentative:
            self._application.wants = tuple(Finality)
        return self._events()

    async def _events(self) -> AsyncIterator[Event]:
        while await self._has_unread():
            self._turn_soon()
            yield self._inbox.take()

    def _turn_soon(self) -> None:
        if self.runtime.driver is not None:
            self.runtime.driver.turn_soon()

    async def _has_unread(self) -> bool:
        """Wait for an event; False: the group was left, and nothing is unread."""
        while not self._inbox.unread:
            if self.runtime.driver is None:
                if self.runtime.failure is not None:
                    self.runtime.joined()  # raises
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    # Called by the runtime of the site

    def _handler(self) -> GroupHandler:
        return GroupHandler(
            application=lambda: self._application,
            on_stack=self._on_stack,
            gather=self._gather,
            on_life_end=self._on_life_end,
            on_end=self._on_end,
            settle=self._settle_at_end,
        )

    async def _settle_at_end(self, timeout: float) -> bool:
        settled = await self.settle(timeout)
        if not settled:
            logger.warning("left with unacknowledged data; waiting for %s", self.waits_for())
        return settled

    def _on_stack(self, port: LivePort) -> None:
        if self._joined.options.participants is not None:
            if self._participants is None:
                self._participants = ParticipantService(self.runtime, port)
            else:
                self._participants.begin_life(port)

    def _gather(self) -> None:
        port = self._joined.port
        assert port is not None
        port.enter()
        if self._inbox.taken:
            taken, self._inbox.taken = self._inbox.taken, []
            self._application.consumed_all(taken)
        self._sending.gather()

    def _on_life_end(self) -> None:
        self.view, self._missed = View(0, ()), True
        if self._program is not None:
            self._program.end_life()
        self._sending.clear()
        self._inbox.clear()
        self._wake()

    def _on_end(self) -> None:
        if isinstance(self.runtime.failure, Refused):
            self._inbox.clear()
        for queue in self._watchers:
            queue.put_nowait(View(0, ()))
        self._wake()
        if self._participants is not None:
            self._participants.close()

    # Called by the stack

    def _deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is Finality.FINAL:
            self._inbox.put(cast, self._application.stack.position)
            if self._inbox.holding:
                self._turn_soon()
        else:
            self._inbox.put(Guess(cast, finality))
        self._changed.set()

    def _deliver_all(self, casts: Sequence[Cast]) -> None:
        self._inbox.put_all(casts, self._application.stack.position)
        if self._inbox.holding:
            self._turn_soon()
        self._changed.set()

    def _resume(self) -> None:
        self._sending.writable.set()

    def _install(self, view: View) -> None:
        self.view = view
        self._sending.note_view(view)
        logger.info("view %d of %s: %s", view.view_id, self.site_name(self.site), ", ".join(self.members))
        for queue in self._watchers:
            queue.put_nowait(view)
        asyncio.get_running_loop().call_soon(self._sending.writable.set)  # it is resumed by then
        if self._missed and not self._takes_over and not self._joined.begins(view):
            self._inbox.put_event(gap_before(view, self._joined.plan.stack, self._inbox.last))
        self._missed = False
        self._inbox.put_event(view)
        self._changed.set()

    def _wake(self) -> None:
        """Wake all that wait for a message or for room."""
        self._sending.writable.set()
        self._changed.set()

    def _participant_service(self) -> ParticipantService:
        if self._participants is None:
            raise LocalError("the group is not joined, or without StackOptions(participants=ParticipantsOptions())")
        return self._participants
