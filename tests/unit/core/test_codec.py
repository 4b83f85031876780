"""The codec of a stack: what it takes, how deep messages nest, and what it makes of hostile input."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any, Generic

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.golden import StackRig
from tests.harness.recording import RecordingSite

from isthmus.core.errors import LocalError, RemoteError
from isthmus.core.message import NESTING, B, Batch, Carried, Cast, Codec, GroupId, Message, SiteId, closed, codec_of
from isthmus.protocols.total.hybrid.wire import BodyAhead, ReassignEntries, RoleRequest, TicketPacket
from isthmus.protocols.total.optimistic.wire import Numbers, Posted
from isthmus.protocols.total.token_site import Tickets
from isthmus.protocols.transport.credit import Grant, Probe
from isthmus.protocols.transport.reliable.frames import Ack, Data, Nak, Repair, Status
from isthmus.stacks.registry import STACKS

A, C = SiteId(0), SiteId(2)
CAST = Cast(A, 1, b"abc", (A, C))
CARRIED: Carried[Any] = Carried(A, 2, b"x", (), (GroupId(3), C, 9))


def codec(stack: str, **options: str) -> Codec:
    return StackRig(stack, RecordingSite(A).host, options, lambda _line: None).stack.codec


TOKEN, HYBRID, OPTIMISTIC = codec("token-site"), codec("hybrid"), codec("optimistic")
DIRECT = codec("hybrid", direct="true")
MESSAGES: list[tuple[Codec, Message]] = [
    (TOKEN, Data(1, CAST)),
    (TOKEN, Data(7, Cast(A, 2**63 - 1), (C,), (6,))),
    (TOKEN, Data(2, Batch((CAST, Cast(A, 2))))),
    (TOKEN, Data(2, Batch((CAST, CARRIED, Tickets(1, ((A, 1, 2),)))))),
    (TOKEN, Data(3, Tickets(4, ((A, 1, 3), (C, 2, 1)), ((), (A, C))))),
    (TOKEN, Repair(C, Data(3, Batch((Cast(C, 1), Cast(C, 2)))))),
    (TOKEN, Nak(C, ((1, 2), (5, 9)))),
    (TOKEN, Ack((1, 2, 3), 1)),
    (TOKEN, Status(3)),
    (TOKEN, Grant(-4)),
    (TOKEN, Probe()),
    (
        HYBRID,
        Data(1, TicketPacket(5, ((3, A, 1, 2),), 1, C, 0, (CAST, None, RoleRequest(True, 1.5, (0.0, 2.0)), CARRIED))),
    ),
    (HYBRID, Data(2, Batch((BodyAhead(3, CARRIED), TicketPacket(0, (), 3, A, 1, (None,)))))),
    (HYBRID, Data(3, ReassignEntries(1, 2, C, 0))),
    (DIRECT, TicketPacket(9)),
    (DIRECT, CAST),
    (DIRECT, Carried(A, 1, body=RoleRequest(True))),
    (OPTIMISTIC, Data(1, Posted((CAST, CARRIED), 1, 40, 50))),
    (OPTIMISTIC, Data(2, Batch((Posted((CAST,), 1), Numbers(1, ((A, 1, 1),), (5,)))))),
]


@pytest.mark.parametrize(("codec", "message"), MESSAGES, ids=lambda value: type(value).__name__)
def test_what_is_encoded_decodes_to_the_same_types_and_values(codec: Codec, message: Message) -> None:
    decoded = codec.decode(codec.encode(message))
    assert decoded == message and repr(decoded) == repr(message), "a Carried is not a Cast"


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_has_a_codec_and_stacks_of_one_name_share_it(stack: str) -> None:
    assert codec(stack) is codec(stack)
    assert {1, 2, 3} <= set(codec(stack).types), "Cast, Carried and Batch are bodies everywhere"


@pytest.mark.parametrize(
    "message",
    [
        CAST,  # a body is no packet
        Batch((CAST,)),
        Tickets(1, ((A, 1, 1),)),
        Data(1, Ack((1,))),  # nor is a packet a body
        Data(1, Data(2, CAST)),
        Data(1, Posted((CAST,), 1)),  # of another stack
        TicketPacket(1),
        Repair(A, CAST),  # type: ignore[arg-type]
        Data(1, Batch((Grant(1),))),
    ],
    ids=lambda message: repr(message)[:40],
)
def test_only_what_the_stack_owns_is_taken_where_it_belongs(message: Message) -> None:
    with pytest.raises(RemoteError):
        TOKEN.decode(TOKEN.encode(message))


def nested(depth: int) -> Message:
    """A body with so many others in it, one in the other."""
    message: Message = CAST
    for _ in range(depth):
        message = Batch((message,))
    return message


def test_bodies_nest_as_deep_as_they_need_and_no_deeper() -> None:
    """A batch with a packet with a message of another author with a body of its own."""
    assert NESTING == 3
    for depth in range(NESTING + 1):
        data = Data(1, nested(depth))
        assert TOKEN.decode(TOKEN.encode(data)) == data
    for depth in (NESTING + 1, NESTING + 2, 50):
        with pytest.raises(RemoteError):
            TOKEN.decode(TOKEN.encode(Data(1, nested(depth))))
    deepest = Data(1, Batch((TicketPacket(1, (), 1, A, 0, (Carried(A, 1, body=RoleRequest(True)),)),)))
    assert HYBRID.decode(HYBRID.encode(deepest)) == deepest


WHOLE = TOKEN.encode(Data(1, CAST))


@pytest.mark.parametrize(
    "packet",
    {
        "nothing": b"",
        "a number": b"\x05",
        "text that is none": b"\xa3\xff\xfe\xfd",
        "an unknown tag": b"\x92\xcd\x7f\xff\x01",
        "no tag": b"\x90",
        "a tag of text": b"\x92\xa1a\x01",
        "too short": WHOLE[:-1],
        "something behind it": WHOLE + b"\x00",
        "too few fields": b"\x92\x0a\x01",
        "a float for a number": b"\x93\x0a\xcb" + struct.pack(">d", 1.5) + b"\xc0",
        "a number that is none": b"\x93\x0a\xcb" + struct.pack(">d", float("nan")) + b"\xc0",
        "nil for a body": b"\x93\x0a\x01\xc0",
        "a message number above 63 bits": b"\x93\x0a\x01\x93\x01\x00\xcf" + b"\xff" * 8,
        "a message number below 0": b"\x93\x0a\x01\x93\x01\x00\xff",
        "arrays without end": b"\x91" * 100_000,
        "maps without end": b"\x81\x01" * 100_000,
        "an array said to be huge": b"\x93\x0c\x00\xdd\xff\xff\xff\xff\x01",
        "a batch said to be huge": b"\x93\x0a\x01\x92\x03\xdd\xff\xff\xff\xff\x01",
        "a payload said to be huge": b"\x93\x0a\x01\x94\x01\x00\x01\xc6\xff\xff\xff\xffabc",
        "an extension": b"\xc7\x03\x01abc",
    }.values(),
)
def test_hostile_input_is_a_remote_error_and_nothing_else(packet: bytes) -> None:
    with pytest.raises(RemoteError):
        TOKEN.decode(packet)


@given(st.binary(max_size=200))
def test_noise_is_refused_or_read(packet: bytes) -> None:
    try:
        message = TOKEN.decode(packet)
    except RemoteError:
        return
    assert isinstance(message, Message) and type(message).__name__ in {
        "Data",
        "Repair",
        "Nak",
        "Status",
        "Ack",
        "Grant",
        "Probe",
    }


@given(st.sampled_from(MESSAGES), st.integers(0, 10_000), st.integers(0, 255))
def test_a_wrong_byte_is_refused_or_makes_another_message(pair: tuple[Codec, Message], place: int, byte: int) -> None:
    codec, message = pair
    packet = bytearray(codec.encode(message))
    packet[place % len(packet)] = byte
    with suppress(RemoteError):
        assert isinstance(codec.decode(bytes(packet)), Message)


def test_two_types_with_one_tag_are_no_codec() -> None:
    class Twin(Message, frozen=True, gc=False, array_like=True, tag=1):
        """With the tag of Cast."""

    class Unnumbered(Message, frozen=True, gc=False, array_like=True):
        """Without a tag."""

    with pytest.raises(LocalError, match="Cast needs a number of its own"):
        Codec((Twin,), (Cast,))
    with pytest.raises(LocalError, match="Unnumbered needs"):
        Codec((Unnumbered,), (Cast,))
    assert codec_of((Data,), (Cast, Batch)) is codec_of((Data,), (Cast, Batch))


def test_a_union_is_closed_over_the_bodies_given() -> None:
    class Wrapped(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=210):
        """Carries any body."""

        body: B

    decoder = msgspec.msgpack.Decoder(closed((Wrapped,), (Cast, Wrapped)))
    encode = msgspec.msgpack.encode
    inner = Wrapped(Wrapped(CAST))
    assert decoder.decode(encode(inner)) == inner
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(encode(Wrapped(CARRIED)))
