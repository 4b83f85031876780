"""A live host on a UDP socket, under asyncio.

`Endpoint` is the socket: it knows where each site listens, holds back what the emulated network delays, and passes on
only what comes from a known address. `Driver` joins it to a host: each datagram, timer and call is one turn, after
which the next deadline is armed.

Bounds: `HELD_MAX` datagrams on the emulated network, and asyncio's own limit of bytes that the socket has not taken;
what exceeds either is dropped and counted, as by a full queue in a router.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import cast

from isthmus.core.errors import InputError
from isthmus.core.message import SiteId
from isthmus.live.emulation import Emulation
from isthmus.live.host import LiveHost

Address = tuple[str, int]
LOOPBACK = "127.0.0.1"
HELD_MAX = 100_000
RECEIVE_BUFFER = 4 << 20  # asked for; the system may give less
NS_PER_S = 1_000_000_000


class Endpoint(asyncio.DatagramProtocol):
    """The socket of one site."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.DatagramTransport
        self.addresses: dict[SiteId, Address] = {}
        self.known: dict[Address, SiteId] = {}  # whose address it is
        self.emulation: Emulation | None = None
        self.on_datagram: Callable[[SiteId, bytes], None] = lambda _source, _datagram: None
        self.held: list[tuple[int, int, SiteId, bytes]] = []  # when it leaves, a counter, to whom, what
        self.held_count = 0
        self.wake: asyncio.TimerHandle | None = None
        self.paused = False  # the socket takes no more for now
        self.lost_count = 0  # by the emulated network, as it should
        self.overflow_count = 0
        self.stranger_count = 0  # datagrams from addresses that are none of the group's

    @classmethod
    async def bind(cls, port: int = 0) -> Endpoint:
        """Listen on a port of the loopback; 0 for any that is free."""
        loop = asyncio.get_running_loop()
        try:
            _, endpoint = await loop.create_datagram_endpoint(cls, local_addr=(LOOPBACK, port))
        except OSError as error:
            raise InputError("port", "", f"{port}, which cannot be bound ({error.strerror})", "a free port") from None
        endpoint.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        return endpoint

    @property
    def port(self) -> int:
        port: int = self.transport.get_extra_info("sockname")[1]
        return port

    def open(self, addresses: dict[SiteId, Address], emulation: Emulation | None) -> None:
        """Learn where the others listen and what lies between."""
        self.addresses = addresses
        self.known = {address: site for site, address in addresses.items()}
        self.emulation = emulation

    def close(self) -> None:
        if self.wake is not None:
            self.wake.cancel()
        self.held.clear()
        self.transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def error_received(self, exc: Exception) -> None:
        """A peer's port is closed, for now or for good: the datagram is lost like any other."""

    def datagram_received(self, data: bytes, addr: Address) -> None:
        source = self.known.get(addr)
        if source is None:
            self.stranger_count += 1
        else:
            self.on_datagram(source, data)

    def send(self, target: SiteId, datagram: bytes) -> None:
        """Send now, or when the emulated network lets it arrive."""
        if self.emulation is None:
            self.release(target, datagram)
            return
        now = time.monotonic_ns()
        arrivals = self.emulation.arrivals(target, now, len(datagram))
        self.lost_count += not arrivals
        for at_ns in arrivals:
            if len(self.held) >= HELD_MAX:
                self.overflow_count += 1
            else:
                self.held_count += 1
                heappush(self.held, (at_ns, self.held_count, target, datagram))
        self.arm()

    def release(self, target: SiteId, datagram: bytes) -> None:
        if self.paused or self.transport.is_closing():
            self.overflow_count += 1
        else:
            self.transport.sendto(datagram, self.addresses[target])

    def release_due(self) -> None:
        self.wake = None
        now = time.monotonic_ns()
        while self.held and self.held[0][0] <= now:
            _, _, target, datagram = heappop(self.held)
            self.release(target, datagram)
        self.arm()

    def arm(self) -> None:
        """See to it that what is held leaves in time."""
        if not self.held:
            return
        due_s = self.held[0][0] / NS_PER_S
        if self.wake is None or due_s < self.wake.when():
            if self.wake is not None:
                self.wake.cancel()
            self.wake = self.loop.call_at(due_s, self.release_due)


class Driver:
    """Takes turns with a host."""

    def __init__(self, host: LiveHost, endpoint: Endpoint) -> None:
        self.host = host
        self.endpoint = endpoint
        self.loop = asyncio.get_running_loop()
        self.wake: asyncio.TimerHandle | None = None
        self.closed = False
        endpoint.on_datagram = self.receive

    def run(self, event: Callable[[], None]) -> None:
        """One event from above; what it raises comes out."""
        try:
            self.host.run(event)
        finally:
            self.arm()

    def receive(self, source: SiteId, datagram: bytes) -> None:
        if not self.closed:
            try:
                self.host.receive(source, datagram)
            finally:
                self.arm()

    def fire(self) -> None:
        self.wake = None
        try:
            self.host.fire_due()
        finally:
            self.arm()

    def arm(self) -> None:
        due_ns = self.host.next_deadline_ns()
        if due_ns is None or self.closed:
            return
        due_s = due_ns / NS_PER_S
        if self.wake is None or due_s < self.wake.when():
            if self.wake is not None:
                self.wake.cancel()
            self.wake = self.loop.call_at(due_s, self.fire)

    def close(self) -> None:
        self.closed = True
        if self.wake is not None:
            self.wake.cancel()
        self.endpoint.close()
