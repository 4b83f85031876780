"""Options of a site's clock service: periods, and assumptions about clocks, broadcasts and references.

The bounds that follow from these are pure functions (paper 000, section 3; docs/design/clocks.md derives them).
`precision` bounds two clocks of one LAN, `accuracy` one clock and true time; both hold just before the next
installation, when the last synchronisation is oldest. Any two nodes, wherever they are, differ by at most twice the
accuracy, however many LANs there are.
"""

from __future__ import annotations

from math import ceil
from typing import Literal

import msgspec

from isthmus.core.message import SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import DURATION_MAX_MS, PERIOD_MIN_MS, BadValue, check_range

NS_PER_US = 1_000
DRIFT_PPM_MAX = 10_000.0
SPAN_US_MAX = 1e9


class ClockPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options that do not depend on the network."""

    period_ms: float = 1_000.0  # P: from one round to the next
    window_ms: float = 10.0  # W: within which the candidates of a round are sent
    agreement_ms: float = 20.0  # A: from the end of the window to the installation
    slew_ppm: float = 500.0  # how fast a correction beyond a round's need is worked off, once synchronised
    gate_ms: float | None = None  # a reference further off is ignored; None: the error bound of the LAN's clocks
    rate_correction: bool = False  # estimate the rate of the hardware clock over the last rounds
    wander_ppm: float = 0.1  # by how much that rate may change meanwhile; only with rate_correction
    # For a LAN without a reference: its agent requests the time; every site does, as with NTP; or it is refused.
    without_reference: Literal["round-trips", "clients", "refuse"] = "round-trips"

    def __post_init__(self) -> None:
        check_range("period_ms", self.period_ms, 1.0, DURATION_MAX_MS)
        check_range("window_ms", self.window_ms, PERIOD_MIN_MS, self.period_ms)
        check_range("agreement_ms", self.agreement_ms, PERIOD_MIN_MS, self.period_ms)
        if self.window_ms + self.agreement_ms >= self.period_ms:
            found = f"{self.agreement_ms:g}, with a window of {self.window_ms:g}"
            raise BadValue("agreement_ms", found, f"less than the period ({self.period_ms:g}) with the window")
        check_range("slew_ppm", self.slew_ppm, 1.0, 500_000.0)
        check_range("wander_ppm", self.wander_ppm, 0.0, DRIFT_PPM_MAX)
        if self.gate_ms is not None:
            check_range("gate_ms", self.gate_ms, 0.0, DURATION_MAX_MS)


class ClockOptions(ClockPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same with a site's assumptions; if one does not hold, an interval may miss true time."""

    drift_ppm: float  # rho: the maximum deviation of a hardware clock's rate from 1
    tightness_us: float  # Gamma: the spread of the instants at which a LAN receives one transmission
    granularity_us: float = 0.0  # g: of receive stamps
    reference_error_us: float = 1.0  # alpha: of a reference that is not faulty
    agent: SiteId | None = None  # of this LAN; None if it has a reference
    sources: tuple[SiteId, ...] = ()  # agents of LANs that have a reference, the nearest first

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("drift_ppm", self.drift_ppm, 0.0, DRIFT_PPM_MAX)
        check_range("tightness_us", self.tightness_us, 0.0, SPAN_US_MAX)
        check_range("granularity_us", self.granularity_us, 0.0, SPAN_US_MAX)
        check_range("reference_error_us", self.reference_error_us, 0.0, SPAN_US_MAX)

    @property
    def period_ns(self) -> int:
        return round(self.period_ms * NS_PER_MS)

    @property
    def window_ns(self) -> int:
        return round(self.window_ms * NS_PER_MS)

    @property
    def agreement_ns(self) -> int:
        return round(self.agreement_ms * NS_PER_MS)

    @property
    def drift(self) -> float:
        """The maximum deviation of elapsed true time from elapsed hardware time, as a share."""
        rho = self.drift_ppm / 1e6
        return rho / (1 - rho)

    @property
    def slack_ns(self) -> int:
        """The maximum difference of two sites' stamps of one transmission, drift aside."""
        return ceil((self.tightness_us + self.granularity_us) * NS_PER_US)


def precision_ns(options: ClockOptions) -> int:
    """The maximum difference of two clocks of one LAN."""
    return options.slack_ns + ceil(2 * options.drift * age_ns(options))


def accuracy_ns(options: ClockOptions) -> int:
    """The maximum error of a clock of a LAN with a reference."""
    reference_ns = ceil(options.reference_error_us * NS_PER_US)
    return reference_ns + options.slack_ns + ceil(options.drift * age_ns(options))


def worldwide_ns(options: ClockOptions) -> int:
    """The maximum difference of any two clocks of LANs with references."""
    return 2 * accuracy_ns(options)


def age_ns(options: ClockOptions) -> int:
    """The maximum age of a synchronisation if no round fails."""
    return options.period_ns + options.agreement_ns + options.window_ns
