"""Participants as a Python program uses them: light groups at one site of a joined group.

    options = StackOptions(participants=ParticipantsOptions())
    async with isthmus.join("network.toml", "paris-0", options=options) as group:
        async with group.participant("orders", "ann") as ann:
            await ann.send(b"hello")
            async for event in ann:  # a ParticipantView, at first the one that admits ann, or a message
                ...

Entering waits until the participant is a member; leaving waits until it is out. A message counts as consumed when all
participants of its group at this site have taken it, so that a slow one slows its senders.

Where members of the site group agree on views, a site that the others went on without begins a new life. Its
participants were removed with the old one, at the same place everywhere; they join again by themselves, and their
iteration goes on with the view that admits them. What they had not read is gone.

`watch_process` and `watch_channel` hand a participant over to the failure detector of the site: it leaves when its
process ends, its channel closes, or it does not answer; `removed_why` then has the reason, and the iteration ends.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from types import TracebackType
from typing import Self

import msgspec

from isthmus.core.errors import Busy, LocalError
from isthmus.core.layer import Finality
from isthmus.live.net.framing import PAYLOAD_MAX
from isthmus.live.node.participant_watch import ParticipantWatch
from isthmus.live.node.peers import logger
from isthmus.live.node.runtime import SiteRuntime
from isthmus.live.node.site import LivePort
from isthmus.protocols.participants.detector import Removal
from isthmus.protocols.participants.ordered import Participants
from isthmus.protocols.participants.wire import Participant, ParticipantView, Speech

HEAD_MAX = 1024  # bytes: two names of a hundred letters each, and numbers
LEAVE_S = 5.0  # how long leaving waits, at most, to be out


class SharedDelivery:
    """A message on its way to the participants of a group at this site."""

    __slots__ = ("left", "speech")

    def __init__(self, speech: Speech, left: int) -> None:
        self.speech = speech
        self.left = left  # participants that have not taken it


class ParticipantService:
    """The participants of one site in one site group."""

    def __init__(self, runtime: SiteRuntime, port: LivePort) -> None:
        self.runtime = runtime
        self.watch = ParticipantWatch(self.remove, runtime.config.detector)
        self.here: dict[tuple[str, str], LocalParticipant] = {}  # by group and name
        self.attach(port)

    def attach(self, port: LivePort) -> None:
        """Serve participants by the stack of one life of the site."""
        self.port = port
        self.layer = port.stack.find(Participants)
        self.layer.on_view, self.layer.on_message, self.layer.on_room = self.on_view, self.on_message, self.wake
        self.layer.guesses.on_guess, self.layer.auto_consume = self.on_guess, False

    def begin_life(self, port: LivePort) -> None:
        """Serve a new life of the site, in which the participants of the old one join again."""
        self.attach(port)
        for key, participant in self.here.items():
            participant._lose_life()
            if not participant.gone:
                self.run(partial(self.layer.join, *key))

    def run(self, event: Callable[[], None]) -> None:
        self.runtime.run(self.port, event)

    def on_view(self, view: ParticipantView) -> None:
        for (group, _), participant in list(self.here.items()):
            if group == view.group:
                participant._take_view(view)

    def on_message(self, speech: Speech) -> None:
        readers = [one for (group, _), one in self.here.items() if group == speech.group and one.present]
        share = SharedDelivery(speech, len(readers))
        for reader in readers:
            reader._put(share)
        if not readers:
            self.layer.done_with(speech)

    def on_guess(self, speech: Speech) -> None:
        for (group, _), participant in list(self.here.items()):
            if group == speech.group and participant.present and participant.guesses:
                participant._put_guess(speech)

    def done(self, share: SharedDelivery) -> None:
        """Note that one participant has taken a message."""
        share.left -= 1
        if not share.left:
            self.run(lambda: self.layer.done_with(share.speech))

    def wake(self) -> None:
        for participant in self.here.values():
            participant.changed.set()

    def remove(self, removal: Removal[tuple[str, str]]) -> None:
        """Have a participant leave that has ended, or does not answer."""
        participant = self.here.get(removal.key)
        if participant is not None:
            group, name = removal.key
            logger.warning("participant %s leaves %s: %s", name, group, removal.reason)
            participant.removed_why = removal.reason
            participant._ask_to_leave()

    def close(self) -> None:
        self.watch.close()
        self.wake()


class LocalParticipant:
    """One participant of a light group, at this site; `Group.participant` makes it.

    Example: `async with group.participant("orders", "ann") as ann: await ann.send(b"hello")`
    """

    def __init__(self, find_service: Callable[[], ParticipantService], group: str, name: str) -> None:
        self._find_service = find_service
        self.group = group
        self.name = name
        self.present = False  # it is in the installed view
        self.gone = False  # it has left
        self.leaving = False  # it is to
        self.lost = False  # it was removed with a life of its site, and joins again
        self.closing = False  # nobody reads any more
        self.guesses = False  # tentative messages are wanted, and what becomes of them
        self.removed_why = ""  # by the failure detector
        self.changed = asyncio.Event()  # something came, or a buffer has room
        self.unread: deque[ParticipantView | SharedDelivery | Speech] = deque()
        self.guessed: list[Speech] = []  # read as tentative, and neither final nor revoked yet

    @property
    def _service(self) -> ParticipantService:
        return self._find_service()

    async def __aenter__(self) -> Self:
        service, key = self._service, (self.group, self.name)
        service.runtime.joined()
        if key in service.here:
            raise LocalError(f"{self.name!r} is in {self.group!r} here already")
        service.here[key] = self
        try:
            service.run(lambda: service.layer.join(self.group, self.name))
            while not self.present:
                await self._pause()
        except BaseException:  # also where the wait is cancelled
            if key in service.layer.stays and service.runtime.is_open():
                self._ask_to_leave()
            del service.here[key]
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        service = self._service
        self.closing = True
        self._drop_unread()
        if service.runtime.is_open():
            self._ask_to_leave()
            try:
                async with asyncio.timeout(LEAVE_S):
                    while not self.gone:
                        await self._pause()
            except TimeoutError:
                logger.warning("participant %s of %s has not left within %g s", self.name, self.group, LEAVE_S)
        service.watch.forget((self.group, self.name))
        service.here.pop((self.group, self.name), None)

    def watch_process(self, pid: int) -> None:
        """Leave when a process ends."""
        self._service.watch.watch_process((self.group, self.name), pid)

    def watch_channel(self, channel: socket.socket) -> None:
        """Leave when a channel closes, or a probe over it stays unanswered too long."""
        self._service.watch.watch_channel((self.group, self.name), channel)

    @property
    def view(self) -> ParticipantView:
        return self._service.layer.view_of(self.group)

    async def send(self, payload: bytes) -> None:
        """Multicast to the members, this one included.

        Waits while a buffer is full, and while this site is out of the site group and on its way back.
        """
        if len(payload) > PAYLOAD_MAX - HEAD_MAX:
            raise LocalError(f"a payload of {len(payload)} bytes; a participant sends at most {PAYLOAD_MAX - HEAD_MAX}")
        while True:
            while self.lost and not self.present and not self.gone:
                await self._pause()
            try:
                self._service.run(lambda: self._service.layer.say(self.group, self.name, payload))
                return
            except Busy:
                await self._pause()

    def events(self, tentative: bool = False) -> AsyncIterator[ParticipantView | Speech]:
        """The same as iterating; with `tentative` also the guesses of an optimistic order, from this call on.

        A guess has the finality TENTATIVE, and its message follows as FINAL, or the guess once more as REVOKED: the
        message is void where it was ordered. Its sender, if it lives, sends it again.

        Example: `async for event in ann.events(tentative=True): ...`
        """
        self.guesses = self.guesses or tentative
        return aiter(self)

    async def __aiter__(self) -> AsyncIterator[ParticipantView | Speech]:
        """Views and messages in order; ends when the participant has left."""
        while True:
            while self.unread:
                event = self.unread.popleft()
                if isinstance(event, SharedDelivery):
                    self._service.done(event)
                    event = event.speech
                if self.guesses and isinstance(event, Speech):
                    self._note_read(event)
                yield event
            if self.gone:
                return
            await self._pause()

    async def _pause(self) -> None:
        """Wait for something to change."""
        self.changed.clear()
        await self.changed.wait()
        if not self._service.runtime.is_open():
            raise LocalError("the site has left the group")

    # Called by the service

    def _note_read(self, speech: Speech) -> None:
        if speech.finality is Finality.TENTATIVE:
            self.guessed.append(speech)
            return
        said = (speech.sender, speech.payload)
        guess = next((guess for guess in self.guessed if (guess.sender, guess.payload) == said), None)
        if guess is not None:
            self.guessed.remove(guess)

    def _lose_life(self) -> None:
        """Be out of the group with the life of the site; what was not read is dropped, and what was guessed revoked."""
        revoked = [msgspec.structs.replace(guess, finality=Finality.REVOKED) for guess in self.guessed]
        self.unread, self.guessed = deque(revoked), []
        self.gone = self.gone or self.leaving
        self.present, self.lost = False, True
        self.changed.set()

    def _put(self, event: ParticipantView | SharedDelivery | Speech) -> None:
        self.unread.append(event)
        self.changed.set()
        if self.closing:
            self._drop_unread()

    def _put_guess(self, speech: Speech) -> None:
        """Add a guess; a revocation of one that is not read yet removes it, so that a slow reader has few of them."""
        guess = msgspec.structs.replace(speech, finality=Finality.TENTATIVE)
        if speech.finality is Finality.REVOKED and guess in self.unread:
            self.unread.remove(guess)
        elif not self.closing:
            self._put(speech)

    def _take_view(self, view: ParticipantView) -> None:
        here = Participant(self._service.layer.host.site, self.name) in view.members
        if here:
            self._put(view)
        self.gone = self.gone or (self.present and not here)
        self.present = here
        self.changed.set()

    def _ask_to_leave(self) -> None:
        service = self._service
        self.leaving = True
        stay = service.layer.stays.get((self.group, self.name))
        if stay is None:
            self.gone = True
        elif not stay.leaving:
            service.run(lambda: service.layer.leave(self.group, self.name))
        self.gone = self.gone or (self.group, self.name) not in service.layer.stays
        self.changed.set()

    def _drop_unread(self) -> None:
        """Count what nobody will read as consumed."""
        for event in self.unread:
            if isinstance(event, SharedDelivery) and self._service.runtime.is_open():
                self._service.done(event)
        self.unread.clear()
