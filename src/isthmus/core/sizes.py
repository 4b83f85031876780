"""The size of a packet, the same for both hosts: the encoded message with all headers, or a declared size.

    packet   magic (2)  version (1)  kind (1)  site (4)  life (8)  token (8)
    message  length (2)  group (2)  view (4), then the message as the stack's codec encodes it

Live, messages to one target that leave in one turn share a packet; in the simulator each is a packet of its own. A wire
type that declares its size (`Message.declared_bytes`) is counted as declared, headers included, in both.
"""

from __future__ import annotations

from isthmus.core.message import Codec, Message

PACKET_HEAD_BYTES = 24
MESSAGE_HEAD_BYTES = 8
HEAD_BYTES = PACKET_HEAD_BYTES + MESSAGE_HEAD_BYTES


def packet_bytes(message: Message, encoded_bytes: int) -> int:
    """The size of a packet that carries one message alone."""
    declared = message.declared_bytes()
    return HEAD_BYTES + encoded_bytes if declared is None else declared


def size_of(codec: Codec, message: Message) -> int:
    """The size of a packet that carries one message alone, encoded by the codec of its stack."""
    declared = message.declared_bytes()
    return HEAD_BYTES + len(codec.encode(message)) if declared is None else declared
