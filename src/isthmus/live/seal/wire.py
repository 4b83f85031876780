"""The format of sealed datagrams, beside that of clear ones (net/framing.py), whose magic and version they share.

    head    magic 2  version 1  kind 1  index 4  rest 8                              big-endian
    SEALED  index: the receiver's; rest: counter | AEAD(key, 0000 counter, ad = head)
    GREET   index: the site; rest: key id | life 8  index 4  time 8 | Noise 1 (token 8, padding) | MAC 16     192 bytes
    ANSWER  index: the greeter's; rest: key id | Noise 2 (life 8  index 4  token 8) | MAC 16             100 or 148

A sealed datagram carries a clear one without its head: site, life and token belong to the session. A Hello or a Refusal
begins with an entry head of the group `CONTROL_GROUP`, whose view says which kind it is; a plain text without a byte
confirms a session. The overhead is 32 bytes where a clear head has 24.

Bounds: no answer is longer than the greeting that it answers.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Literal

from isthmus.core.errors import RemoteError
from isthmus.core.message import MESSAGE_HEAD_BYTES, PACKET_HEAD_BYTES
from isthmus.live.net.framing import HELLO, MAGIC, MESSAGE_HEAD, REFUSAL, VERSION

START = struct.Struct("!2sBBI8s")  # the head; the counter of SEALED is written with its session's
GREETING = struct.Struct("!QIQ")  # life, index, time
TOKEN = struct.Struct("!Q")
REPLY = struct.Struct("!QIQ")  # life, index, token
HEAD_BYTES = START.size
TAG_BYTES = 16
MAC_BYTES = 16
CLEAR_BYTES = HEAD_BYTES + GREETING.size  # of GREET, before Noise
GREET_BYTES = 192
ANSWER_BYTES = (100, 148)  # by mode: key, identity
NOISE_BYTES = GREET_BYTES - CLEAR_BYTES - MAC_BYTES
OVERHEAD_BYTES = HEAD_BYTES + TAG_BYTES
EXTRA_BYTES = OVERHEAD_BYTES - PACKET_HEAD_BYTES  # of a sealed datagram over a clear one
CONTROL_GROUP = 0xFFFD  # of no messages
CONTROL_HEADS = {kind: MESSAGE_HEAD.pack(0, CONTROL_GROUP, kind) for kind in (HELLO, REFUSAL)}
CONTROL_KINDS = {head: kind for kind, head in CONTROL_HEADS.items()}
CONTROL_HEAD_BYTES = MESSAGE_HEAD_BYTES

assert HEAD_BYTES == 16 and OVERHEAD_BYTES == 32

DropReason = Literal["clear", "garbled", "unknown", "replayed", "forged", "key", "source", "limited"]


class SealError(RemoteError):
    """A datagram that is dropped."""

    def __init__(self, reason: DropReason) -> None:
        super().__init__(f"a datagram that is {reason}")
        self.reason: DropReason = reason


def start(kind: int, index: int, rest: bytes) -> bytes:
    """The head of a datagram."""
    return START.pack(MAGIC, VERSION, kind, index, rest)


def mac(key: bytes, text: bytes) -> bytes:
    """What shows that a datagram was made with a cluster key, before anything dear is computed."""
    return blake2b(text, key=key, digest_size=MAC_BYTES).digest()
