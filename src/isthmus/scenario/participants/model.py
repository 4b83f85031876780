"""Participants in a scenario: site, participant group, times of joining and leaving, and messages."""

from __future__ import annotations

import msgspec

from isthmus.core.validation import PERIOD_MIN_MS, BadValue, check_range, show
from isthmus.protocols.participants.wire import NAME_MAX
from isthmus.scenario.workload import PAYLOAD_MAX, span_ms

LABEL_BYTES = 24  # a payload begins with a label that is unique per sender


class ParticipantSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A participant; it joins again if its site recovers from a crash before it leaves."""

    name: str
    group: str  # the participant group
    site: str
    within: str = ""  # the site group; "" for the first
    join_ms: float = 0.0
    leave_ms: float | None = None  # None: it stays
    period_ms: float | None = None  # between its messages while it is a member; None: it sends none
    payload_bytes: int = 100

    def __post_init__(self) -> None:
        for key in ("name", "group"):
            text: str = getattr(self, key)
            if not 0 < len(text) <= NAME_MAX or not text.isprintable():
                raise BadValue(key, show(text), f"a name of 1 to {NAME_MAX} printable letters")
        span_ms("join_ms", self.join_ms)
        if self.leave_ms is not None:
            span_ms("leave_ms", self.leave_ms)
            if self.leave_ms <= self.join_ms:
                raise BadValue("leave_ms", repr(self.leave_ms), f"a time after join_ms, {self.join_ms:g}")
        if self.period_ms is not None:
            span_ms("period_ms", self.period_ms, PERIOD_MIN_MS)
        check_range("payload_bytes", self.payload_bytes, LABEL_BYTES, PAYLOAD_MAX, "a whole number")
