"""Clocks of a scenario: errors of hardware clocks, LAN broadcast, and the clock synchronisation service.

Properties of the simulated world (drift, tightness, reference error) are set beside the service; the assumptions of the
service default to them. A service that assumes less than the true values may publish wrong intervals.
"""

from __future__ import annotations

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.validation import DURATION_MAX_MS, PERIOD_MIN_MS, BadValue, check_range
from isthmus.protocols.clocks.options import DRIFT_PPM_MAX, SPAN_US_MAX, ClockOptions, ClockPolicy
from isthmus.scenario.workload import probability, span_ms
from isthmus.topology.model import Topology


class Broadcasts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """LAN broadcast: one transmission reaches all sites after a common access delay, at nearly the same instant."""

    tightness_us: float = 10.0  # each receiver draws its own delay from 0 to this
    repeat: float = 0.0  # probability that one receiver gets the frame only at a second attempt
    repeat_ms: tuple[float, float] = (2.0, 8.0)  # extra delay of the second attempt: lower and upper bound
    loss: float = 0.0  # probability that a given receiver does not get the frame

    def __post_init__(self) -> None:
        check_range("tightness_us", self.tightness_us, 0.0, SPAN_US_MAX)
        probability("repeat", self.repeat)
        probability("loss", self.loss)
        span_ms("repeat_ms[0]", self.repeat_ms[0])
        check_range("repeat_ms[1]", self.repeat_ms[1], self.repeat_ms[0], DURATION_MAX_MS)


class TimeService(ClockPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The clock service of all sites; assumptions left out equal the true values."""

    drift_ppm: float | None = None
    tightness_us: float | None = None
    granularity_us: float | None = None
    reference_error_us: float | None = None
    sample_ms: float = 1_000.0  # period at which the clocks of all sites are traced

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("sample_ms", self.sample_ms, PERIOD_MIN_MS, DURATION_MAX_MS)


class Clocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Errors of the site clocks: offset and drift are drawn within plus or minus these values."""

    offset_ms: float = 0.0
    drift_ppm: float = 0.0
    extreme: bool = False  # every rate is at one end of the range, alternating from site to site
    granularity_us: float = 0.0  # of receive stamps
    reference_error_us: float = 1.0  # maximum error of a reference that is not faulty
    broadcast: Broadcasts = Broadcasts()
    service: TimeService | None = None  # None: sites have unsynchronised calendars

    def __post_init__(self) -> None:
        span_ms("offset_ms", self.offset_ms)
        if not 0 <= self.drift_ppm < 100_000:
            raise BadValue("drift_ppm", repr(self.drift_ppm), "a number from 0 to below 100000")
        check_range("granularity_us", self.granularity_us, 0.0, SPAN_US_MAX)
        check_range("reference_error_us", self.reference_error_us, 0.0, SPAN_US_MAX)
        if self.service is not None and self.service.drift_ppm is None and self.drift_ppm > DRIFT_PPM_MAX:
            raise BadValue("drift_ppm", repr(self.drift_ppm), f"at most {DRIFT_PPM_MAX:g}, with a clock service")

    def options(self, topology: Topology, lan: int) -> ClockOptions:
        """Return the service options of a LAN; reject a LAN without a reference if the service requires one."""
        given = self.service
        assert given is not None
        cluster = topology.clusters[lan]
        if not cluster.references and given.without_reference == "refuse":
            expected = f"a reference in {cluster.name}, or without_reference = 'round-trips'"
            raise BadValue("without_reference", f"'refuse', and {cluster.name} has no reference", expected)
        agent: SiteId | None = None
        sources: tuple[SiteId, ...] = ()
        if not cluster.references:
            agent = cluster.agent
            others = [other for other, one in enumerate(topology.clusters) if one.references]
            others.sort(key=lambda other: (topology.cluster_mean_ms(lan, other), other))
            sources = tuple(topology.clusters[other].agent for other in others)
        policy = {name: getattr(given, name) for name in ClockPolicy.__struct_fields__}
        return ClockOptions(
            **policy,
            drift_ppm=or_else(given.drift_ppm, self.drift_ppm),
            tightness_us=or_else(given.tightness_us, self.broadcast.tightness_us),
            granularity_us=or_else(given.granularity_us, self.granularity_us),
            reference_error_us=or_else(given.reference_error_us, self.reference_error_us),
            agent=agent,
            sources=sources,
        )

    def check(self, topology: Topology) -> None:
        """Reject LANs that the service cannot serve."""
        for lan in range(len(topology.clusters)):
            self.options(topology, lan)


def or_else(given: float | None, otherwise: float) -> float:
    return otherwise if given is None else given
