"""A plain reading of a trace beside the measures on Spark: how well each process guessed the final order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

import msgspec

from isthmus.core.units import NS_PER_MS
from isthmus.measure.optimism import DeliveryLog, logs, shares_of, usable_ms
from isthmus.measure.summary import elapsed_ns
from isthmus.trace.schema import MessageKey, Row


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
    hit, late_share, window_ms = shares_of(log)
    return Optimism(
        deliveries=len(final),
        hit=hit,
        hit_pair=mean([common == 2 for common in pairs]),
        hit_either=mean([common > 0 for common in pairs]),
        late_share=late_share,
        latency_ms=mean(list(latency.values())),
        window_ms=window_ms,
        own_latency_ms=mean([latency[key] for key in own]),
        own_window_ms=mean([window[key] for key in own]),
    )


def pairs_in_common(final: Sequence[MessageKey], seen: Sequence[MessageKey]) -> list[int]:
    """For each pair of places, how many messages the two logs share there; a last place alone is in no pair."""
    places = range(0, len(final) - 1, 2)
    return [len({*final[place : place + 2]} & {*seen[place : place + 2]}) for place in places]


def mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
