"""The options of routers and of the processes behind them."""

from __future__ import annotations

from typing import Literal

import msgspec

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, PERIOD_MIN_MS, check_range

PACK_MAX = 1024


class RouterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How routers forward, and how many messages may be under way."""

    pack_max: int = 1  # copies in one message of a node
    pack_ms: float = 0.0  # how long a copy waits for others to share a message with
    window: int = 1024  # messages that a process may have under way to a group
    queue_max: int = 1024  # messages held, or without credit, at a process
    report_ms: float = 20.0  # how long a report waits for others to leave with it
    enquire_ms: float = 200.0  # before an enquiry, and before missing messages are requested
    routes: Literal["static", "recomputed"] = "static"  # recomputed: when a router or an IGP fails

    def __post_init__(self) -> None:
        check_range("pack_max", self.pack_max, 1, PACK_MAX, "a whole number")
        check_range("pack_ms", self.pack_ms, 0, DURATION_MAX_MS)
        check_range("window", self.window, 1, COUNT_MAX, "a whole number")
        check_range("queue_max", self.queue_max, 1, COUNT_MAX, "a whole number")
        check_range("report_ms", self.report_ms, 0, DURATION_MAX_MS)
        check_range("enquire_ms", self.enquire_ms, PERIOD_MIN_MS, DURATION_MAX_MS)
