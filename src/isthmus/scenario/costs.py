"""Costs of a message at hosts and LANs: CPU time per interface, and one transmission per broadcast.

By default hosts take no time and a LAN carries any number of packets at once. With costs, every site has one interface,
with its own CPU, per LAN. A packet takes CPU time at its sender, then the wire of the LAN, which carries one
transmission at a time to all targets, then CPU time at each receiver. The token of a ring instead takes a fixed time
per hop. Each group has its own LAN, unless `lans` places several on one. The delays of the topology are added on top,
as propagation.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, BadValue, check_range, one_of

LONGEST_US = 1000 * DURATION_MAX_MS
NS_PER_US = 1000


class CostSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Costs of a packet, the same at all sites; the defaults are those of the study of compositions."""

    send_us: float = 200.0  # of the sender's CPU
    wire_us: float = 80.0  # of the LAN
    receive_us: float = 300.0  # of each receiver's CPU
    token_us: float = 1000.0  # per hop of the ring's token, in place of the other three
    control_free: bool = False  # packets without an application message cost nothing
    queue_max: int = 10_000  # packets queued at an interface in each direction; any more are dropped
    lans: tuple[tuple[str, ...], ...] = ()  # names of groups that share a LAN

    def __post_init__(self) -> None:
        for name in ("send_us", "wire_us", "receive_us", "token_us"):
            check_range(name, getattr(self, name), 0, LONGEST_US)
        check_range("queue_max", self.queue_max, 1, COUNT_MAX, "a whole number")

    def lans_of(self, groups: Sequence[str]) -> list[int]:
        """Return the LAN number of each group; reject names that are unknown or on two LANs."""
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
