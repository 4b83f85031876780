"""A group as a Python program uses it.

    async with Group.join("network.toml", site="paris-0", ports=ports) as group:
        await group.send(b"hello")
        async for message in group:
            print(message.sender, message.payload)

`ports` says where each site listens, the same at all sites: a port of the loopback, or "host:port". Where the topology
has `address`es, it may be left out.

The sites agree on views: one that crashes or is cut off is left out, and a majority goes on; it may come back, with the
others' `state`. The first `send` waits until all sites are there, or for `FORM_S` with those that are;
docs/design/live.md says what a sender knows, and when else it waits. With `membership="static"` all sites of the
topology are in, in view 1, there yet or not. One that was stopped cannot join again while the others go on: they refuse
it, and its `send`, iteration and `settle` raise `Refused`.

Messages that are sent in one round of the event loop leave together, at its end; a sender that does nothing else is
made to wait for that after `TURN_MAX` of them. `batches` gives what has come in lists, for programs that want it fast.

Back-pressure, both ways: `send` waits while the stack is busy; a message counts as consumed when the iteration takes
it, so that a slow reader slows its senders. Unread messages are bounded by flow control: window times members, twice
that just after a view change.

A wait of more than a second is logged (`isthmus.live`), with what is waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from isthmus.core.errors import InputError, LocalError
from isthmus.core.layer import Finality, Reading, View
from isthmus.core.message import ALL, Cast, SiteId
from isthmus.live.api.delivered import Delivered
from isthmus.live.api.errors import Blocked, Refused
from isthmus.live.api.participants import Desk, LiveParticipant
from isthmus.live.api.plans import GroupPlan, JoinedGroup, Membership, Where, membership_of
from isthmus.live.api.router import NodeOptions, composed_member, only_group, options_by_node
from isthmus.live.api.sending import Sending
from isthmus.live.clock.service import ClockPlan
from isthmus.live.node.inbox import Inbox
from isthmus.live.node.member import Member
from isthmus.live.node.peers import logger
from isthmus.live.node.submitting import check_payload
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.protocols.participants.detector import DetectorOptions
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.options import RouterOptions
from isthmus.scenario.workload import named_sites
from isthmus.stacks.registry import StackOptions
from isthmus.topology.model import Topology
from isthmus.trace.schema import Sink

LEAVE_S = 2.0  # how long leaving waits, at most, for the others to go on without this site
SETTLE_S = 2.0  # how long leaving waits, at most, for others to have what was sent


class Group:
    """One site's membership in a group."""

    def __init__(
        self,
        member: Member,
        joined: JoinedGroup,
        state: Callable[[], bytes] | None = None,
        restore: Callable[[bytes], None] | None = None,
        view_events: bool = False,
    ) -> None:
        self.member = member
        self.topology = member.topology
        self.site = member.site
        self.plan = joined.plan
        self.options = joined.options
        self.view = View(1, joined.members) if member.agreed is None else View(0, ())
        self.state = state
        self.restore = restore
        self.view_events = view_events
        self.on_tentative: Callable[[Delivered, Finality], None] | None = None  # told at once of what is not final
        self._sending = Sending(member, joined)
        self.application = self._sending.application = Application(
            on_deliver=self._deliver,
            on_deliver_all=self._deliver_all,
            on_resume=self._sending.writable.set,
            on_view=self._view,
            on_state=self._snapshot if state is not None else None,
            on_restore=self._restore if restore is not None else None,
            auto_consume=False,
        )
        joined.application = self.application
        joined.on_end = self._end
        joined.on_life = self._begin_life
        self._joined = joined
        names = () if member.routes is None else [group.plan.name for group in member.groups]
        self._inbox = Inbox([each.name for each in self.topology.sites], names, joined.group)
        self._watchers: list[asyncio.Queue[View]] = []
        self._changed = asyncio.Event()  # something was delivered, or the group was left
        self.detector: DetectorOptions | None = None  # of participants; set before joining
        self._desk: Desk | None = None

    @classmethod
    def join(
        cls,
        topology: Topology | Path | str,
        site: str,
        ports: Mapping[str, Where] | None = None,
        stack: str | None = None,
        options: StackOptions | NodeOptions | None = None,
        emulate: bool = False,
        datagram_bytes: int | None = None,
        membership: Membership = None,
        state: Callable[[], bytes] | None = None,
        restore: Callable[[bytes], None] | None = None,
        view_events: bool = False,
        addresses: Mapping[str, Where] | None = None,
        composition: Composition | Path | str | None = None,
        clocks: ClockPlan | None = None,
        router: RouterOptions | None = None,
    ) -> Group:
        """A group to be entered with `async with`.

        `ports` or `addresses` says where sites listen; of those that neither names, the topology says it.
        `emulate` adds the topology's delays and losses. `datagram_bytes` is what the path takes in one piece: by
        default 60,000 where all sites are on the loopback, 1,400 elsewhere and where a network is emulated.

        `membership` is how the sites agree on views, "static" for all sites, for good; None: they agree, where the
        stack can. `state` gives what this application knows from all messages that its iteration has given so far,
        `restore` takes it over at a site that joins. `clocks` has the sites run the clock service: see `clock`.

        `stack` is token-site where nothing is said. With a `composition` the group is the one that this site is a
        process of, with the stack that it has there; `options` are then by node, and `router` has how much may be under
        way, and whether routes are recomputed, which is the same at all sites.
        """
        where = {**(ports or {}), **(addresses or {})}
        if composition is not None:
            by_node = options_by_node(stack, options)
            member = composed_member(
                topology, site, where, composition, by_node, router, emulate, datagram_bytes, membership
            )
            member.clock_plan = clocks
            return cls(member, only_group(member), state, restore, view_events)
        if router is not None:
            raise InputError("router", "", "options of routers", "nothing, where there is no composition")
        if isinstance(options, Mapping):
            raise InputError("options", "", "options by node", "StackOptions, where there is no composition")
        plans = [GroupPlan("", stack or "token-site", (), options)]
        agreed = membership_of(membership, plans)
        member = Member(topology, site, where, plans, emulate, datagram_bytes, agreed)
        member.clock_plan = clocks
        return cls(member, member.groups[0], state, restore, view_events)

    @property
    def sink(self) -> Sink | None:
        """Where the trace goes; to be set before joining."""
        return self.member.sink

    @sink.setter
    def sink(self, sink: Sink | None) -> None:
        self.member.sink = sink

    async def __aenter__(self) -> Self:
        await self.member.open()
        self.attach()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.leave()
        finally:
            self.member.close()

    def attach(self) -> None:
        """Take part in the turns of the site."""
        if self.on_tentative is None:
            self.application.wants = (Finality.FINAL,)
        driver = self.member.joined()
        driver.gatherers.append(self._gather)
        if self.options.participants is not None and self._joined.port is not None:
            self._desk = Desk(driver, self._joined, self._joined.port, self.detector)

    def participant(self, group: str, name: str) -> LiveParticipant:
        """A participant of a light group at this site, to be entered with `async with`."""
        return LiveParticipant(self._find_desk, group, name)

    def _find_desk(self) -> Desk:
        if self._desk is None:
            raise LocalError("the group is not joined, or without StackOptions(participants=ParticipantsOptions())")
        return self._desk

    async def leave(self) -> None:
        """Give the others time to get what was sent; then leave, with all groups of this site."""
        await self.settle_at_end()
        await self.member.leave_groups(LEAVE_S)

    async def settle_at_end(self) -> None:
        """Wait until the others have what was sent, for a while, and say so where they have not."""
        if not await self.settle():
            logger.warning("left before all had what was sent; waited for %s", self.waits_for())

    # Who is in

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of the view, by seniority; () while this site is in none."""
        return tuple(self.name(site) for site in self.view.members)

    @property
    def blocked(self) -> bool:
        """Whether nothing can be sent now: there is no view, or it changes, or this side of it has no majority."""
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
        """Wait until this site is in a view."""
        while self.view.view_id == 0:
            self.member.joined()
            self._changed.clear()
            await self._changed.wait()
        return self.view

    def clock(self) -> Reading:
        """The time, and where the clock service runs (`clocks=ClockPlan()`) how far it may be off, and its state."""
        return self.member.clock()

    # Sending

    async def send(
        self,
        payload: bytes,
        to: Sequence[str] = (),
        timeout: float | None = None,
        wait: bool = True,
        groups: Sequence[str] = (),
    ) -> Cast:
        """Multicast to all, to the named sites and clusters, or to groups of a composition; waits while busy.

        After `timeout` seconds of waiting it raises SendTimeout, which says what is waited for; nothing was sent then.
        Without `wait` it raises Blocked where the view changes, or this site is not with a majority of it.
        """
        if type(payload) is not bytes or len(payload) > LARGEST_BYTES:
            check_payload(payload)
        if not wait and self.blocked:
            raise Blocked(f"not sent; it waits for {self.waits_for()}")
        destinations = named_sites(self.topology, tuple(to), "to") if to else ALL
        driver, sending = self.member.driver, self._sending
        addressed = sending.group_ids(groups, to) if groups else ()
        if driver is None or driver.closed or not sending.has_room():
            await sending.until_writable(timeout)
            driver = self.member.joined()
        if addressed and addressed != (self._joined.group,):
            cast = self.application.prepare_routed(payload, addressed)
            sending.addressed[cast.number] = addressed
        else:
            cast = self.application.prepare(payload, destinations)
        sending.casts.append(cast)
        if not driver.turn_asked:
            driver.turn_soon()
        return cast

    async def settle(self, timeout: float = SETTLE_S) -> bool:
        """Wait until the others have all that was sent here, as they could not ask for it once this site is gone."""
        return await self._sending.settle(timeout)

    def waits_for(self) -> str:
        """What the stack waits for, in words."""
        return self._sending.waits_for()

    # Reading

    async def __aiter__(self) -> AsyncIterator[Any]:
        """The messages in order, with `view_events` views among them; ends when the group is left."""
        inbox = self._inbox
        while await self._has_unread():
            while inbox.unread:
                event = inbox.take()
                driver = self.member.driver
                if driver is not None and not driver.turn_asked:
                    driver.turn_soon()
                yield event

    async def __anext__(self) -> Any:
        """The next message in order."""
        if not self._inbox.unread and not await self._has_unread():
            raise StopAsyncIteration
        self._turn_soon()
        return self._inbox.take()

    async def batches(self) -> AsyncIterator[list[Any]]:
        """The messages in order, as lists of all that have come; each counts as consumed when it is given."""
        while await self._has_unread():
            self._turn_soon()
            yield self._inbox.take_all()

    def _turn_soon(self) -> None:
        if self.member.driver is not None:
            self.member.driver.turn_soon()

    async def _has_unread(self) -> bool:
        """Wait for a message; False: the group was left, and nothing is unread."""
        while not self._inbox.unread:
            if self.member.refused_why:
                raise Refused(self.member.refused_why)
            if self.member.driver is None:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True

    def name(self, site: SiteId) -> str:
        return self.topology.sites[site].name

    # Turns

    def _gather(self) -> None:
        """Hand over what this turn has read and sent."""
        port = self._joined.port
        assert port is not None
        port.enter()
        if self._inbox.taken:
            taken, self._inbox.taken = self._inbox.taken, []
            self.application.consumed_all(taken)
        self._sending.gather()

    def _deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is Finality.FINAL:
            self._inbox.put(cast, self.application.stack.position)
            self._changed.set()
        elif self.on_tentative is not None:
            self.on_tentative(self._inbox.named(cast), finality)

    def _deliver_all(self, casts: Sequence[Cast]) -> None:
        self._inbox.put_all(casts, self.application.stack.position)
        self._changed.set()

    def _view(self, view: View) -> None:
        self.view = view
        self._sending.note_view(view)
        logger.info("view %d of %s: %s", view.view_id, self.name(self.site), ", ".join(self.members))
        for queue in self._watchers:
            queue.put_nowait(view)
        asyncio.get_running_loop().call_soon(self._sending.writable.set)  # it is resumed by then
        if self.view_events:
            self._inbox.put(view)
        self._changed.set()

    def _snapshot(self) -> bytes:
        assert self.state is not None
        return self._inbox.snapshot(self.state())

    def _restore(self, snapshot: bytes) -> None:
        assert self.restore is not None
        self.restore(self._inbox.hand_over(snapshot))
        self._changed.set()

    def _begin_life(self) -> None:
        """Forget what belongs to the life before: the state will come anew."""
        self.view, self._sending.casts, self._sending.addressed = View(0, ()), [], {}
        self._inbox.clear()
        self._sending.writable.set()
        self._changed.set()

    def _end(self) -> None:
        """Wake all that wait: the group was left, or the others refuse this site; then nothing unread counts."""
        if self.member.refused_why:
            self._inbox.clear()
        for queue in self._watchers:
            queue.put_nowait(View(0, ()))
        self._sending.writable.set()
        self._changed.set()
        if self._desk is not None:
            self._desk.close()
