"""The failure detector of participants: local, and certain but for one case.

Problem: a participant is a program beside its site, and may end without a word. Idea: its site sees that for certain:
the channel to it is closed, or its process is dead. The third case is a decision: a program that lives and does not
answer probes for a configured time is removed, and the reason says that it was decided, not seen.

Events go in with the time; probes to send and removals come out. A removal is reported once; the key is then forgotten,
and later events for it change nothing.

A site that was stopped itself must not take its own pause for silence: between two ticks at most one probe period
counts, and answers that arrived meanwhile are to be given before the tick.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import DURATION_MAX_MS, BadValue, check_range

K = TypeVar("K", bound=Hashable)  # a host's name for a participant


class DetectorOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a silent participant is removed."""

    probe_ms: float = 500.0  # between two probes
    silence_ms: float = 5_000.0  # without an answer until it is decided

    def __post_init__(self) -> None:
        check_range("probe_ms", self.probe_ms, 1.0, DURATION_MAX_MS)
        check_range("silence_ms", self.silence_ms, 1.0, DURATION_MAX_MS)
        if self.silence_ms < 2 * self.probe_ms:
            raise BadValue("silence_ms", repr(self.silence_ms), f"two probe periods or more, {2 * self.probe_ms:g}")


class Removal(NamedTuple, Generic[K]):
    """A participant that is to leave."""

    key: K
    reason: str
    decided: bool  # by time-out, not seen to end


class LocalDetector(Generic[K]):
    """Watches the participants of one site."""

    __slots__ = ("_silent_ns", "_ticked_ns", "_unprobed", "options")

    def __init__(self, options: DetectorOptions | None = None) -> None:
        self.options = options or DetectorOptions()
        self._silent_ns: dict[K, int] = {}  # of those that are probed: for how long a probe has been unanswered
        self._unprobed: dict[K, None] = {}  # of those that are watched without probes
        self._ticked_ns: int | None = None  # when probes were last sent

    def watch(self, key: K, probed: bool) -> None:
        """Watch a participant; one that has no way to answer is not probed."""
        if probed:
            self._unprobed.pop(key, None)
            self._silent_ns[key] = 0
        elif key not in self._silent_ns:
            self._unprobed[key] = None

    def forget(self, key: K) -> bool:
        """Stop watching a participant; whether it was watched."""
        watched = key in self._silent_ns or key in self._unprobed
        self._silent_ns.pop(key, None)
        self._unprobed.pop(key, None)
        return watched

    def answered(self, key: K) -> None:
        """Note an answer, or any other sign of life."""
        if key in self._silent_ns:
            self._silent_ns[key] = 0

    def closed(self, key: K) -> Removal[K] | None:
        """Remove a participant whose channel closed; None if it is already removed."""
        return Removal(key, "its channel was closed", False) if self.forget(key) else None

    def died(self, key: K, how: str = "") -> Removal[K] | None:
        """Remove a participant whose process died; None if it is already removed."""
        return Removal(key, f"its process ended{how and f': {how}'}", False) if self.forget(key) else None

    def tick(self, now_ns: int) -> tuple[list[K], list[Removal[K]]]:
        """Return the participants to probe now and the removals; to be called once per probe period."""
        longest_ns = round(self.options.probe_ms * NS_PER_MS)
        passed_ns = 0 if self._ticked_ns is None else min(max(0, now_ns - self._ticked_ns), longest_ns)
        self._ticked_ns = now_ns
        removals = []
        for key in list(self._silent_ns):
            self._silent_ns[key] += passed_ns
            if self._silent_ns[key] >= self.options.silence_ms * NS_PER_MS:
                self.forget(key)
                reason = f"it has not answered for {self.options.silence_ms / 1e3:g} s: removed by decision"
                removals.append(Removal(key, reason, True))
        return list(self._silent_ns), removals
