"""How well tentative deliveries foretold the final ones, for one run in memory; on Spark: pipeline/measure/optimism.py.

The *final log* of a process is what it delivered. Its *tentative log* has the same messages, each where it came first,
tentatively or for good. A *hit* is the same message in the same place of both logs. The *window* is final minus
tentative time, 0 for a *late* message. Hits grow as the window vanishes, so neither says anything without the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from isthmus.core.layer import Kind
from isthmus.core.units import NS_PER_MS
from isthmus.measure.histogram import Histogram
from isthmus.measure.summary import elapsed_ns
from isthmus.trace.schema import GROUP, KIND, ORIGIN, PROCESS, TIME_NS, MessageKey, Row


class Optimism(msgspec.Struct, frozen=True):
    """One process; shares from 0 to 1, times in ms, means over messages."""

    deliveries: int
    hit: float
    hit_pair: float  # both of the pair
    hit_either: float  # at least one of the pair
    late_share: float
    latency_ms: float
    window_ms: float
    own_latency_ms: float  # of the process's own messages; 0 where it has none
    own_window_ms: float

    @property
    def usable_ms(self) -> float:
        """The longest processing of a message that tentative delivery still makes faster on average."""
        return usable_ms(self.window_ms, self.hit)


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


class DeliveryLog:
    """What one process delivered."""

    __slots__ = ("final", "final_ns", "seen", "seen_ns")

    def __init__(self) -> None:
        self.final: list[MessageKey] = []
        self.seen: list[MessageKey] = []  # the tentative log
        self.final_ns: dict[MessageKey, int] = {}
        self.seen_ns: dict[MessageKey, int] = {}

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
    each = [(figures(process, log, submitted), log) for process, log in sorted(found.items()) if log.final]
    seen = Histogram()
    for _, log in each:
        for key, final_ns in log.final_ns.items():
            at = log.seen_ns[key]
            seen.add(elapsed_ns(submitted[key], final_ns if at < 0 else at))
    total = sum(one.deliveries for one, _ in each)

    if not total:
        return None
    shares = [one.deliveries / total for one, _ in each]
    hit, late_share, window_ms = (
        sum(share * value for share, value in zip(shares, values, strict=True))
        for values in zip(*((one.hit, one.late_share, one.window_ms) for one, _ in each), strict=True)
    )
    return Guesses(hit, late_share, seen, window_ms)


def optimism(rows: Iterable[Row], warm_up_ns: int = 0) -> dict[int, Optimism]:
    """The figures of each process that delivered anything; rows of one run, those of a process in its order."""
    found, submitted = logs(rows, warm_up_ns)
    return {process: figures(process, found[process], submitted) for process in sorted(found) if found[process].final}


def figures(process: int, log: DeliveryLog, submitted: dict[MessageKey, int]) -> Optimism:
    final = log.final
    seen = [key for key in log.seen if key in log.final_ns]
    late = {key for key in final if log.seen_ns[key] < 0}
    latency = {key: elapsed_ns(submitted[key], log.final_ns[key]) / NS_PER_MS for key in final}
    window = {key: 0.0 if key in late else (log.final_ns[key] - log.seen_ns[key]) / NS_PER_MS for key in final}
    own = [key for key in final if key[1] == process]
    pairs = pairs_in_common(final, seen)
    return Optimism(
        deliveries=len(final),
        hit=fmean(a == b for a, b in zip(final, seen, strict=True)),
        hit_pair=mean([common == 2 for common in pairs]),
        hit_either=mean([common > 0 for common in pairs]),
        late_share=len(late) / len(final),
        latency_ms=mean(list(latency.values())),
        window_ms=mean(list(window.values())),
        own_latency_ms=mean([latency[key] for key in own]),
        own_window_ms=mean([window[key] for key in own]),
    )


def pairs_in_common(final: Sequence[MessageKey], seen: Sequence[MessageKey]) -> list[int]:
    """For each pair of places, how many messages the two logs share there; a last place alone is in no pair."""
    places = range(0, len(final) - 1, 2)
    return [len({*final[place : place + 2]} & {*seen[place : place + 2]}) for place in places]


def mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
