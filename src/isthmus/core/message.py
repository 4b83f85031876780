"""Wire types, the application's message, and the codec of a stack.

A wire type is a frozen struct with a number for a tag; it encodes as a short array. A type that carries messages of
other layers is generic in them: `Data[B]` has a field of type B. The codec of a stack closes such a type over the
bodies that the stack's layers own, so that one call decodes a frame and everything in it.

A message has an *author*, which wrote it, and in each group that it passes a *courier*, which submitted it there. A
`Cast` serves where they are the same, as they mostly are. A `Carried` names an author in another group, or holds a
message of an upper layer that is ordered like the application's.

The size of a packet, the same for both hosts, is that of the encoded message with all headers:

    packet   magic (2)  version (1)  kind (1)  site (4)  life (8)  token (8)
    message  length (2)  group (2)  view (4), then the message as the stack's codec encodes it

Live, messages to one target that leave in one turn share a packet; in the simulator each is a packet of its own. A wire
type that declares its size (`Message.declared_bytes`) is counted as declared, headers included, in both.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, ClassVar, Generic, NewType, TypeVar, Union

import msgspec

from isthmus.core.errors import LocalError, RemoteError

SiteId = NewType("SiteId", int)
GroupId = NewType("GroupId", int)
Targets = tuple[SiteId, ...]
ONLY_GROUP = GroupId(0)  # where a site is in one group alone
BULK_WINDOW_BYTES = 65_536  # of bulk messages that a host has on the way to a site at a time
ALL: Targets = ()  # as targets or destinations: every member of the view
Author = tuple[GroupId, SiteId, int]  # origin group, sender, number: the identity of a message in all groups
PACKET_HEAD_BYTES = 24
MESSAGE_HEAD_BYTES = 8
HEAD_BYTES = PACKET_HEAD_BYTES + MESSAGE_HEAD_BYTES
NESTING = 3  # a batch carries an entry of an order, which carries a message of another author, which has a body


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of every wire type; each layer subclasses it in its own module, with a tag of its own.

    A host sends `bulk` messages from a queue of its own for each site, and gives its socket or link the next one only
    where fewer than `BULK_WINDOW_BYTES` of what it was given before are still to leave. Otherwise megabytes of a cut
    or a state wait in front of heartbeats, which then come too late.
    """

    viewless: ClassVar[bool] = False  # it is accepted in any view of its sender and receiver
    cumulative: ClassVar[bool] = False  # it replaces all earlier ones of its sender, and may wait to share a packet
    wraps: ClassVar[bool] = False  # it carries whole packets: any other wire type of the stack
    bulk: ClassVar[bool] = False  # large, and not urgent: it does not delay other messages
    forwarded: ClassVar[bool] = False  # any site that has it may send it; the layer that owns it checks its author

    def payload_bytes(self) -> int:
        """The application's share of the encoded size; the rest is control information."""
        return 0

    def declared_bytes(self) -> int | None:
        """The size to count instead of the encoded one, where a paper defines it; None: the encoded size."""
        return None

    def subjects(self) -> tuple[Cast, ...]:
        """The contained messages that have an author, which the transport checks and the trace names."""
        return ()

    def trace_number(self, number: int) -> int:
        """The number of a message with this body in a trace: its own, or that of the message that it is a part of."""
        return number


B = TypeVar("B")  # what a wire type carries for other layers: one of the bodies that they own


class Cast(Message, frozen=True, gc=False, array_like=True, tag=1):
    """One message of the application, the same at every layer and site of a group."""

    sender: SiteId  # the site that submitted it in this group
    number: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # 1, 2, 3 ...; the sender's incarnation above bit 32
    payload: bytes = b""
    destinations: Targets = ALL

    def payload_bytes(self) -> int:
        return len(self.payload)

    def subjects(self) -> tuple[Cast, ...]:
        return (self,)

    def identity(self, group: GroupId) -> Author:
        """The identity of the message in all groups, given the group in which it was found."""
        return (group, self.sender, self.number)


class Carried(Cast, Generic[B], frozen=True, gc=False, array_like=True, tag=2):
    """A message that its sender did not write, or that belongs to an upper layer instead of the application."""

    author: Author | None = None  # None: the sender itself
    body: B | None = None  # an upper layer's message, ordered like any other; its owner takes it at delivery

    def identity(self, group: GroupId) -> Author:
        if self.author is not None:
            return self.author
        return (group, self.sender, self.number if self.body is None else self.body.trace_number(self.number))  # type: ignore[attr-defined]


class Batch(Message, Generic[B], frozen=True, gc=False, array_like=True, tag=3):
    """The messages submitted to the same targets within one turn, in order."""

    bodies: tuple[B, ...]

    def payload_bytes(self) -> int:
        sizes: list[int] = [len(one.payload) if type(one) is Cast else one.payload_bytes() for one in self.bodies]  # type: ignore[attr-defined]
        return sum(sizes)

    def subjects(self) -> tuple[Cast, ...]:
        return tuple(subject for body in self.bodies for subject in body.subjects())  # type: ignore[attr-defined]


class Codec:
    """Encodes and decodes the wire types of one stack as MessagePack."""

    __slots__ = ("_decoder", "encode", "types")

    def __init__(self, routed: tuple[type[Message], ...], bodies: tuple[type[Message], ...]) -> None:
        self.types: dict[int, type[Message]] = {}
        for kind in (*routed, *bodies):
            tag = kind.__struct_config__.tag
            if not isinstance(tag, int) or self.types.setdefault(tag, kind) is not kind:
                raise LocalError(f"{kind.__name__} needs a number of its own as its tag, not {tag!r}")
        self.encode = msgspec.msgpack.Encoder().encode
        self._decoder = msgspec.msgpack.Decoder(closed(routed, bodies))

    def decode(self, packet: bytes) -> Message:
        try:
            message: Message = self._decoder.decode(packet)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:  # noise is not even MessagePack
            raise RemoteError(f"a packet of {len(packet)} bytes does not decode: {error}") from error
        return message


@cache
def codec_of(routed: tuple[type[Message], ...], bodies: tuple[type[Message], ...]) -> Codec:
    """The codec of some wire types; stacks of the same name share one, as it is slow to build."""
    return Codec(routed, bodies)


def closed(routed: tuple[type[Message], ...], bodies: tuple[type[Message], ...]) -> Any:
    """The type of a packet: any of the routed types, carrying any of the bodies."""
    plain = [kind for kind in bodies if not is_generic(kind)]
    inside: Any = Union[tuple(plain)]  # noqa: UP007  made at run time
    for _ in range(NESTING):
        inside = Union[(*plain, *(kind[inside] for kind in bodies if is_generic(kind)))]  # type: ignore[index]
    packets = [kind[inside] if is_generic(kind) else kind for kind in routed if not kind.wraps]  # type: ignore[index]
    whole: Any = Union[tuple(packets)]  # noqa: UP007
    return Union[(*packets, *(kind[whole] for kind in routed if kind.wraps))]  # type: ignore[index]


def is_generic(kind: type[Message]) -> bool:
    return bool(getattr(kind, "__parameters__", ()))


def packet_bytes(message: Message, encoded_bytes: int) -> int:
    """The size of a packet that carries one message alone."""
    declared = message.declared_bytes()
    return HEAD_BYTES + encoded_bytes if declared is None else declared


def size_of(codec: Codec, message: Message) -> int:
    """The size of a packet that carries one message alone, encoded by the codec of its stack."""
    declared = message.declared_bytes()
    return HEAD_BYTES + len(codec.encode(message)) if declared is None else declared
