"""Tickets that wait, and the packet that takes them along."""

from __future__ import annotations

from random import Random

from isthmus.core.layer import Stack, View
from isthmus.core.message import Cast, SiteId
from isthmus.core.recording import RecordingHost
from isthmus.live.framing import MESSAGE_MAX, PAYLOAD_MAX
from isthmus.protocols.application import Application
from isthmus.protocols.total.hybrid_wire import HybridOptions, Packet
from isthmus.protocols.transport.direct import Plain
from isthmus.stacks import STACKS, StackOptions

A, B = SiteId(0), SiteId(1)


class Sizes(RecordingHost):
    """Notes what each message would take in a datagram, and the tickets in it."""

    def __init__(self) -> None:
        super().__init__(A)
        self.sizes: list[int] = []
        self.numbers: list[int] = []

    def send(self, targets: tuple[SiteId, ...], message: object) -> None:
        super().send(targets, message)  # type: ignore[arg-type]
        if isinstance(message, Plain) and isinstance(message.body, Packet):
            self.sizes.append(self.stack.codec.size(message))
            self.numbers += [number for number, _, _ in message.body.tickets] + [message.body.promise]


def test_the_largest_message_fits_a_datagram_however_many_tickets_wait() -> None:
    """Tickets that are not eager wait for a message; with one of full size they would burst its datagram."""
    host = Sizes()
    options = HybridOptions(active=(A,), clock="synchronised", eager=False, null_ms=0)
    stack: Stack = STACKS["hybrid"].build(host, application := Application(), StackOptions(direct=True, hybrid=options))
    host.attach(stack)
    host.now_ns = 1_800_000_000_000_000_000  # nine bytes a number
    host.run(lambda: stack.install(View(1, (A, B))))
    payload = Random(1).randbytes(PAYLOAD_MAX)
    for index in range(1, 3_001):
        host.receive(B, Plain(1, Packet(1, 0, (), index, A, 0, Cast(B, index, b"x"))))
    assert host.sizes == []
    host.run(lambda: application.cast(payload, ()))
    assert max(host.sizes) <= MESSAGE_MAX
    assert len(set(host.numbers)) == 3_001 and host.numbers == sorted(host.numbers)
