"""What travels: wire types, the application's message, and the codec of a stack.

A wire type is a frozen struct with a number for a tag; it encodes as a short array. A transport carries the wire
types of the layers above it in a field of type `Body`: any `Message`, which the codec recognises by its tag.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, NewType

import msgspec

from isthmus.core.errors import LocalError, RemoteError

SiteId = NewType("SiteId", int)
Targets = tuple[SiteId, ...]
ALL: Targets = ()  # as targets or destinations: every member of the view


class Message(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Base of every wire type; each layer subclasses it in its own module, with a tag of its own."""

    def payload_bytes(self) -> int:
        """The application's share of the encoded size; the rest is control information."""
        return 0

    def subject(self) -> Cast | None:
        """The application's message inside, for the trace."""
        return None


if TYPE_CHECKING:
    Body = Message
else:

    class Body(ABC):  # noqa: B024  a name for "any Message" that the codec can hook into
        """The type of a field that carries another layer's message."""

    Body.register(Message)


class Cast(Message, frozen=True, gc=False, array_like=True, tag=1):
    """One message of the application, the same at every layer and site."""

    sender: SiteId
    number: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # 1, 2, 3 ...; the sender's incarnation above bit 32
    payload: bytes = b""
    destinations: Targets = ALL

    def payload_bytes(self) -> int:
        return len(self.payload)

    def subject(self) -> Cast:
        return self


class Codec:
    """Encodes and decodes the wire types of one stack as MessagePack."""

    def __init__(self, types: Iterable[type[Message]]) -> None:
        self.types: dict[int, type[Message]] = {}
        for kind in types:
            tag = kind.__struct_config__.tag
            if not isinstance(tag, int) or self.types.setdefault(tag, kind) is not kind:
                raise LocalError(f"{kind.__name__} needs a number of its own as its tag, not {tag!r}")
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Body, dec_hook=self._typed)

    def encode(self, message: Message) -> bytes:
        return self._encoder.encode(message)

    def decode(self, packet: bytes) -> Message:
        try:
            return self._decoder.decode(packet)
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError) as error:  # noise is not even MessagePack
            raise RemoteError(f"a packet of {len(packet)} bytes does not decode: {error}") from error

    def size(self, message: Message) -> int:
        return len(self._encoder.encode(message))

    def _typed(self, kind: type, fields: Any) -> Message:
        """Turn the array that stands for a message into the wire type its first item names."""
        tag = fields[0] if isinstance(fields, list) and fields else None
        if kind is not Body or not isinstance(tag, int) or tag not in self.types:
            raise ValueError(f"no wire type has the tag {tag!r}")
        message: Message = msgspec.convert(fields, self.types[tag], dec_hook=self._typed)
        return message
