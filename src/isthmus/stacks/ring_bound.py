"""How long a message takes at most on a ring: what a rotating token promises before anything is sent.

Let n members be at most `hop_ms` apart and take at most `message_ms` for each message that a holder sends, of which
there are at most `batch` a visit. A message that is submitted at a member with `ahead` others waiting there

- waits for the token. Where the token rests, a TokenRequest takes a hop to all members; by then the token may be on its
  way elsewhere, another hop. From there it only moves forward along the ring, over some members or to each, and reaches
  this one within n visits, each of a hop and a batch;
- waits for ahead // batch further rotations, where more than a batch waits;
- is sent with its batch, and takes a hop; what has an earlier position was sent earlier, and is there by then.

Where hosts take time, a visit lasts for a token's hop, one send, one transmission, and for each message as long as the
slowest of the three steps that it passes, as they overlap: send, transmission, receive.

It holds while nobody crashes, nothing is lost and no receiver runs out of credit. Flow control, repair and views each
take their own time.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.topology.model import Topology


class HostTimes(NamedTuple):
    """What a message takes of hosts and LAN."""

    send_ms: float
    wire_ms: float
    receive_ms: float
    token_ms: float  # a hop of the token


class RingCosts(msgspec.Struct, frozen=True):
    """What bounds a ring's rotation."""

    members: int
    batch: int
    hop_ms: float  # the longest delay between two members
    message_ms: float = 0.0  # that a holder's visit takes longer for each message of its batch
    token_ms: float = 0.0  # that passing the token on takes, besides the hop

    def __post_init__(self) -> None:
        for name in ("members", "batch"):
            if getattr(self, name) < 1:
                raise BadValue(name, repr(getattr(self, name)), "at least 1")
        for name in ("hop_ms", "message_ms", "token_ms"):
            if not (isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise BadValue(name, repr(getattr(self, name)), "a finite number from 0 on")

    def visit_ms(self) -> float:
        """The longest visit, with the hop that ends it."""
        return self.hop_ms + self.token_ms + self.batch * self.message_ms

    def rotation_ms(self) -> float:
        return self.members * self.visit_ms()

    def latency_ms(self, ahead: int = 0) -> float:
        """The longest latency of a message with so many before it at its own member."""
        rotations = 1 + ahead // self.batch
        started = 2 * (self.hop_ms + self.token_ms)
        return started + rotations * self.rotation_ms() + self.batch * self.message_ms + self.hop_ms + self.token_ms


def costs_of(
    topology: Topology, members: Sequence[SiteId], batch: int, hosts: HostTimes | None = None
) -> RingCosts | None:
    """What bounds a ring of these members; None where delays have no bound."""
    hop_ms = max([topology.longest_ms(a, b) for a in members for b in members if a != b], default=0.0)
    if not isfinite(hop_ms):
        return None
    if hosts is None:
        return RingCosts(len(members), batch, hop_ms)
    steps = (hosts.send_ms, hosts.wire_ms, hosts.receive_ms)
    started_ms = hosts.send_ms + hosts.wire_ms + hop_ms  # until the first message of a batch is there
    return RingCosts(len(members), batch, hop_ms, max(steps), hosts.token_ms + started_ms)
