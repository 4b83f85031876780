"""How well tentative deliveries foretold the final ones, for one run in memory; on Spark: pipeline/measure/optimism.py.

The *final log* of a process is what it delivered. Its *tentative log* has the same messages, each where it came first,
tentatively or for good. A *hit* is the same message in the same place of both logs. The *window* is final minus
tentative time, 0 for a *late* message. Hits grow as the window vanishes, so neither says anything without the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

import msgspec

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.measure.histogram import Histogram
from isthmus.measure.summary import elapsed_ns
from isthmus.trace.schema import GROUP, KIND, ORIGIN, PROCESS, TIME_NS, MessageKey, Row


def usable_ms(window_ms: float, hit: float) -> float:
    """Work of g ms that cannot be interrupted gains from guesses of which a share r is right if g < w / (1 - r)."""
    return window_ms / (1 - hit) if hit < 1 else float("inf")


class Guesses(msgspec.Struct, frozen=True):
    """A whole run, over all deliveries at all processes."""

    hit: float  # share of messages in the same place of both logs
    late_share: float
    seen: Histogram  # from the submit to the tentative delivery, or to the final one of a late message, ns
    window_ms: float

    @property
    def latency_ms(self) -> float:
        return self.seen.mean() / NS_PER_MS


class DeliveryLog(msgspec.Struct, eq=False):
    """What one process delivered."""

    final: list[MessageKey] = []
    seen: list[MessageKey] = []  # the tentative log
    final_ns: dict[MessageKey, int] = {}
    seen_ns: dict[MessageKey, int] = {}  # -1: never tentative

    def note(self, key: MessageKey, now_ns: int, final: bool) -> None:
        if key not in self.seen_ns:
            self.seen_ns[key] = now_ns if not final else -1
            self.seen.append(key)
        if final and key not in self.final_ns:
            self.final_ns[key] = now_ns
            self.final.append(key)


def logs(rows: Iterable[Row], warm_up_ns: int = 0) -> tuple[dict[int, DeliveryLog], dict[MessageKey, int]]:
    """The logs of each process and the times of submission, without messages submitted during the warm-up."""
    kinds = (Kind.SUBMIT, Kind.TENTATIVE, Kind.DELIVER)
    kept = [row for row in rows if row[KIND] in kinds and row[ORIGIN] == row[GROUP]]
    submitted = {
        row[ORIGIN:GROUP]: row[TIME_NS] for row in kept if row[KIND] == Kind.SUBMIT and row[TIME_NS] >= warm_up_ns
    }
    found: dict[int, DeliveryLog] = {}
    for row in kept:
        key = row[ORIGIN:GROUP]
        if row[KIND] != Kind.SUBMIT and key in submitted:
            found.setdefault(row[PROCESS], DeliveryLog()).note(key, row[TIME_NS], row[KIND] == Kind.DELIVER)
    return found, submitted


def guesses(rows: Iterable[Row]) -> Guesses | None:
    """The figures of a run over all processes; None where nothing was delivered tentatively."""
    found, submitted = logs(rows)
    if not any(at >= 0 for log in found.values() for at in log.seen_ns.values()):
        return None
    each = [log for _, log in sorted(found.items()) if log.final]
    seen = Histogram()
    for log in each:
        for key, final_ns in log.final_ns.items():
            at = log.seen_ns[key]
            seen.add(elapsed_ns(submitted[key], final_ns if at < 0 else at))
    total = sum(len(log.final) for log in each)
    if not total:
        return None
    shares = [len(log.final) / total for log in each]
    hit, late_share, window_ms = (
        sum(share * value for share, value in zip(shares, values, strict=True))
        for values in zip(*map(shares_of, each), strict=True)
    )
    return Guesses(hit, late_share, seen, window_ms)


def shares_of(log: DeliveryLog) -> tuple[float, float, float]:
    """The hits and the late messages of a process, from 0 to 1, and its mean window in ms."""
    seen = [key for key in log.seen if key in log.final_ns]
    late = [log.seen_ns[key] < 0 for key in log.final]
    windows = [
        0.0 if missed else (log.final_ns[key] - log.seen_ns[key]) / NS_PER_MS
        for key, missed in zip(log.final, late, strict=True)
    ]
    return fmean(a == b for a, b in zip(log.final, seen, strict=True)), sum(late) / len(late), fmean(windows)
