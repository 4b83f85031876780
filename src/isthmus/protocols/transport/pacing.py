"""When to ask again: after what a round trip takes, and longer each time that nothing came.

Problem: a frame that was asked for is on its way for a round trip. Asking again before that brings it twice, and on a
path whose queue grows, twice the load makes the next round trip longer still.

Idea: a request names runs of numbers, each of which is remembered with its time (`Asked`) and not named again until the
wait is over. The wait is one and a half of the round trips seen with that origin, doubled for each time that it passed
in vain, up to `LONGEST_WAIT_MS`. A round trip is measured only where a run was asked for once (Karn's rule): only such
an answer ends the doubling, as only it shows that the wait is long enough.
"""

from __future__ import annotations

from isthmus.core.message import SiteId

Gaps = tuple[tuple[int, int], ...]  # first and last number, both included; in order, apart from each other
WEIGHT = 0.25  # of a new sample
LONGEST_WAIT_MS = 30_000.0
URGENT_WAIT_MS = 1_000.0  # the longest, once the origin is heard of


class Pacing:
    """How long repairs take, by origin; it outlives views."""

    __slots__ = ("doublings", "first_ms", "least_ms", "round_ms")

    def __init__(self, first_ms: float, least_ms: float) -> None:
        self.first_ms = first_ms  # the wait as long as nothing is known
        self.least_ms = least_ms
        self.round_ms: dict[SiteId, float] = {}
        self.doublings: dict[SiteId, int] = {}  # of the wait, since the last clear answer

    def wait_ns(self, origin: SiteId, longest_ms: float = LONGEST_WAIT_MS) -> int:
        """How long to wait for what a request brings; back-off makes it no longer than asked for."""
        known = self.round_ms.get(origin)
        wait_ms = self.first_ms if known is None else max(self.least_ms, 1.5 * known)
        doubled_ms = wait_ms * 2.0 ** self.doublings.get(origin, 0)
        return round(max(wait_ms, min(doubled_ms, longest_ms)) * 1e6)

    def in_vain(self, origin: SiteId) -> None:
        """Note that a wait is over and something is still missing."""
        if self.wait_ns(origin) < LONGEST_WAIT_MS * 1e6:
            self.doublings[origin] = self.doublings.get(origin, 0) + 1

    def answered(self, origin: SiteId, round_ns: int) -> None:
        """Note how long something took that was asked for once."""
        sample = round_ns / 1e6
        known = self.round_ms.get(origin, sample)
        self.round_ms[origin] = known + WEIGHT * (sample - known)
        self.doublings[origin] = 0


class Asked:
    """What was asked for of one stream, and when; bounded by the gaps of a request, as older runs are forgotten."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int, bool]] = []  # first, last, when, whether for the first time; in order

    def due(self, gaps: Gaps, now_ns: int, wait_ns: int) -> tuple[Gaps, bool]:
        """The parts of some gaps that are not on their way, and whether any of them was asked for before."""
        live = [run for run in self.runs if now_ns - run[2] < wait_ns]
        found = without(gaps, live)
        late = [run for run in self.runs if now_ns - run[2] >= wait_ns]
        return found, bool(late) and without(found, late) != found

    def note(self, gaps: Gaps, received: int, now_ns: int, wait_ns: int) -> None:
        """Remember a request, and forget what has come or is overdue."""
        kept = [run for run in self.runs if run[1] > received and now_ns - run[2] < wait_ns]
        overdue = [run for run in self.runs if now_ns - run[2] >= wait_ns]
        for first, last in gaps:
            fresh = not any(run[0] <= last and run[1] >= first for run in overdue)
            kept.append((first, last, now_ns, fresh))
        self.runs = sorted(kept)

    def earliest_ns(self, default: int) -> int:
        """When the oldest of the requests was made."""
        return min([run[2] for run in self.runs], default=default)

    def sample_ns(self, number: int, now_ns: int) -> int | None:
        """How long a frame took that was asked for once; None for any other."""
        for first, last, when, fresh in self.runs:
            if first <= number <= last:
                return now_ns - when if fresh else None
        return None


def without(gaps: Gaps, runs: list[tuple[int, int, int, bool]]) -> Gaps:
    """Gaps but for what some runs cover; both are in order."""
    found = []
    for first, last in gaps:
        for run in runs:
            if run[1] >= first and run[0] <= last:
                if run[0] > first:
                    found.append((first, run[0] - 1))
                first = run[1] + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)


def count(gaps: Gaps) -> int:
    """How many numbers some gaps hold."""
    return sum([last - first + 1 for first, last in gaps])


def first_of(gaps: Gaps, most: int) -> Gaps:
    """The first so many numbers of some gaps."""
    found = []
    for first, last in gaps:
        if most <= 0:
            break
        found.append((first, min(last, first + most - 1)))
        most -= last - first + 1
    return tuple(found)
