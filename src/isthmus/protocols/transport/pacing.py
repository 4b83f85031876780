"""When to ask again: after what a round trip takes, and longer each time that nothing came.

Problem: a frame that was asked for is on its way for a round trip. Asking again before that brings it twice, and on a
path whose queue grows, twice the load makes the next round trip longer still.

Idea: a request names runs of numbers, each of which is remembered with its time (`Asked`) and not named again until the
wait is over. The wait is one and a half of the round trips seen with that origin, doubled for each time that it passed
in vain, up to `LONGEST_WAIT_MS`. A round trip is measured only where a run was asked for once (Karn's rule): such an
answer ends the doubling, as it shows that the wait is long enough. Any other progress halves the doublings: something
was lost, or the wait is too short, and nobody can tell which. Where an answer comes and one that was asked for before
it does not, that one is asked for again without a wait; whoever sends it does so once in a round trip.

A gap may be mere reordering, so it is not asked for before it has some age. A frame that was asked for and came by
itself shows that this was too soon: from then on gaps are given as long as it was late (`patience_ms`), which every
answer shortens a little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from isthmus.core.message import SiteId

Gaps = tuple[tuple[int, int], ...]  # first and last number, both included; in order, apart from each other
WEIGHT = 0.25  # of a new sample
LESS = 0.05  # of patience, for each answer
LONGEST_WAIT_MS = 30_000.0
DOUBLINGS_MAX = 12  # beyond the longest wait for any round trip of 5 ms and more
URGENT_WAIT_MS = 1_000.0  # the longest, once the origin is heard of


class Run(NamedTuple):
    """Numbers that were asked for together."""

    first: int
    last: int
    asked_ns: int
    once: bool  # not asked for before
    lost: bool  # what was asked for later has come: it is asked for again


class Pacing:
    """How long repairs take, by origin; it outlives views."""

    __slots__ = ("delay_ms", "doublings", "first_ms", "least_ms", "patience_ms", "round_ms")

    def __init__(self, first_ms: float, delay_ms: float) -> None:
        self.first_ms = first_ms  # the wait as long as nothing is known
        self.delay_ms = delay_ms  # how old a gap must be to be asked for, at least
        self.least_ms = 2 * delay_ms
        self.patience_ms: dict[SiteId, float] = {}  # the same where frames overtake each other by more
        self.round_ms: dict[SiteId, float] = {}
        self.doublings: dict[SiteId, int] = {}  # of the wait, since the last clear answer

    def wait_ns(self, origin: SiteId, longest_ms: float = LONGEST_WAIT_MS, round_ns: int = 0) -> int:
        """How long to wait for what a request brings, given what else is known of the round trip.

        Back-off makes it no longer than asked for.
        """
        known = max(self.round_ms.get(origin, 0.0), round_ns / 1e6)
        wait_ms = max(self.least_ms, 1.5 * known) if known else self.first_ms
        doubled_ms = wait_ms * 2.0 ** self.doublings.get(origin, 0)
        return round(max(wait_ms, min(doubled_ms, longest_ms)) * 1e6)

    def in_vain(self, origin: SiteId) -> None:
        """Note that a wait is over and something is still missing."""
        self.doublings[origin] = min(self.doublings.get(origin, 0) + 1, DOUBLINGS_MAX)

    def answered(self, origin: SiteId, round_ns: int | None) -> None:
        """Note progress, and how long it took what was asked for once; None for what was asked for more often."""
        if round_ns is None:
            self.doublings[origin] = self.doublings.get(origin, 0) // 2
            return
        if origin in self.patience_ms:
            self.patience_ms[origin] *= 1 - LESS
        sample = round_ns / 1e6
        known = self.round_ms.get(origin, sample)
        self.round_ms[origin] = known + WEIGHT * (sample - known)
        self.doublings[origin] = 0

    def came_late(self, origin: SiteId, late_ns: int) -> None:
        """Note that a frame came by itself, so long after it was asked for: the next gap is given more time."""
        longest_ms = max(self.delay_ms, self.round_ms.get(origin, self.first_ms))
        late_ms = self.delay_ns(origin) / 1e6 + late_ns / 1e6
        self.patience_ms[origin] = min(longest_ms, max(late_ms, self.patience_ms.get(origin, 0.0)))

    def delay_ns(self, origin: SiteId) -> int:
        """How old a gap must be to be asked for."""
        return round(max(self.delay_ms, self.patience_ms.get(origin, 0.0)) * 1e6)


class Asked:
    """What was asked for of one stream, and when; forgets what is overdue whenever it is told more."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def due(self, gaps: Gaps, now_ns: int, wait_ns: int) -> tuple[Gaps, bool]:
        """The parts of some gaps that are not on their way, and whether any of them was waited for in vain."""
        found = without(gaps, [run for run in self.runs if not run.lost and now_ns - run.asked_ns < wait_ns])
        late = [run for run in self.runs if not run.lost and now_ns - run.asked_ns >= wait_ns]
        return found, bool(late) and without(found, late) != found

    def note(self, gaps: Gaps, now_ns: int, wait_ns: int) -> None:
        """Remember a request, and forget what is overdue."""
        overdue = [run for run in self.runs if run.lost or now_ns - run.asked_ns >= wait_ns]
        runs = [run for run in self.runs if now_ns - run.asked_ns < wait_ns]
        for first, last in gaps:
            once = not any(run.first <= last and run.last >= first for run in overdue)
            runs.append(Run(first, last, now_ns, once, False))
        self.runs = sorted(runs)

    def earliest_ns(self, default: int) -> int:
        """When the oldest of the requests was made."""
        return min([run.asked_ns for run in self.runs if not run.lost], default=default)

    def overtaken(self, number: int) -> bool:
        """Give up what was asked for no later than a frame that is here now, and should have come before it.

        Its answer is lost, or is overtaken; whether there is any such frame.
        """
        asked_ns = max([run.asked_ns for run in self.runs if run.first <= number <= run.last], default=-1)
        runs = []
        for run in self.runs:
            if run.lost or run.asked_ns > asked_ns or run.first >= number:
                runs.append(run)
                continue
            runs.append(run._replace(last=min(run.last, number - 1), lost=True))
            if run.last >= number:
                runs.append(run._replace(first=number))
        found, self.runs = runs != self.runs, runs
        return found

    def sample_ns(self, number: int, now_ns: int) -> int | None:
        """How long a frame took that was asked for once; None for any other."""
        found = [run for run in self.runs if run.first <= number <= run.last]
        return now_ns - found[0].asked_ns if len(found) == 1 and found[0].once and not found[0].lost else None


def without(gaps: Gaps, runs: Sequence[Run]) -> Gaps:
    """Gaps but for what some runs cover; both are in order."""
    found = []
    for first, last in gaps:
        for run in runs:
            if run.last >= first and run.first <= last:
                if run.first > first:
                    found.append((first, run.first - 1))
                first = run.last + 1
        if first <= last:
            found.append((first, last))
    return tuple(found)


def count(gaps: Gaps) -> int:
    """How many numbers some gaps hold."""
    return sum([last - first + 1 for first, last in gaps])


def first_of(gaps: Gaps, most: int) -> Gaps:
    """The first so many numbers of some gaps."""
    return near(gaps, (), most)


def near(gaps: Gaps, held: Sequence[int], slots: int) -> Gaps:
    """The first numbers of some gaps, as far as they and what is held between them have a slot each.

    `held` are the numbers before the frames held, in order; at least the very next number is near.
    """
    found: list[tuple[int, int]] = []
    taken = 0
    for first, last in gaps:
        room = slots - taken - bisect_left(held, first)
        if room <= 0 and found:
            break
        found.append((first, min(last, first + max(1, room) - 1)))
        taken += last - first + 1
    return tuple(found)
