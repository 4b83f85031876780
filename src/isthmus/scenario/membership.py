"""Membership of a scenario: an ideal service, or agreement among the members, with its options."""

from __future__ import annotations

from typing import Literal

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import PERIOD_MIN_MS, BadValue, check_range, given_keys, show
from isthmus.protocols.membership.home import AgreementOptions
from isthmus.protocols.membership.suspicion import LAN, WAN, Timing
from isthmus.scenario.workload import span_ms
from isthmus.topology.model import Topology

WEIGHT_MAX = 1_000_000  # votes of one site
ROUND_TRIP_MIN_MS = 5.0  # for agreed membership: below this, pauses of the machine itself dominate


class Agreed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of agreed membership."""

    round_trip_ms: float | None = None  # longest usual round trip; None: twice the longest mean delay of the topology
    file: bool = False  # a small file survives a crash
    weights: dict[str, int] = msgspec.field(default_factory=dict)  # votes by site; default 1
    rounds: AgreementOptions = AgreementOptions()
    lan: Timing = LAN
    wan: Timing = WAN

    def __post_init__(self) -> None:
        if self.round_trip_ms is not None:
            span_ms("round_trip_ms", self.round_trip_ms, PERIOD_MIN_MS)
        for site, votes in self.weights.items():
            check_range(f"weights.{site}", votes, 0, WEIGHT_MAX, "a whole number")

    def votes(self, topology: Topology) -> dict[SiteId, int]:
        """Return the votes by site."""
        votes = {topology.site_id(site): votes for site, votes in self.weights.items()}
        if len(votes) == len(topology.sites) and not any(votes.values()):
            raise BadValue("", "a weight of 0 for every site", "at least one site with a vote")
        return votes

    def round_trip_of(self, topology: Topology) -> float:
        """Return the longest usual round trip, ms."""
        sites = [SiteId(number) for number in range(len(topology.sites))]
        longest = max([topology.mean_ms(a, b) for a in sites for b in sites if a != b], default=0.0)
        return self.round_trip_ms or max(2 * longest, ROUND_TRIP_MIN_MS)


class Membership(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Membership: views from the simulator's ideal view-synchronous service, or by agreement among the members."""

    kind: Literal["ideal", "agreed"] | None = None  # None: ideal in the simulator, agreed live
    agreed: Agreed = Agreed()
    absent: tuple[str, ...] = ()  # sites that are down at the start; a recover fault starts them
    # Ideal service only:
    detection_ms: float = 500.0  # from a crash or a recovery to the start of the view change
    majority: bool = False  # a side of a partition without a majority of the last view installs no views
    stagger_ms: float = 0.0  # members install a view at random times within this span, then resume within another
    hasty: bool = False  # views do not wait for packets in flight; needs the reliable transport

    def __post_init__(self) -> None:
        span_ms("detection_ms", self.detection_ms)
        span_ms("stagger_ms", self.stagger_ms)
        kind = self.kind or "ideal"
        for name in given_keys(self):
            concerns = name if name in ("kind", "agreed") else "ideal"
            if concerns not in ("kind", kind):
                raise BadValue(name, show(getattr(self, name)), f"nothing, where membership is {kind}")
