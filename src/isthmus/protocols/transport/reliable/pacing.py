"""Pacing of repair requests: repeated after a round trip, with backoff while no answer comes.

Problem: a requested frame takes a round trip. Requesting it again before that brings it twice, and on a path whose
queue grows, twice the load makes the next round trip longer still. Yet if packets are lost at random, waiting longer is
time wasted.

Idea: a request has a number, which every repair that it brings repeats: each answer measures a round trip, whether
its frames were requested once or more often. A request names runs of numbers, each of which is remembered with its time
(`Asked`) and not named again until its wait is over: the mean of the round trips seen with the site that was asked,
and four times how far they are from it. A wait that passed in vain may be chance, a lost packet; from the second one
without any answer between them, each doubles the next, up to `LONGEST_WAIT_MS`. Where an answer comes and one that was
asked for before it does not, that one is requested again without a wait; a holder sends it at most once per round trip.

A gap may be mere reordering, so it is not requested before it has some age. A frame that was requested and came by
itself shows that this was too soon: from then on gaps must be as old as it was late (`patience_ms`), which every answer
shortens a little.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from isthmus.core.message import SiteId

Gaps = tuple[tuple[int, int], ...]  # first and last number, both included; in order, apart from each other
WEIGHT = 0.25  # of a new sample
SPREADS = 4  # that a wait allows for, beyond the mean
FIRST_SPREAD = 0.125  # of the first round trip
LESS = 0.05  # of patience, for each answer
LONGEST_WAIT_MS = 30_000.0
LONGEST_NS = round(LONGEST_WAIT_MS * 1e6)
CHANCE = 1  # waits in vain that do not double the next
VAIN_MAX = 13  # beyond the longest wait for any round trip of 5 ms and more
ASKS_MAX = 16  # requests per stream whose answers tell a round trip
URGENT_WAIT_MS = 1_000.0  # the longest, once the origin is heard of


class RequestedRun(NamedTuple):
    """Numbers that were requested together."""

    first: int
    last: int
    target: SiteId  # the site that was asked
    asked_ns: int
    wait_ns: int  # for an answer
    once: bool  # not requested before
    lost: bool  # a later request was answered: it is requested again

    def is_on_its_way(self, now_ns: int, longest_ns: int) -> bool:
        return not self.lost and now_ns - self.asked_ns < min(self.wait_ns, longest_ns)


class Pacing:
    """Repair times by site; they outlive views."""

    __slots__ = ("delay_ms", "first_ms", "least_ms", "patience_ms", "round_ms", "spread_ms", "vain_count")

    def __init__(self, first_ms: float, delay_ms: float) -> None:
        self.first_ms = first_ms  # the wait as long as nothing is known
        self.delay_ms = delay_ms  # the least age of a gap that is requested
        self.least_ms = 2 * delay_ms
        self.patience_ms: dict[SiteId, float] = {}  # the same where frames of an origin overtake each other by more
        self.round_ms: dict[SiteId, float] = {}  # with a site, the mean
        self.spread_ms: dict[SiteId, float] = {}  # how far round trips are from their mean, on the mean
        self.vain_count: dict[SiteId, int] = {}  # waits without an answer, since the last one

    def wait_ns(self, site: SiteId, round_ns: int = 0) -> int:
        """How long to wait for what a request to a site brings, given what else is known of the round trip.

        Back-off makes it no longer than the longest wait.
        """
        wait_ms = self.once_ms(site, round_ns)
        doubled_ms = wait_ms * 2.0 ** max(0, self.vain_count.get(site, 0) - CHANCE)
        return round(max(wait_ms, min(doubled_ms, LONGEST_WAIT_MS)) * 1e6)

    def urgent_ns(self, site: SiteId, round_ns: int = 0) -> int:
        """The longest wait for an earlier request, once the origin is heard from."""
        return round(max(self.once_ms(site, round_ns), URGENT_WAIT_MS) * 1e6)

    def once_ms(self, site: SiteId, round_ns: int) -> float:
        """A wait without back-off."""
        known = max(self.round_ms.get(site, 0.0), round_ns / 1e6)
        spread_ms = self.spread_ms.get(site, known * FIRST_SPREAD)
        return known + max(self.least_ms, SPREADS * spread_ms) if known else self.first_ms

    def round_ns(self, site: SiteId, round_ns: int) -> int:
        """The round trip, on the mean; what is assumed as long as none was seen."""
        return round((max(self.round_ms.get(site, 0.0), round_ns / 1e6) or self.first_ms) * 1e6)

    def in_vain(self, site: SiteId) -> None:
        """Note that the wait for a site's answer is over and something is still missing."""
        self.vain_count[site] = min(self.vain_count.get(site, 0) + 1, VAIN_MAX)

    def answered(self, site: SiteId, round_ns: int) -> None:
        """Note how long it took a site to answer."""
        sample = round_ns / 1e6
        known = self.round_ms.get(site, sample)
        spread = self.spread_ms.get(site, sample * FIRST_SPREAD)
        self.spread_ms[site] = spread + WEIGHT * (abs(sample - known) - spread)
        self.round_ms[site] = known + WEIGHT * (sample - known)
        self.vain_count[site] = 0
        if site in self.patience_ms:
            self.patience_ms[site] *= 1 - LESS

    def came_late(self, origin: SiteId, late_ns: int) -> None:
        """Note that a frame came by itself, `late_ns` after its request: the next gap is given more time."""
        longest_ms = max(self.delay_ms, self.round_ms.get(origin, self.first_ms))
        late_ms = self.delay_ns(origin) / 1e6 + late_ns / 1e6
        self.patience_ms[origin] = min(longest_ms, max(late_ms, self.patience_ms.get(origin, 0.0)))

    def delay_ns(self, origin: SiteId) -> int:
        """The age at which a gap is requested."""
        return round(max(self.delay_ms, self.patience_ms.get(origin, 0.0)) * 1e6)


