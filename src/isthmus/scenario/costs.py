"""What a message costs hosts and LANs: CPU time per interface, and one transmission per broadcast.

By default hosts take no time and a LAN carries everything at once. With costs, every site has an interface, with a CPU
of its own, for each LAN that it is on. A packet takes CPU time at its sender, then the wire of the LAN, which carries
one transmission at a time and reaches all targets by it, then CPU time at each receiver. The token of a ring takes a
time of its own instead, per hop. Each group has a LAN of its own, unless `lans` puts several on one. The delays of the
topology come on top: the propagation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, BadValue, check_range, one_of

LONGEST_US = 1000 * DURATION_MAX_MS
NS_PER_US = 1000


class CostSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of a packet, the same for all; the defaults are those that the study of compositions is measured by."""

    send_us: float = 200.0  # of the sender's CPU
    wire_us: float = 80.0  # of the LAN
    receive_us: float = 300.0  # of each receiver's CPU
    token_us: float = 1000.0  # a hop of the ring's token, instead of all three
    control_free: bool = False  # packets without a message of the application cost nothing
    queue_max: int = 10_000  # packets that wait at an interface, each way; one more is dropped
    lans: tuple[tuple[str, ...], ...] = ()  # names of groups that share a LAN

    def __post_init__(self) -> None:
        for name in ("send_us", "wire_us", "receive_us", "token_us"):
            check_range(name, getattr(self, name), 0, LONGEST_US)
        check_range("queue_max", self.queue_max, 1, COUNT_MAX, "a whole number")

    def lans_of(self, groups: Sequence[str]) -> list[int]:
        """The LAN of each group, by number; refuses names that are unknown, or on two LANs."""
        found = list(range(len(groups)))
        placed: set[str] = set()
        for index, lan in enumerate(self.lans):
            for place, name in enumerate(lan):
                key = f"lans[{index}][{place}]"
                if name not in groups:
                    raise BadValue(key, repr(name), one_of(name, groups))
                if name in placed:
                    raise BadValue(key, f"{name!r} again", "each group on one LAN")
                placed.add(name)
                found[groups.index(name)] = found[groups.index(lan[0])]
        return found


def ns_of(time_us: float) -> int:
    return round(time_us * NS_PER_US)
