"""Options of the causal stacks."""

from __future__ import annotations

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range
from isthmus.protocols.causal.histories.coding import Coding
from isthmus.protocols.causal.histories.history import HistoryRules
from isthmus.topology.gateways.lans import Lans


class CausalPolicy(HistoryRules, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, codings and bounds of extended histories."""

    gated: bool = False  # gateways hold messages until deliveries in their LAN are confirmed: any graph, without R9
    forced: bool = False  # gateways report to the rest of their separator by empty messages, where that is cheaper
    coding: Coding = "groups"  # of sets of sites
    entries_max: int = 1024  # of one timestamp, which has no more than its history
    history_max: int = 4096  # entries of a history; beyond either, all are reported to all sites concerned
    hold_max: int = 65_536  # messages that wait for others
    keep_max: int = 8192  # own messages not acknowledged by all destinations, where gateways relay
    ack_period_ms: float = 100.0  # how often they are acknowledged
    gauge_ms: float = 0.0  # how often the size of the history is traced, and each timestamp's too; 0: never

    def __post_init__(self) -> None:
        for name in ("entries_max", "history_max", "hold_max", "keep_max"):
            check_range(name, getattr(self, name), 4, COUNT_MAX, "a whole number")
        check_range("ack_period_ms", self.ack_period_ms, PERIOD_MIN_MS, DURATION_MAX_MS)
        if self.gauge_ms:
            check_range("gauge_ms", self.gauge_ms, PERIOD_MIN_MS, DURATION_MAX_MS)

    def rules(self) -> HistoryRules:
        """The rules alone, without the options that may differ between sites."""
        return HistoryRules(*(getattr(self, name) for name in HistoryRules.__struct_fields__))


class CausalOptions(CausalPolicy, frozen=True, kw_only=True):
    """The same with the LANs over which messages are relayed."""

    lans: Lans | None = None  # None: all sites are on one
