"""The UDP socket of one site, under asyncio: a plain non-blocking socket with a reader callback.

Up to `READ_MAX` datagrams are read at a time; then `on_read` is called once, so that the answers leave together. Where
the system reports that a port refused a datagram (Linux does), `on_refused` is called with its site. The socket knows
where each site listens, and delays outgoing datagrams as the emulated network does. Where the site has keys, what it
sends is sealed last, and what comes is opened first; a stranger then gets no answer, whatever it sends.

Bounds: `HELD_MAX` datagrams on the emulated network, `BACKLOG_MAX` that the system has not taken yet; beyond either
they are dropped and counted, as by a full queue in a router.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from isthmus.core.errors import InputError
from isthmus.core.message import BULK_WINDOW_BYTES, SiteId
from isthmus.live.net.alarm import Alarm
from isthmus.live.net.bulk import BulkQueue
from isthmus.live.net.emulation import Emulation, LinkFault
from isthmus.live.net.names import LOOPBACK, Address, family_of
from isthmus.live.net.timestamps import ANCILLARY_BYTES, ask_for_stamps, stamp_of
from isthmus.topology.addresses import Endpoint

if TYPE_CHECKING:
    from isthmus.live.seal.keys import SealKeys
    from isthmus.live.seal.machine import SealMachine

READ_MAX = 32
# Linux: have errors of single datagrams reported, with the address that each was sent to
RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
MSG_ERRQUEUE = getattr(socket, "MSG_ERRQUEUE", 0)
HELD_MAX = 100_000
BACKLOG_MAX = 1_000
BUFFER_BYTES = 4 << 20  # asked for, each way; the system may give less
DATAGRAM_READ_BYTES = 65_536
BULK_LOOK_NS = 500_000  # when the socket is looked at again that has a window of bulk datagrams to send
LOOK_NS = 1_000_000_000  # how often the sessions of a sealed site are looked at, at least


class Socket:
    """The end of one site on the network."""

    def __init__(self, address: Address) -> None:
        self.loop = asyncio.get_running_loop()
        family = family_of(address)
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        try:
            self.socket.bind(address)
        except OSError as error:
            self.socket.close()
            found = f"{Endpoint(*address[:2])}, which cannot be bound ({error.strerror})"
            raise InputError("port", "", found, "a free port of this machine, at an address of its own") from None
        if MSG_ERRQUEUE:
            self.socket.setsockopt(*RECVERR[family], 1)
        self.on_refused: Callable[[SiteId], None] | None = None
        self.cut: frozenset[SiteId] = frozenset()  # sites that are cut off, for faults and tests
        self.addresses: dict[SiteId, Address] = {}
        self.known: dict[Address, SiteId] = {}  # the site of each address
        self.emulation: Emulation | None = None  # what datagrams pass now; None: nothing but the system
        self.topology: Emulation | None = None  # the emulated network below the faults, if any
        self.faults: Mapping[SiteId, LinkFault] = {}  # of the links to these sites
        self.held: list[tuple[int, int, SiteId, bytes]] = []  # time, counter, target, datagram
        self.held_count = 0
        self.backlog: deque[tuple[Address, bytes]] = deque()  # that the system has not taken
        self.alarm = Alarm(self.loop, self.release_due)
        self.closed = False
        self.lost_count = 0  # by the emulated network, as it should
        self.overflow_count = 0
        self.stamped = False  # whether the system stamps arrivals
        self.arrival_ns: int | None = None  # of the datagram being handled, on the system clock; None: not known
        self.seal: SealMachine | None = None  # None: in clear
        self.seal_alarm = Alarm(self.loop, self.tick_seal)
        self.stranger_count = 0  # datagrams of unknown addresses, at a sealed site
        self.own_site: SiteId | None = None  # where broadcasts come back, too
        self.bulk = BulkQueue(self.loop, self.send, self.bulk_wait_ns)

    def keep_time(self, site: SiteId, kernel_stamps: bool = True) -> None:
        """Have broadcasts of a site come back to it, and arrivals stamped where the system can."""
        self.own_site = site
        self.stamped = kernel_stamps and ask_for_stamps(self.socket)

    def own_address(self) -> Address:
        """The address at which this socket reaches itself."""
        host, *rest = self.socket.getsockname()
        return ({"0.0.0.0": LOOPBACK, "::": "::1"}.get(host, host), *rest)

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def open(
        self,
        addresses: dict[SiteId, Address],
        emulation: Emulation | None,
        on_datagram: Callable[[SiteId, bytes, bytes], None],  # with the head apart, if it was sealed
        on_stranger: Callable[[Address, bytes], None],
        on_read: Callable[[], None],
    ) -> None:
        """Take the addresses and the emulated network, and begin to receive."""
        self.addresses = addresses if self.own_site is None else addresses | {self.own_site: self.own_address()}
        self.known = {address: site for site, address in self.addresses.items()}
        self.topology = emulation
        self.disturb(self.faults)
        self.on_datagram, self.on_stranger, self.on_read = on_datagram, on_stranger, on_read
        self.loop.add_reader(self.socket.fileno(), self.read)
        if self.seal is not None:
            self.tick_seal()

    def move(self, site: SiteId, address: Address) -> bool:
        """Move a site to another address; return whether it has changed."""
        if self.addresses[site] == address or address in self.known:
            return False
        del self.known[self.addresses[site]]
        self.addresses[site], self.known[address] = address, site
        return True

    def disturb(self, faults: Mapping[SiteId, LinkFault]) -> None:
        """Have the links to some sites lose and delay datagrams, until told otherwise."""
        self.faults = faults
        self.emulation = self.topology
        if faults and self.emulation is None:
            self.emulation = Emulation.bare([site for site in self.addresses if site != self.own_site], Random())
        if self.emulation is not None:
            self.emulation.disturb(faults)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.alarm.cancel()
            self.seal_alarm.cancel()
            self.bulk.clear()
            self.held.clear()
            self.backlog.clear()
            self.loop.remove_reader(self.socket.fileno())
            self.loop.remove_writer(self.socket.fileno())
            self.socket.close()

    def read(self) -> None:
        """Read the datagrams of one turn."""
        receive, known = self.receive_stamped if self.stamped else self.socket.recvfrom, self.known
        try:
            for count in range(READ_MAX):
                try:
                    datagram, address = receive(DATAGRAM_READ_BYTES)
                except (BlockingIOError, InterruptedError):
                    if not count:
                        self.read_errors()  # the thread of heartbeats may have met the refusal
                    break
                except OSError:  # a peer's port is closed, for now or for good: the datagram is lost like any other
                    self.read_errors()
                    continue
                source = known.get(address)
                if source in self.cut:
                    pass
                elif self.seal is not None and source is not None:
                    self.read_sealed(self.seal, source, datagram)
                elif self.seal is not None:
                    self.stranger_count += 1
                    self.seal.note_stranger(datagram, str(Endpoint(*address[:2])), time.monotonic_ns())
                elif source is None:
                    self.on_stranger(address, datagram)
                else:
                    self.on_datagram(source, datagram, b"")
                if self.closed:
                    return
        finally:
            self.on_read()

    def read_sealed(self, seal: SealMachine, source: SiteId, datagram: bytes) -> None:
        """Hand over what a sealed datagram carries."""
        opened = seal.open(source, datagram, time.monotonic_ns())
        if seal.out:
            self.send_greetings(seal)
        if opened is not None:
            beginning, plain = opened
            self.on_datagram(source, plain, beginning)

    def receive_stamped(self, size: int) -> tuple[bytes, Address]:
        """Read a datagram and the time of its arrival."""
        datagram, ancillary, _, address = self.socket.recvmsg(size, ANCILLARY_BYTES)
        self.arrival_ns = stamp_of(ancillary)
        return datagram, address

    def read_errors(self) -> None:
        """Read the system's reports of datagrams that did not arrive."""
        for _ in range(READ_MAX if MSG_ERRQUEUE else 0):
            try:
                *_, address = self.socket.recvmsg(64, 256, MSG_ERRQUEUE)
            except OSError:
                return
            site = self.known.get(address)
            if site is not None and self.on_refused is not None:
                self.on_refused(site)

    def dropped_count(self) -> int:
        """Datagrams that a sealed site has dropped unread."""
        return 0 if self.seal is None else self.stranger_count + sum(self.seal.dropped.values())

    def begin_sealing(self, life: int, token: int) -> None:
        """Seal what a new life sends, where this site has keys."""
        if self.seal is not None:
            self.seal.begin_life(life, token, time.monotonic_ns())

    def reload_keys(self, keys: SealKeys) -> None:
        """Go on with other keys."""
        if self.seal is not None:
            self.seal.reload(keys, time.monotonic_ns())
            self.send_greetings(self.seal)

    def tick_seal(self) -> None:
        if self.seal is not None:
            self.seal.tick(time.monotonic_ns())
            self.send_greetings(self.seal)

    def send_greetings(self, seal: SealMachine) -> None:
        """Send what the sessions need, and what they held."""
        out, seal.out = seal.out, []
        for target, datagram in out:
            self.transmit(target, datagram)
        look_ns = time.monotonic_ns() + LOOK_NS
        self.seal_alarm.set(min(seal.deadline_ns() or look_ns, look_ns))

    def send(self, target: SiteId, datagram: bytes) -> None:
        """Send, sealed where this site has keys; what has no session yet is held until it has one."""
        if self.seal is not None:
            datagram = self.seal.seal(target, datagram, time.monotonic_ns())
            if self.seal.out:
                self.send_greetings(self.seal)
        if datagram:
            self.transmit(target, datagram)

    def transmit(self, target: SiteId, datagram: bytes) -> None:
        """Send a datagram as it is now, or when the emulated network lets it arrive."""
        if target in self.cut:
            self.lost_count += 1
            return
        if self.emulation is None:
            self.release(self.addresses[target], datagram)
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
        if self.held:
            self.alarm.set(self.held[0][0])

    def bulk_wait_ns(self, target: SiteId, now_ns: int) -> int:
        """How long the next bulk datagram to a site has to wait, or when to look again."""
        if self.backlog or self.unsent_bytes() >= BULK_WINDOW_BYTES:
            return BULK_LOOK_NS
        return 0 if self.emulation is None else self.emulation.bulk_wait_ns(target, now_ns)

    def unsent_bytes(self) -> int:
        """Bytes that the system has taken and not sent yet; 0 where it does not tell."""
        try:
            (found,) = struct.unpack("i", fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, bytes(4)))
        except OSError:
            return 0
        return int(found)

    def repeat(self, target: SiteId, datagram: bytes) -> None:
        """Send from a thread, or not at all, as over an emulated network, whose state belongs to the event loop."""
        if not self.closed and target not in self.cut and self.emulation is None:
            if self.seal is not None:
                datagram = self.seal.seal_now(target, datagram)  # anew: a repeated counter would be dropped
            with suppress(OSError):
                if datagram:
                    self.socket.sendto(datagram, self.addresses[target])

    def broadcast(self, targets: Sequence[SiteId], datagram: bytes) -> None:
        """Send one datagram to several sites, perhaps including this one, as simultaneously as possible."""
        copies = {target: datagram for target in targets if target not in self.cut}
        if self.seal is not None:  # all of them first, then nothing lies between two that leave
            sealed = [(target, self.seal.seal_now(target, datagram)) for target in copies]
            copies = {target: copy for target, copy in sealed if copy}
        if self.emulation is None:
            for target, copy in copies.items():
                self.release(self.addresses[target], copy)
            return
        now = time.monotonic_ns()
        found = {t: self.emulation.arrivals(t, now, len(copy)) for t, copy in copies.items() if t != self.own_site}
        common_ns = min((times[0] for times in found.values() if times), default=now)
        for target, copy in copies.items():
            if found.get(target, [now]):
                self.held_count += 1
                heappush(self.held, (common_ns, self.held_count, target, copy))
            else:
                self.lost_count += 1
        if self.held:
            self.alarm.set(self.held[0][0])

    def release(self, address: Address, datagram: bytes) -> None:
        """Give a datagram to the system, or queue it where the system does not take it now."""
        if self.closed:
            return
        if not self.backlog:
            try:
                self.socket.sendto(datagram, address)
                return
            except (BlockingIOError, InterruptedError):
                self.loop.add_writer(self.socket.fileno(), self.release_backlog)
            except ConnectionRefusedError:  # of an earlier one; this one has not left
                self.read_errors()
                self.backlog.append((address, datagram))
                self.loop.call_soon(self.release_backlog)
                return
            except OSError:  # too large for this path, or no way to the target now
                self.overflow_count += 1
                return
        if len(self.backlog) < BACKLOG_MAX:
            self.backlog.append((address, datagram))
        else:
            self.overflow_count += 1

    def release_backlog(self) -> None:
        if self.closed:
            return
        while self.backlog:
            address, datagram = self.backlog[0]
            try:
                self.socket.sendto(datagram, address)
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionRefusedError:  # of an earlier one, and reported once
                self.read_errors()
                continue
            except OSError:
                self.overflow_count += 1
            self.backlog.popleft()
        self.loop.remove_writer(self.socket.fileno())

    def release_due(self) -> None:
        """Send what the emulated network lets arrive now."""
        now = time.monotonic_ns()
        while self.held and self.held[0][0] <= now:
            _, _, target, datagram = heappop(self.held)
            self.release(self.addresses[target], datagram)
        if self.held:
            self.alarm.set(self.held[0][0])