class Asked:
    """The requests for frames of one stream; overdue ones are forgotten at the next request."""

    __slots__ = ("asks", "count", "runs")

    def __init__(self) -> None:
        self.runs: list[RequestedRun] = []
        self.count = 0  # requests
        self.asks: dict[int, int] = {}  # the last ones: when each was made

    def due(self, gaps: Gaps, now_ns: int, longest_ns: int = LONGEST_NS) -> tuple[Gaps, list[SiteId]]:
        """The parts of some gaps that are not on their way, and the sites that were waited for in vain."""
        found = without(gaps, [run for run in self.runs if run.is_on_its_way(now_ns, longest_ns)])
        late = [run for run in self.runs if not run.lost and not run.is_on_its_way(now_ns, LONGEST_NS)]
        vain = sorted({run.target for run in late if without(found, [run]) != found})
        return found, vain

    def note(self, gaps: Gaps, target: SiteId, now_ns: int, wait_ns: int, longest_ns: int = LONGEST_NS) -> int:
        """Remember a request and forget what is overdue; the number of the request."""
        overdue = [run for run in self.runs if not run.is_on_its_way(now_ns, longest_ns)]
        runs = [run for run in self.runs if run.is_on_its_way(now_ns, longest_ns)]
        for first, last in gaps:
            once = not any(run.first <= last and run.last >= first for run in overdue)
            runs.append(RequestedRun(first, last, target, now_ns, wait_ns, once, False))
        self.runs = sorted(runs)
        self.count += 1
        self.asks[self.count] = now_ns
        if len(self.asks) > ASKS_MAX:
            del self.asks[next(iter(self.asks))]
        return self.count

    def due_ns(self, default: int) -> int:
        """When the first of the waits is over."""
        return min([run.asked_ns + run.wait_ns for run in self.runs if not run.lost], default=default)

    def round_ns(self, ask: int, now_ns: int) -> int | None:
        """How long an answer to a request took; None where that was forgotten, or never made."""
        asked_ns = self.asks.get(ask)
        return None if asked_ns is None else now_ns - asked_ns

    def overtaken(self, number: int) -> bool:
        """Give up lower numbers requested no later than a frame that is here now.

        Their answers are lost, or overtaken; whether there are any.
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

    def late_ns(self, number: int, now_ns: int) -> int | None:
        """How long ago a frame that came by itself was requested; None unless it was requested once."""
        found = [run for run in self.runs if run.first <= number <= run.last]
        return now_ns - found[0].asked_ns if len(found) == 1 and found[0].once and not found[0].lost else None


def without(gaps: Gaps, runs: Sequence[RequestedRun]) -> Gaps:
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
