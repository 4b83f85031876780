"""Participants as a Python program uses them: light groups at one site of a joined group.

    options = StackOptions(participants=ParticipantsOptions())
    async with Group.join("network.toml", site="paris-0", ports=ports, options=options) as group:
        async with group.participant("orders", "ann") as ann:
            await ann.send(b"hello")
            async for event in ann:  # a ParticipantView, first of all the one that ann is in, or a Speech
                ...

Entering waits until the participant is a member; leaving waits until it is out. A message counts as consumed when all
participants of its group at this site have taken it, so that a slow one slows its senders.

Where members of the site group agree on views, a site that others went on without begins a new life. Its participants
were removed with the old one, at the same place for all; they join again by themselves, and the next that their
iteration gives is the view that they are in then. What they had not read is gone.

`watch_process` and `watch_channel` hand a participant over to the failure detector of the site: it leaves when its
process ends, its channel closes, or it does not answer; `removed_why` then says why, and the iteration ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Self

from isthmus.core.errors import Busy, LocalError
from isthmus.live.api.plans import JoinedGroup
from isthmus.live.net.framing import PAYLOAD_MAX
from isthmus.live.node.driver import Driver
from isthmus.live.node.participant_watch import LocalWatch
from isthmus.live.node.peers import logger
from isthmus.live.node.site import LivePort
from isthmus.protocols.participants.detector import DetectorOptions, Removal
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import Participant, ParticipantView, Speech

HEAD_MAX = 1024  # bytes: two names of a hundred letters each, and numbers
LEAVE_S = 5.0  # how long leaving waits, at most, to be out


class Share:
    """A message on its way to the participants of a group at this site."""

    __slots__ = ("left", "speech")

    def __init__(self, speech: Speech, left: int) -> None:
        self.speech = speech
        self.left = left  # participants that have not taken it


class Desk:
    """The participants of one site in one site group."""

    def __init__(
        self, driver: Driver, joined: JoinedGroup, port: LivePort, detector: DetectorOptions | None = None
    ) -> None:
        self.driver = driver
        self.watch = LocalWatch(self.remove, detector)
        self.here: dict[tuple[str, str], LiveParticipant] = {}  # by group and name
        self.attach(port)
        joined.on_stack = self.begin_life

    def attach(self, port: LivePort) -> None:
        """Serve participants by the stack of one life of the site."""
        self.port = port
        self.layer = port.stack.find(Participants)
        self.layer.on_view, self.layer.on_message, self.layer.on_room = self.tell_view, self.tell_speech, self.wake
        self.layer.auto_consume = False

    def begin_life(self, port: LivePort) -> None:
        """Have the participants of a life that others went on without join again."""
        self.attach(port)
        for key, participant in self.here.items():
            participant.lose_life()
            if not participant.gone:
                self.run(partial(self.layer.join, *key))

    def run(self, event: Callable[[], None]) -> None:
        self.driver.run(self.port, event)

    def tell_view(self, view: ParticipantView) -> None:
        for (group, _), participant in list(self.here.items()):
            if group == view.group:
                participant.take_view(view)

    def tell_speech(self, speech: Speech) -> None:
        readers = [one for (group, _), one in self.here.items() if group == speech.group and one.present]
        share = Share(speech, len(readers))
        for reader in readers:
            reader.put(share)
        if not readers:
            self.layer.done_with(speech)

    def done(self, share: Share) -> None:
        """Note that one participant has taken a message."""
        share.left -= 1
        if not share.left:
            self.run(lambda: self.layer.done_with(share.speech))

    def wake(self) -> None:
        for participant in self.here.values():
            participant.changed.set()

    def remove(self, removal: Removal[tuple[str, str]]) -> None:
        """Take a participant out that has ended, or was decided to have."""
        participant = self.here.get(removal.key)
        if participant is not None:
            group, name = removal.key
            logger.warning("participant %s leaves %s: %s", name, group, removal.reason)
            participant.removed_why = removal.reason
            participant.ask_to_leave()

    def close(self) -> None:
        self.watch.close()
        self.wake()


class LiveParticipant:
    """One participant of a group, at this site."""

    def __init__(self, desk: Callable[[], Desk], group: str, name: str) -> None:
        self.find_desk = desk
        self.group = group
        self.name = name
        self.present = False  # it is in the installed view
        self.gone = False  # it has left
        self.leaving = False  # it is to
        self.lost = False  # it was removed with a life of its site, and joins again
        self.closing = False  # nobody reads any more
        self.removed_why = ""  # by the failure detector
        self.changed = asyncio.Event()  # something came, or a buffer has room
        self.unread: deque[ParticipantView | Share] = deque()

    @property
    def desk(self) -> Desk:
        return self.find_desk()

    async def __aenter__(self) -> Self:
        desk, key = self.desk, (self.group, self.name)
        if key in desk.here:
            raise LocalError(f"{self.name!r} is in {self.group!r} here already")
        desk.here[key] = self
        try:
            desk.run(lambda: desk.layer.join(self.group, self.name))
            while not self.present:
                await self.pause()
        except BaseException:  # also where the wait is cancelled
            if key in desk.layer.stays and not desk.driver.closed:
                self.ask_to_leave()
            del desk.here[key]
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        desk = self.desk
        self.closing = True
        self.drop_unread()
        if not desk.driver.closed:
            self.ask_to_leave()
            try:
                async with asyncio.timeout(LEAVE_S):
                    while not self.gone:
                        await self.pause()
            except TimeoutError:
                logger.warning("participant %s of %s has not left within %g s", self.name, self.group, LEAVE_S)
        desk.watch.forget((self.group, self.name))
        desk.here.pop((self.group, self.name), None)

    def watch_process(self, pid: int) -> None:
        """Leave when a process ends."""
        self.desk.watch.watch_process((self.group, self.name), pid)

    def watch_channel(self, channel: socket.socket) -> None:
        """Leave when a channel closes, or a probe over it stays unanswered too long."""
        self.desk.watch.watch_channel((self.group, self.name), channel)

    @property
    def view(self) -> ParticipantView:
        return self.desk.layer.view_of(self.group)

    async def send(self, payload: bytes) -> None:
        """Multicast to the members, this one included.

        Waits while a buffer is full, and while this site is out of the site group and on its way back.
        """
        if len(payload) > PAYLOAD_MAX - HEAD_MAX:
            raise LocalError(f"a payload of {len(payload)} bytes; a participant sends at most {PAYLOAD_MAX - HEAD_MAX}")
        while True:
            while self.lost and not self.present and not self.gone:
                await self.pause()
            try:
                self.desk.run(lambda: self.desk.layer.say(self.group, self.name, payload))
                return
            except Busy:
                await self.pause()

    async def __aiter__(self) -> AsyncIterator[ParticipantView | Speech]:
        """Views and messages in order; ends when the participant has left."""
        while True:
            while self.unread:
                event = self.unread.popleft()
                if isinstance(event, Share):
                    self.desk.done(event)
                    yield event.speech
                else:
                    yield event
            if self.gone:
                return
            await self.pause()

    async def pause(self) -> None:
        """Wait for something to change."""
        self.changed.clear()
        await self.changed.wait()
        if self.desk.driver.closed:
            raise LocalError("the site has left the group")

    # What the desk says

    def lose_life(self) -> None:
        """Be out of the group with the life of the site: what was not read is gone, and nobody waits for it."""
        self.unread.clear()
        self.gone = self.gone or self.leaving
        self.present, self.lost = False, True
        self.changed.set()

    def put(self, event: ParticipantView | Share) -> None:
        self.unread.append(event)
        self.changed.set()
        if self.closing:
            self.drop_unread()

    def take_view(self, view: ParticipantView) -> None:
        here = Participant(self.desk.layer.host.site, self.name) in view.members
        if here:
            self.put(view)
        self.gone = self.gone or (self.present and not here)
        self.present = here
        self.changed.set()

    def ask_to_leave(self) -> None:
        desk = self.desk
        self.leaving = True
        stay = desk.layer.stays.get((self.group, self.name))
        if stay is None:
            self.gone = True
        elif not stay.leaving:
            desk.run(lambda: desk.layer.leave(self.group, self.name))
        self.gone = self.gone or (self.group, self.name) not in desk.layer.stays
        self.changed.set()

    def drop_unread(self) -> None:
        """Give back what nobody will read."""
        for event in self.unread:
            if isinstance(event, Share) and not self.desk.driver.closed:
                self.desk.done(event)
        self.unread.clear()
