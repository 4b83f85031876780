"""The live site without a network: turns, batches, timers, lives, bad datagrams."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from isthmus.core.errors import LocalError
from isthmus.core.layer import Kind, Layer, Stack, View
from isthmus.core.message import Batch, Cast, GroupId, SiteId
from isthmus.live.net import framing
from isthmus.live.net.hello import Hello, Refusal, encode_body, read_hello, read_refusal
from isthmus.live.node.peers import ANSWER_NS, SILENT_NS
from isthmus.live.node.site import LivePort, LiveSite
from isthmus.protocols.application import Application
from isthmus.protocols.fragments import LARGEST_BYTES
from isthmus.protocols.total.token_site import Tickets
from isthmus.protocols.transport.reliable.frames import Ack, Data
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import CONTROL, GROUP, KIND, LOCAL, TIME_NS, VALUE, Row

TOKEN, LIFE = 5, 1_000
MEMBERS = (SiteId(0), SiteId(1), SiteId(2))
NAMES = ("paris-0", "tokyo-0", "lima-0")
HELLO = Hello(framing.VERSION, "tokyo-0", "earth", "d", ("a:1", "a:2", "a:3"), ())


class Fixture:
    """Site 1 of three, its clocks and its outlet in our hands."""

    def __init__(
        self,
        stack: str = "fifo",
        sequencer: SiteId | None = None,
        wire_log: bool = False,
        traced: bool = True,
        **options: Any,
    ) -> None:
        self.stack_options = StackOptions(sequencer=sequencer)
        self.clock_ns = 1_000
        self.wall_ns = 5_000_000
        self.rows: list[Row] = []
        self.datagrams: list[tuple[SiteId, bytes]] = []
        self.site = LiveSite(
            *(SiteId(1), Random(0), lambda target, datagram: self.datagrams.append((target, datagram))),
            *(lambda: self.clock_ns, lambda: self.wall_ns, SiteLog(1, self.rows if traced else None)),
            **{"life": LIFE, "token": TOKEN, "names": NAMES, "hello": HELLO, "wire_log": wire_log} | options,
        )
        self.port, self.application = self.join(stack)
        self.stack = self.port.stack

    def join(self, stack: str, group: int = 0) -> tuple[LivePort, Application]:
        port, application = self.site.port(GroupId(group)), Application()
        made: Stack = STACKS[stack].build(port, application, self.stack_options)
        port.attach(made)
        port.install(View(1, MEMBERS))
        port.resume()
        self.site.finish()
        return port, application

    def receive(self, *packets: bytes, source: int = 0, finish: bool = True, **changes: int) -> None:
        """Have a datagram come from the address of site 0."""
        head = framing.head(SiteId(source), changes.get("life", LIFE), changes.get("token", TOKEN))
        wrapped = [framing.entry(changes.get("group", 0), 1, packet) for packet in packets]
        for datagram in framing.join(head, wrapped, 1400):
            self.site.receive(SiteId(0), datagram)
        if finish:
            self.site.finish()

    def receive_note(self, kind: int, note: Hello | Refusal, life: int = LIFE, token: int = TOKEN) -> None:
        self.site.receive(SiteId(0), framing.head(SiteId(0), life, token, kind) + encode_body(note))

    def data(self, seq: int) -> bytes:
        return self.port.encode(Data(seq, Cast(SiteId(0), seq, b"x")))

    def kinds(self) -> list[int]:
        return [row[KIND] for row in self.rows]

    def sent(self, kind: int) -> list[bytes]:
        return [datagram for _, datagram in self.datagrams if framing.read_head(datagram).kind == kind]


# Turns


def test_what_is_sent_in_one_turn_leaves_as_one_frame_per_target() -> None:
    fixture = Fixture()

    def three() -> None:
        for _ in range(3):
            fixture.application.cast(b"x")
        assert not fixture.datagrams

    fixture.site.run(fixture.port, three)
    assert [target for target, _ in fixture.datagrams] == [0, 2]
    for _, datagram in fixture.datagrams:
        ((group, view_id, packet),) = framing.split(datagram)
        frame = fixture.port.decode(packet)
        assert isinstance(frame, Data) and isinstance(frame.body, Batch)
        assert (group, view_id, frame.seq, len(frame.body.bodies)) == (0, 1, 1, 3)
    counters = fixture.site.counters
    assert counters.datagram_count == 2 and counters.message_count == 2 and counters.payload_bytes == 6
    assert counters.control_bytes + 6 == sum(len(datagram) for _, datagram in fixture.datagrams)


def test_datagrams_that_come_in_one_turn_are_answered_in_one() -> None:
    fixture = Fixture("token-site", sequencer=SiteId(1))
    for seq in range(1, 11):
        fixture.receive(fixture.data(seq), finish=False)
    assert not fixture.datagrams
    fixture.site.finish()
    ((_, _, packet),) = framing.split(fixture.datagrams[0][1])
    frame: Any = fixture.port.decode(packet)
    assert frame.body == Tickets(1, ((SiteId(0), 1, 10),))


def test_a_message_to_oneself_never_leaves() -> None:
    fixture = Fixture()
    fixture.site.run(fixture.port, lambda: fixture.application.cast(b"x", (SiteId(1),)) and None)
    assert not fixture.datagrams
    assert fixture.kinds()[-2:] == [Kind.SUBMIT, Kind.DELIVER]


def test_what_was_sent_before_an_error_still_leaves() -> None:
    fixture = Fixture()

    def fail() -> None:
        fixture.application.cast(b"x")
        raise LocalError("after the fact")

    with pytest.raises(LocalError):
        fixture.site.run(fixture.port, fail)
    assert len(fixture.datagrams) == 2 and fixture.kinds()[-1] == Kind.DELIVER


def test_a_message_that_is_too_large_is_refused_before_it_leaves() -> None:
    fixture = Fixture()
    with pytest.raises(LocalError, match="at most"):
        fixture.site.run(fixture.port, lambda: fixture.application.cast(bytes(LARGEST_BYTES + 1)) and None)
    assert fixture.datagrams == []


def test_small_datagrams_make_small_frames() -> None:
    fixture = Fixture(datagram_bytes=1400)
    fixture.site.run(fixture.port, lambda: [fixture.application.cast(bytes(300)) for _ in range(20)] and None)
    assert len(fixture.datagrams) > 8 and all(len(datagram) <= 1400 for _, datagram in fixture.datagrams)


def test_groups_of_a_site_share_its_datagrams_and_nothing_else() -> None:
    fixture = Fixture()
    other, application = fixture.join("token-site", group=7)
    fixture.application.host.now_ns = 1
    fixture.application.cast(b"x")
    fixture.site.run(other, lambda: application.cast(b"y") and None)
    assert [target for target, _ in fixture.datagrams] == [0, 2]
    assert [group for group, _, _ in framing.split(fixture.datagrams[0][1])] == [0, 7]
    fixture.receive(fixture.data(1), group=7)
    assert {row[GROUP] for row in fixture.rows} == {0, 7}
    assert fixture.rows[-1][GROUP] == 0, "token-site in group 7 waits for a ticket"
    fixture.receive(fixture.data(1), group=3)
    assert fixture.site.peers.foreign_count == 1


def test_timers_fire_when_due_and_those_they_set_wait_for_the_next_turn() -> None:
    fixture = Fixture()
    fired: list[int] = []

    class Ticking(Layer):
        def timer(self, key: int) -> None:
            fired.append(key)
            fixture.port.set_timer(self, key + 10, 0)

    layer = Ticking()
    layer.host = fixture.port
    for key, delay_ns in ((1, 50), (2, 20), (3, 20), (2, 30)):  # the last moves timer 2
        fixture.port.set_timer(layer, key, delay_ns)
    fixture.port.set_timer(layer, 4, 10)
    fixture.port.cancel_timer(layer, 4)
    assert fixture.site.next_deadline_ns() == 1_020
    fixture.clock_ns = 1_030
    fixture.site.fire_due()
    assert fired == [3, 2]
    assert fixture.site.next_deadline_ns() == 1_030
    fixture.site.fire_due()
    assert fired == [3, 2, 13, 12]


def test_the_trace_has_the_wall_clock_and_layers_the_monotonic_one() -> None:
    fixture = Fixture()
    fixture.wall_ns, fixture.clock_ns = 9_000_000, 2_000
    fixture.site.run(fixture.port, lambda: fixture.application.cast(b"x") and None)
    assert fixture.rows[-1][TIME_NS] == 9_000_000 and fixture.port.now_ns == 2_000
    assert [row[LOCAL] for row in fixture.rows] == list(range(len(fixture.rows)))
    assert fixture.port.clock()[:2] == (9_000_000, None)


def test_nothing_is_traced_where_nobody_reads() -> None:
    assert Fixture().port.traces
    assert not Fixture(traced=False).port.traces


def test_a_wire_log_tells_sends_and_receives() -> None:
    fixture = Fixture(wire_log=True)
    fixture.receive(fixture.data(1))
    assert [row[VALUE] for row in fixture.rows if row[KIND] == Kind.RECEIVE] == [0]
    fixture.site.run(fixture.port, lambda: fixture.application.cast(b"xyz") and None)
    sent = next(row for row in fixture.rows if row[KIND] == Kind.SEND)
    assert sent[VALUE] == 3 and sent[CONTROL] > 32


# Lives


def test_a_later_life_is_refused_and_told_once_a_second() -> None:
    fixture = Fixture()
    fixture.receive(fixture.data(1))
    assert fixture.kinds().count(Kind.DELIVER) == 1
    for _ in range(3):
        fixture.receive(fixture.data(2), life=LIFE + 7)
    peers = fixture.site.peers
    assert peers.refused_count == 3 and fixture.kinds().count(Kind.DELIVER) == 1
    assert "started again" in peers.troubles[SiteId(0)]
    (refusal,) = fixture.sent(framing.REFUSAL)
    assert read_refusal(refusal) == Refusal(LIFE + 7, LIFE)
    fixture.clock_ns += ANSWER_NS
    fixture.receive(fixture.data(2), life=LIFE + 7)
    assert len(fixture.sent(framing.REFUSAL)) == 2
    fixture.receive(fixture.data(2))
    assert fixture.kinds().count(Kind.DELIVER) == 2 and not peers.troubles


def test_an_earlier_life_is_dropped_and_counted() -> None:
    fixture = Fixture()
    fixture.receive(fixture.data(1))
    fixture.receive(fixture.data(2), life=LIFE - 7)
    assert fixture.site.peers.stale_count == 1 and fixture.kinds().count(Kind.DELIVER) == 1


def test_a_site_that_only_greeted_may_be_started_again() -> None:
    fixture = Fixture()
    fixture.receive_note(framing.HELLO, HELLO, life=LIFE)
    fixture.receive(fixture.data(1), life=LIFE + 1)
    assert fixture.kinds().count(Kind.DELIVER) == 1
    fixture.receive_note(framing.HELLO, HELLO, life=LIFE + 2)
    assert fixture.site.peers.refused_count == 1


def test_a_refusal_counts_only_for_the_life_that_it_names() -> None:
    fixture = Fixture()
    fixture.receive_note(framing.REFUSAL, Refusal(LIFE - 1, 3))
    assert not fixture.site.peers.refused_why
    fixture.receive_note(framing.REFUSAL, Refusal(LIFE, 3), token=TOKEN + 1)
    assert not fixture.site.peers.refused_why
    fixture.receive_note(framing.REFUSAL, Refusal(LIFE, 3))
    assert "site paris-0 refuses this site, site tokyo-0" in fixture.site.peers.refused_why


# Peers of another run


def test_a_peer_of_another_run_is_asked_what_it_runs_and_named() -> None:
    fixture = Fixture()
    fixture.receive(fixture.data(1), token=TOKEN + 1)
    fixture.receive(fixture.data(1), token=TOKEN + 1)
    (asked,) = fixture.sent(framing.HELLO)
    assert read_hello(asked).asks and read_hello(asked).site == "tokyo-0"
    assert fixture.site.peers.foreign_count == 2
    fixture.receive_note(framing.HELLO, Hello(framing.VERSION, "paris-0", "mars", "d", (), ()), token=TOKEN + 1)
    assert fixture.site.peers.troubles[SiteId(0)] == "is in the topology mars, here earth"
    assert len(fixture.sent(framing.HELLO)) == 1, "one answer a second"


def test_a_peer_of_version_1_is_named() -> None:
    fixture = Fixture()
    fixture.site.receive(SiteId(0), b"iS\x01" + bytes(40))
    here = f"here version {framing.VERSION}"
    assert fixture.site.peers.troubles[SiteId(0)] == f"speaks version 1 of the wire format, {here}"


def test_a_stranger_that_says_it_is_a_site_is_answered_and_named() -> None:
    fixture = Fixture()
    datagram = framing.head(SiteId(2), 1, 1) + b"whatever"
    answer = fixture.site.peers.stranger("b:9", datagram, 0)
    assert answer is not None and read_hello(answer).addresses == HELLO.addresses
    assert fixture.site.peers.troubles[SiteId(2)] == "sends from b:9, here it is at a:3"
    assert fixture.site.peers.stranger("b:9", datagram, 1) is None, "one answer a second"
    assert fixture.site.peers.stranger("b:9", b"noise", 2 * ANSWER_NS) is None


def test_silence_is_logged_once_where_something_is_owed(caplog: pytest.LogCaptureFixture) -> None:
    fixture, peers = Fixture(), Fixture().site.peers
    fixture.receive(fixture.data(1))
    with caplog.at_level("INFO", "isthmus.live"):
        for now_ns in (2_000, SILENT_NS + 1_000_000, SILENT_NS + 2_000_000):
            peers.watch([SiteId(0)], now_ns)
        peers.heard[SiteId(0)] = SILENT_NS + 3_000_000
        peers.watch([SiteId(0)], SILENT_NS + 4_000_000)
    assert [record.getMessage() for record in caplog.records] == [
        "site paris-0 silent with unacknowledged data: it has not been heard in 3.0 s",
        "site paris-0 is heard again",
    ]


# Bad datagrams


def test_foreign_and_garbled_datagrams_are_counted_and_change_nothing() -> None:
    fixture = Fixture()
    before, peers = len(fixture.rows), fixture.site.peers
    fixture.site.receive(SiteId(0), b"noise")
    fixture.receive(fixture.data(1), source=1)  # in our own name
    fixture.receive(fixture.data(1), source=2)  # in another's name, from site 0's address
    assert peers.foreign_count == 3
    fixture.site.receive(SiteId(0), framing.head(SiteId(0), LIFE, TOKEN))
    fixture.site.receive(SiteId(0), framing.head(SiteId(0), LIFE, TOKEN) + b"\0\7\0\0\0\0\0\0ab")
    fixture.site.receive(SiteId(0), framing.head(SiteId(0), LIFE, TOKEN, framing.HELLO) + b"\x93")
    assert peers.garbled_count == 3
    assert len(fixture.rows) == before and not fixture.datagrams


def test_of_a_datagram_all_messages_are_taken_or_none() -> None:
    fixture = Fixture()
    fixture.receive(fixture.data(1), b"\xc1")
    fixture.receive(b"\x91" * 1000)
    fixture.receive(fixture.port.encode(Ack((0, 0, 0)))[:-1])
    fixture.receive(fixture.port.encode(Data(1, Cast(SiteId(0), 2**63, b"x"))))  # a number that no trace can hold
    assert fixture.kinds()[-4:] == [Kind.REJECT] * 4


def test_an_empty_batch_carries_nothing() -> None:
    fixture = Fixture()
    fixture.receive(fixture.port.encode(Data(1, Batch(()))))
    fixture.receive(fixture.data(2))
    assert fixture.kinds().count(Kind.DELIVER) == 1


@pytest.mark.parametrize("stack", list(STACKS))
def test_noise_never_harms_a_site(stack: str) -> None:
    """Random bytes, truncated and bit-flipped datagrams, by the address of a peer and by that of a stranger."""
    fixture, random = Fixture(stack), Random(3)
    fixture.application.cast(b"own")
    fixture.site.finish()
    head = framing.head(SiteId(0), LIFE, TOKEN)
    good = [head + framing.entry(0, 1, fixture.data(1))]
    good += [head + framing.split(datagram)[0][2] for _, datagram in fixture.datagrams[:1]]
    good += [head + framing.entry(0, 1, framing.split(datagram)[0][2]) for _, datagram in fixture.datagrams[:1]]
    good += [framing.head(SiteId(0), LIFE, TOKEN, framing.HELLO) + encode_body(HELLO)]
    good += [framing.head(SiteId(0), LIFE, TOKEN, framing.REFUSAL) + encode_body(Refusal(3, 4))]
    for turn in range(4_000):
        datagram = bytearray(random.choice(good))
        if turn % 3 == 0:
            datagram = bytearray(random.randbytes(random.randrange(80)))
        elif turn % 3 == 1:
            del datagram[random.randrange(len(datagram)) :]
        for _ in range(random.randint(0, 4) if datagram else 0):
            datagram[random.randrange(len(datagram))] ^= 1 << random.randrange(8)
        fixture.site.receive(SiteId(0), bytes(datagram))
        fixture.site.peers.stranger("x:1", bytes(datagram), fixture.clock_ns)
        fixture.clock_ns += 10_000_000
        fixture.site.fire_due()
        fixture.site.finish()
        fixture.datagrams.clear()
    peers = fixture.site.peers
    assert peers.foreign_count and peers.garbled_count and fixture.site.log.rejected_count
