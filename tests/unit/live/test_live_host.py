"""The live host without a network: turns, batches, timers, bad datagrams."""

from __future__ import annotations

from random import Random

import pytest
from isthmus.live.host import LiveHost

from isthmus.core.errors import LocalError
from isthmus.core.layer import Kind, Layer, Stack, View
from isthmus.core.message import Cast, SiteId
from isthmus.live import framing
from isthmus.protocols.application import Application
from isthmus.protocols.transport.frames import Ack, Data
from isthmus.stacks import STACKS, StackOptions
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import CONTROL, KIND, LOCAL, TIME_NS, VALUE, Row

TOKEN = 5
MEMBERS = (SiteId(0), SiteId(1), SiteId(2))


class Fixture:
    """Site 1 of three, its clocks and its outlet in our hands."""

    def __init__(self, stack: str = "fifo", wire_log: bool = False) -> None:
        self.clock_ns = 1_000
        self.wall_ns = 5_000_000
        self.rows: list[Row] = []
        self.datagrams: list[tuple[SiteId, bytes]] = []
        self.host = LiveHost(
            *(SiteId(1), Random(0), lambda target, datagram: self.datagrams.append((target, datagram))),
            *(lambda: self.clock_ns, lambda: self.wall_ns, SiteLog(1, self.rows)),
            token=TOKEN,
            wire_log=wire_log,
        )
        self.application = Application()
        self.stack: Stack = STACKS[stack].build(self.host, self.application, StackOptions())
        self.host.attach(self.stack)
        self.host.run(lambda: self.stack.install(View(1, MEMBERS)))

    def receive(self, *packets: bytes, source: int = 0, token: int = TOKEN, incarnation: int = 0) -> None:
        for datagram in framing.join(framing.head(SiteId(source), incarnation, token), packets):
            self.host.receive(SiteId(0), datagram)

    def data(self, seq: int) -> bytes:
        return self.stack.codec.encode(Data(1, seq, Cast(SiteId(0), seq, b"x")))

    def kinds(self) -> list[int]:
        return [row[KIND] for row in self.rows]


def test_what_is_sent_in_one_turn_leaves_as_one_datagram_a_target() -> None:
    fixture = Fixture()

    def three() -> None:
        for _ in range(3):
            fixture.application.cast(b"x")
        assert not fixture.datagrams

    fixture.host.run(three)
    assert [target for target, _ in fixture.datagrams] == [0, 2]
    for _, datagram in fixture.datagrams:
        packets = framing.split(datagram, TOKEN).packets
        assert [fixture.stack.codec.decode(packet).seq for packet in packets] == [1, 2, 3]  # type: ignore[attr-defined]
    assert fixture.host.counters.datagram_count == 2 and fixture.host.counters.message_count == 6


def test_a_message_to_oneself_never_leaves() -> None:
    fixture = Fixture()
    fixture.host.run(lambda: fixture.application.cast(b"x", (SiteId(1),)) and None)
    assert not fixture.datagrams
    assert fixture.kinds()[-2:] == [Kind.SUBMIT, Kind.DELIVER]


def test_what_was_sent_before_an_error_still_leaves() -> None:
    fixture = Fixture()

    def fail() -> None:
        fixture.application.cast(b"x")
        raise LocalError("after the fact")

    with pytest.raises(LocalError):
        fixture.host.run(fail)
    assert len(fixture.datagrams) == 2 and fixture.kinds()[-1] == Kind.DELIVER


def test_a_message_that_is_too_large_is_refused_before_it_leaves() -> None:
    fixture = Fixture()
    with pytest.raises(LocalError, match="does not fit"):
        fixture.host.run(lambda: fixture.application.cast(bytes(70_000)) and None)


def test_timers_fire_when_due_and_those_they_set_wait_for_the_next_turn() -> None:
    fixture = Fixture()
    fired: list[int] = []

    class Ticking(Layer):
        def timer(self, key: int) -> None:
            fired.append(key)
            fixture.host.set_timer(self, key + 10, 0)

    layer = Ticking()
    for key, delay_ns in ((1, 50), (2, 20), (3, 20), (2, 30)):  # the last moves timer 2
        fixture.host.set_timer(layer, key, delay_ns)
    fixture.host.set_timer(layer, 4, 10)
    fixture.host.cancel_timer(layer, 4)
    assert fixture.host.next_deadline_ns() == 1_020
    fixture.clock_ns = 1_030
    fixture.host.fire_due()
    assert fired == [3, 2]
    assert fixture.host.next_deadline_ns() == 1_030
    fixture.host.fire_due()
    assert fired == [3, 2, 13, 12]


def test_the_trace_has_the_wall_clock_and_counts_rows() -> None:
    fixture = Fixture()
    fixture.wall_ns = 9_000_000
    fixture.receive(fixture.data(1))
    assert fixture.rows[-1][TIME_NS] == 9_000_000 and fixture.rows[-1][KIND] == Kind.DELIVER
    assert [row[LOCAL] for row in fixture.rows] == list(range(len(fixture.rows)))


def test_a_wire_trace_has_sends_and_receives() -> None:
    fixture = Fixture(wire_log=True)
    fixture.receive(fixture.data(1), fixture.data(2))
    assert fixture.kinds()[-4:] == [Kind.RECEIVE, Kind.DELIVER, Kind.RECEIVE, Kind.DELIVER]
    fixture.host.run(lambda: fixture.application.cast(b"xyz") and None)
    sent = next(row for row in fixture.rows if row[KIND] == Kind.SEND)
    assert sent[VALUE] == 3 and sent[CONTROL] > 0


def test_foreign_and_garbled_datagrams_are_counted_and_change_nothing() -> None:
    fixture = Fixture()
    before = len(fixture.rows)
    fixture.host.receive(SiteId(0), b"noise")
    fixture.receive(fixture.data(1), token=6)
    fixture.receive(fixture.data(1), source=1)  # in our own name
    fixture.receive(fixture.data(1), source=2)  # in another's name, from site 0's address
    assert fixture.host.counters.foreign_count == 4
    fixture.receive(fixture.data(1), b"\xc1")  # one good message, one that does not decode: neither is taken
    fixture.receive(b"\x91" * 1000)
    fixture.receive(fixture.stack.codec.encode(Ack(1, (0, 0, 0)))[:-1])
    assert fixture.host.counters.garbled_count == 3
    assert len(fixture.rows) == before and not fixture.datagrams


def test_a_number_that_no_trace_can_hold_is_garbled() -> None:
    fixture = Fixture()
    fixture.receive(fixture.stack.codec.encode(Data(1, 1, Cast(SiteId(0), 2**63, b"x"))))
    assert fixture.host.counters.garbled_count == 1


def test_an_earlier_incarnation_is_foreign() -> None:
    fixture = Fixture()
    fixture.receive(fixture.data(1), incarnation=2)
    fixture.receive(fixture.data(2), incarnation=1)
    assert fixture.host.counters.foreign_count == 1 and fixture.kinds().count(Kind.DELIVER) == 1


def test_noise_never_harms_a_stack() -> None:
    fixture = Fixture("token-site")
    random = Random(3)
    good = fixture.data(1)
    for _ in range(3000):
        packet = bytearray(good)
        for _ in range(random.randint(1, 4)):
            packet[random.randrange(len(packet))] = random.randrange(256)
        fixture.receive(bytes(packet))
    counters = fixture.host.counters
    assert counters.garbled_count > 0 and fixture.host.log.rejected_count > 0
