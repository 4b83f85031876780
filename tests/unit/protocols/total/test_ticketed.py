"""Tickets that wait, and the packet that takes them along."""

from __future__ import annotations

from random import Random

from tests.harness.recording import RecordingPort, RecordingSite

from isthmus.core.layer import Stack, View
from isthmus.core.message import Cast, Message, SiteId, Targets, size_of
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import FragmentOptions
from isthmus.protocols.total.hybrid.wire import HybridOptions, TicketPacket
from isthmus.stacks.registry import STACKS, StackOptions

A, B = SiteId(0), SiteId(1)
DATAGRAM_MAX = 65_507  # what UDP over IPv4 takes
PAYLOAD_MAX = 56_000
WHOLE = FragmentOptions(piece_bytes=PAYLOAD_MAX)


class Sizes(RecordingSite):
    """Notes what each message would take in a datagram, and the tickets in it."""

    def __init__(self) -> None:
        super().__init__(A)
        self.sizes: list[int] = []
        self.numbers: list[int] = []

    def record_send(self, port: RecordingPort, targets: Targets, message: Message) -> None:
        if isinstance(message, TicketPacket):
            self.sizes.append(size_of(port.stack.codec, message))
            self.numbers += [number for number, _, _, _ in message.tickets] + [message.promise]


def test_the_largest_message_fits_a_datagram_however_many_tickets_wait() -> None:
    """Tickets that are not eager wait for a message; with one of full size they would burst its datagram."""
    site = Sizes()
    options = HybridOptions(active=(A,), clock="synchronised", eager=False, null_ms=0)
    stack: Stack = STACKS["hybrid"].build(
        site.host, application := Application(), StackOptions(direct=True, hybrid=options, fragments=WHOLE)
    )
    site.attach(stack)
    site.set_calendar(1_800_000_000_000_000_000, None)  # nine bytes a number
    site.run(lambda: site.host.install(View(1, (A, B))))
    site.run(site.host.resume)
    payload = Random(1).randbytes(PAYLOAD_MAX)
    for index in range(1, 3_001):
        site.receive(B, 1, TicketPacket(0, (), index, A, 0, (Cast(B, index, b"x"),)))
    assert site.sizes == []
    site.run(lambda: application.cast(payload, ()))
    assert max(site.sizes) <= DATAGRAM_MAX
    assert len(set(site.numbers)) == 3_001 and site.numbers == sorted(site.numbers)


def test_entries_of_one_packet_get_one_range() -> None:
    site = Sizes()
    options = HybridOptions(active=(A,), clock="lamport", null_ms=0)
    stack = STACKS["hybrid"].build(site.host, Application(), StackOptions(direct=True, hybrid=options))
    site.attach(stack)
    site.run(lambda: site.host.install(View(1, (A, B))))
    site.run(site.host.resume)
    site.receive(B, 1, TicketPacket(0, (), 1, A, 0, tuple(Cast(B, number) for number in range(1, 51))))
    assert site.numbers == [1, 50], "tickets 1 to 50 as one range, and the promise of the last"
    assert [line for line in site.drain() if line.startswith("deliver")] == [f"deliver 1:{n}" for n in range(1, 51)]
