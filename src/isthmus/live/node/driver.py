"""A live site on a socket, under asyncio: when the site is called.

Reading the socket is a turn: up to 32 datagrams, then the end of the turn, in which their acknowledgements, grants and
tickets leave together. What the application does in one round of the event loop is a turn, too: `turn_soon` asks for
its end, once per turn. Timers that are due are a turn. After each turn the next deadline is armed, if it is earlier
than the armed one.

A site fails by stopping: what an event of the network or of a timer raises ends the site, with nothing more sent, and
its program is told. What an event of the program raises is its own misuse, and comes out at its caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from isthmus.core.message import SiteId
from isthmus.live.net.alarm import Alarm
from isthmus.live.net.names import Address
from isthmus.live.net.sockets import Socket
from isthmus.live.node.site import LivePort, LiveSite
from isthmus.topology.addresses import Endpoint


class Driver:
    """The turns of one site."""

    def __init__(
        self,
        site: LiveSite,
        socket: Socket,
        gatherers: Sequence[Callable[[], None]],
        on_refused: Callable[[str], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.site = site
        self.socket = socket
        self.gatherers = gatherers  # each hands over what an application has read and sent in a turn
        self.on_refused = on_refused  # the others do not take this site
        self.on_failure = on_failure  # an event raised; the driver is closed then
        self.loop = asyncio.get_running_loop()
        self.alarm = Alarm(self.loop, self.fire)
        self.turn_asked = False
        self.closed = False

    def turn_soon(self) -> None:
        """Have the turn of the application end once this round of the event loop has run."""
        if not self.turn_asked:
            self.turn_asked = True
            self.loop.call_soon(self.end_turn)

    def run(self, port: LivePort, event: Callable[[], None]) -> None:
        """One event of the application or of the membership, as part of a turn; what it raises comes out."""
        if not self.closed:
            port.enter()
            try:
                event()
            finally:
                self.turn_soon()

    def end_turn(self) -> None:
        self.turn_asked = False
        if not self.closed:
            try:
                for gather in self.gatherers:
                    gather()
            except Exception as error:
                self.fail(error)
            self.finish()

    def receive(self, source: SiteId, datagram: bytes, beginning: bytes = b"") -> None:
        if not self.closed:
            site = self.site
            site.arrival_ns = self.socket.arrival_ns
            try:
                site.receive(source, datagram, beginning)
            except Exception as error:
                self.fail(error)
            site.arrival_ns = None

    def stranger(self, address: Address, datagram: bytes) -> None:
        answer = self.site.peers.stranger(str(Endpoint(*address[:2])), datagram, self.site.clock())
        if answer is not None:
            self.socket.release(address, answer)

    def fire(self) -> None:
        try:
            self.site.fire_due()
        except Exception as error:
            self.fail(error)
        self.finish()

    def fail(self, error: Exception) -> None:
        """Stop, as an event raised, and tell the program."""
        self.close()
        self.on_failure(error)

    def finish(self) -> None:
        """End a turn, and arm the next deadline."""
        if self.closed:
            return
        try:
            self.site.finish()
        except Exception as error:
            self.fail(error)
        if self.closed:
            return
        if self.site.peers.refused_why:
            self.close()
            self.on_refused(self.site.peers.refused_why)
            return
        due_ns = self.site.next_deadline_ns()
        if due_ns is not None:
            self.alarm.set(due_ns)

    def close(self) -> None:
        """Stop: nothing is received, sent or due from now on."""
        if not self.closed:
            self.closed = True
            self.alarm.cancel()
            self.site.stop()
            self.socket.close()
