"""Roles that follow a plan: one member weighs all rates and delays, and proposes who should be active.

Problem: a process that chooses its role alone does not see what its being active costs the others, who wait for its
promises. On networks with many distances its choice is good for itself and bad for all.

Idea: the eldest, the *planner*, knows how often every member's application sends and how far the others are from it.
Members answer its probes with a report (estimator.py), and a request for a role carries the same: neither takes a
packet of its own. Only what has leapt since is told at once. The planner weighs assignments by the mean latency and the
multicasts that they should take (the advice comes in as a function; planning/ has the closed form). Where one is better
than the roles as they are by more than a change is worth, it proposes it as a `RolePlan`: an entry of its stream,
ordered like a message. So all adopt it at the same place of the order, and each member whose role differs asks for the
other one (roles.py); a request is confirmed only where it is what the plan at that place says.

Invariants:
- only the eldest member of a view proposes, and whoever else does is refused by all at the same place;
- a plan is of a view: where the view closes it is forgotten, delivered or not, and the roles stay as they are until the
  next planner has one of its own. A planner that died with a proposal under way changes nothing;
- plans do not come close to each other: the planner looks again after some time and where an estimate has moved, and it
  proposes what was better twice in a row, so that one odd sample does nothing. Where delays move it waits until all
  members have measured theirs, as some of them alone say nothing: both ends of a way have found it as long, and those
  farther apart have had the time to. Where a load has leapt there is no time to lose,
  neither for the planner nor for a member that now sends often: it becomes active ahead of the plan, and the next plan
  says so or otherwise.

Nothing here is needed for safety: a lost or wrong report makes a plan worse, no order wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from isthmus.core.layer import Layer, View
from isthmus.core.message import SiteId
from isthmus.protocols.estimator import SILENT_US, DelayReport, Estimator
from isthmus.protocols.total.hybrid.hybrid import Hybrid
from isthmus.protocols.total.hybrid.roles import LEAP, PLANNED_MAX, SENDING, PlannedRoles
from isthmus.protocols.total.hybrid.wire import RolePlan

LOOK = 0  # timer key
LOOK_NS = 250_000_000  # how often estimates are looked at
FIRST_NS = 1_000_000_000  # after a view opens: before, nobody knows much
REST_NS = 2_000_000_000  # after a look that found nothing, or a plan
HASTE_NS = 500_000_000  # the same where a load has leapt since, or a delay has jumped
ALIKE_US = 1_000  # delays that differ by less are the same: in a LAN they vary by much of what they are
BELIEVED = 4  # times a new delay until it is believed: a probe and another (estimator.py), there and back
FARTHER = 1.5  # a delay that many times what was told is told at once; it jumps, and then stays
MOVED = 1.25  # an estimate that many times what the last look was at is worth another one


class MemberEstimate(NamedTuple):
    """What a plan takes a member's word for."""

    period_us: int
    regular: bool
    delays_us: tuple[int, ...]  # to the members, in the order of the view; 0 to itself


class RoleSituation(NamedTuple):
    """All that a plan depends on; members are numbered by their place in the view."""

    delays_ms: tuple[tuple[float, ...], ...]
    periods_ms: tuple[float, ...]  # inf: silent
    regular: tuple[bool, ...]
    sequencers: tuple[int, ...]  # as it is: the sequencer of each, itself where it is active
    null_ms: float
    eager: bool


Advise = Callable[[RoleSituation], tuple[int, ...] | None]  # sequencers that are worth a change, or None


