"""What the causal stacks leave open."""

from __future__ import annotations

import msgspec

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range
from isthmus.protocols.causal.histories.coding import Coding
from isthmus.protocols.causal.histories.history import HistoryRules
from isthmus.topology.gateways.lans import Lans


class CausalPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rules, codings and bounds of extended histories."""

    extended: bool = True  # timestamps tell to whom entries were reported
    symmetric: bool = True  # a later message that is told of covers an earlier one that is known
    separators: bool = True  # R9: what stays in a zone is not told outside
    anywhere: bool = True  # R9 by any process
    remainder: bool = True  # R9 looks at who has not been told, not at all addressees
    forgetting: bool = True  # what the far side of a separator answers for is forgotten
    pruning: bool = True  # R5 to R8; without, all of the past is told for ever and no bound holds: to compare with
    gated: bool = False  # gateways hold back what would have to tell of their LAN: right on any graph, without R9
    forced: bool = False  # gateways tell the rest of their separator by empty messages, where that is cheaper
    coding: Coding = "groups"  # of sets of sites
    entries_max: int = 1024  # of one timestamp, which has no more than the history that it is taken from
    history_max: int = 4096  # entries of a history; beyond either, all are told to all whom they concern
    hold_max: int = 65_536  # messages that wait for others
    keep_max: int = 8192  # own messages that are not known to be where they should; where they are relayed
    ack_period_ms: float = 100.0  # how often they are acknowledged
    gauge_ms: float = 0.0  # how often the size of the history is traced, and each timestamp's too; 0: never

    def __post_init__(self) -> None:
        for name in ("entries_max", "history_max", "hold_max", "keep_max"):
            check_range(name, getattr(self, name), 4, COUNT_MAX, "a whole number")
        check_range("ack_period_ms", self.ack_period_ms, PERIOD_MIN_MS, DURATION_MAX_MS)
        if self.gauge_ms:
            check_range("gauge_ms", self.gauge_ms, PERIOD_MIN_MS, DURATION_MAX_MS)

    def rules(self) -> HistoryRules:
        return HistoryRules(**{name: getattr(self, name) for name in HistoryRules.__struct_fields__})


class CausalOptions(CausalPolicy, frozen=True, kw_only=True):
    """The same with the LANs that messages are relayed over."""

    lans: Lans | None = None  # None: all sites are on one