class Planner(Layer):
    """Tells the eldest member what it should know, and proposes where this site is the eldest."""

    __slots__ = (
        "advise",
        "delays_ns",
        "estimator",
        "found",
        "looked_ns",
        "opened_ns",
        "order",
        "seen",
        "settling_ns",
        "told",
        "view",
    )
    timer_names = ("look",)

    def __init__(self, order: Hybrid, estimator: Estimator, advise: Advise) -> None:
        self.order = order
        self.estimator = estimator
        self.advise = advise
        self.view = View(0, ())
        self.reset()

    def reset(self) -> None:
        self.seen: tuple[MemberEstimate, ...] = ()  # what the last look was at
        self.found: tuple[int, ...] | None = None  # what the last look found better
        self.opened_ns: int | None = None  # when the view opened
        self.looked_ns = 0  # when a look last found nothing, or a plan was made
        self.told: tuple[MemberEstimate, ...] = ()  # what members said last
        self.delays_ns = -REST_NS  # when delays last moved in that,
        self.settling_ns = 0  # and how long after that those who are farther apart may still be measuring

    def install(self, view: View) -> None:
        self.view = view
        self.reset()
        self.estimator.collect(view.members[0] if len(view.members) <= PLANNED_MAX else None)
        self.host.cancel_timer(self, LOOK)

    def resume(self) -> None:
        if self.opened_ns is None and 1 < len(self.view.members) <= PLANNED_MAX:
            self.opened_ns = self.host.now_ns
            self.looked_ns = self.host.now_ns + FIRST_NS - REST_NS
            self.host.set_timer(self, LOOK, LOOK_NS)
        self.above.resume()

    def timer(self, key: int) -> None:
        assert key == LOOK
        self.host.set_timer(self, LOOK, LOOK_NS)
        if self.order.stirred:  # where nobody sends, roles do not matter
            self.tell()
            if self.host.site == self.view.members[0]:
                self.look()

    # What members tell

    def tell(self) -> None:
        """Tell the planner what has leapt since our last report, and what the first probes have found."""
        report, told = self.estimator.report(), self.estimator.reported
        if told is None:
            due = len(report.delays_us) == len(self.view.members) - 1
        else:
            words = self.word(self.host.site, told), self.word(self.host.site, report)
            due = leapt(*words) or delays_moved(*words, FARTHER)
        if due:
            self.estimator.tell(report)

    def word(self, site: SiteId, report: DelayReport) -> MemberEstimate:
        """What a report says, or as good as that where it does not: who has hardly sent sends at most that often."""
        opened_ns = self.host.now_ns if self.opened_ns is None else self.opened_ns
        known = dict(report.delays_us)
        given = self.order.options.distances
        guess_ms = [given[site][other] if given else 0.0 for other in self.view.members]
        delays = tuple(
            known.get(*pair) for pair in zip(self.view.members, (round(1e3 * ms) for ms in guess_ms), strict=True)
        )
        return MemberEstimate(
            report.period_us or max(1, (self.host.now_ns - opened_ns) // 1_000), report.regular, delays
        )

    # Planning

    def look(self) -> None:
        """See whether other roles would be worth a change, and propose them if some were at the last look, too."""
        order, members = self.order, self.view.members
        reports = self.estimator.reports | {self.host.site: self.estimator.report()}
        if len(reports) < len(members) or order.phase not in SENDING or not order.below.writable():
            return
        words = tuple(self.word(site, reports[site]) for site in members)
        since = tuple(zip(self.seen, words, strict=False))  # none before the first look
        leaps, jumps = any(leapt(*pair) for pair in since), any(delays_moved(*pair, FARTHER) for pair in since)
        self.note_delays(words)
        if self.host.now_ns - self.looked_ns < (HASTE_NS if leaps or jumps or self.found else REST_NS):
            return
        if not leaps and self.host.now_ns - self.delays_ns < (self.settling_ns if agree(words) else REST_NS):
            return  # not all have found out how far they are from each other now
        moved, unfinished = not self.seen or any(map(has_moved, self.seen, words)), self.is_unfinished()
        if not (moved or unfinished or self.found):
            return
        sure, self.seen = leaps or unfinished or self.found is not None, words
        now = self.situation(words)
        self.found = self.advise(now) or (now.sequencers if unfinished else None)
        if self.found is not None and sure:
            order.send_entries((RolePlan(tuple(members[place] for place in self.found)),))
            self.found = None
        if self.found is None:
            self.looked_ns = self.host.now_ns

    def note_delays(self, words: tuple[MemberEstimate, ...]) -> None:
        """See which delays have moved since the last report, and who may still find out the same.

        All probe at about the same times, as they installed the view: ways no longer than one that is known to have
        changed have most likely been measured. Where that is wrong, the next look corrects the plan.
        """
        moved = [delay for told, now in zip(self.told, words, strict=False) for delay in moved_delays(told, now)]
        if moved:
            longest = max(delay for word in words for delay in word.delays_us)
            self.delays_ns = self.host.now_ns
            self.settling_ns = min(REST_NS, 1_000 * BELIEVED * (longest - max(moved)))
        self.told = words

    def is_unfinished(self) -> bool:
        """Whether roles are not those of the plan: somebody leapt ahead of the next one, or asked in vain."""
        plan = self.plan()
        return plan is not None and {site for site in plan if plan[site] == site} != self.order.order.active

    def plan(self) -> Mapping[SiteId, SiteId] | None:
        """The plan that the group goes by."""
        rule = self.order.outlook.rule
        assert isinstance(rule, PlannedRoles)
        return rule.plan

    def situation(self, words: Sequence[MemberEstimate]) -> RoleSituation:
        members = self.view.members
        delays = tuple(tuple(delay / 1e3 for delay in word.delays_us) for word in words)
        active = [place for place, site in enumerate(members) if site in self.order.order.active]
        plan = self.plan() or dict(zip(members, members, strict=True))
        sequencers = []
        for place, site in enumerate(members):
            planned = members.index(plan[site])
            nearest = min(active, key=lambda other: (delays[place][other], other))
            sequencers.append(place if place in active else planned if planned in active else nearest)
        return RoleSituation(
            delays,
            tuple(inf if word.period_us >= SILENT_US else word.period_us / 1e3 for word in words),
            tuple(word.regular for word in words),
            tuple(sequencers),
            self.order.options.null_ms,
            self.order.options.eager,
        )


def has_moved(told: MemberEstimate, now: MemberEstimate, times: float = MOVED) -> bool:
    """Whether an estimate differs from what was told by enough to matter."""
    return differs(told.period_us, now.period_us, times) or delays_moved(told, now, times)


def delays_moved(told: MemberEstimate, now: MemberEstimate, times: float = MOVED) -> bool:
    return bool(moved_delays(told, now, times))


def moved_delays(told: MemberEstimate, now: MemberEstimate, times: float = MOVED) -> list[int]:
    """The delays that differ from what was told by enough to matter."""
    pairs = zip(told.delays_us, now.delays_us, strict=True)
    return [new for old, new in pairs if differs(old, new, times) and abs(old - new) > ALIKE_US]


def agree(words: Sequence[MemberEstimate]) -> bool:
    """Whether both ends of every way say that it is as long."""
    there = tuple(word.delays_us for word in words)
    back = tuple(zip(*there, strict=True))
    return not any(
        differs(one, two, MOVED) and abs(one - two) > ALIKE_US
        for pair in zip(there, back, strict=True)
        for one, two in zip(*pair, strict=True)
    )


def leapt(told: MemberEstimate, now: MemberEstimate) -> bool:
    """Whether a load is another one, for which roles cannot wait."""
    return differs(told.period_us, now.period_us, LEAP)


def differs(one: int, two: int, times: float) -> bool:
    return max(one, two) > times * min(one, two)
