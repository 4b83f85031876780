"""Roles that follow a plan: one member weighs all rates and delays, and proposes which members should be active.

Problem: a process that chooses its role alone ignores the cost to the others, which wait for its promises. On networks
with many distances its choice is good for itself and bad for all.

Idea: the eldest member, the *planner*, knows the send period of every member and the delays between them. Members
answer its probes with a report (estimator.py), and a request for a role carries the same: neither takes a packet of its
own. Only significant changes are reported at once. The planner weighs assignments by the predicted mean latency and
multicast rate (by the function `advise`; stacks/roles has the closed form). Where an assignment is better than the
present roles by more than a change is worth, it proposes a `RolePlan`: an entry of its stream, ordered like a message.
So all members adopt it at the same place of the order, and each member whose role differs requests the other one
(roles.py); a request is confirmed only where it agrees with the plan at that place.

Invariants:
- Only the eldest member of a view proposes; a proposal of another member is refused by all at the same place.
- A plan belongs to a view: it is forgotten as the view closes, delivered or not, and roles stay until the next planner
  has a plan. A planner that crashes with a proposal under way changes nothing.
- Plans keep a distance: the planner looks again after some time and where an estimate has moved, and proposes what was
  better twice in a row, so that one odd sample does nothing. Where delays move it waits until all members have measured
  theirs: until both ends of each path agree, and more distant pairs have had time to measure. Where a load has leapt
  there is no time to lose, neither for the planner nor for a member that now sends often: the member becomes active
  ahead of the plan, and the next plan confirms or corrects that.

Nothing here is needed for safety: a lost or wrong report makes a plan worse, but no order wrong.
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
LOOK_NS = 250_000_000  # between two looks at the estimates
FIRST_NS = 1_000_000_000  # after a view opens, until estimates are worth a look
REST_NS = 2_000_000_000  # after a look without a result, or a plan
HASTE_NS = 500_000_000  # the same where a load or a delay has leapt since
ALIKE_US = 1_000  # delays that differ by less are equal: in a LAN they vary much
BELIEVED = 4  # multiples of a new delay until it counts: two probes (estimator.py), there and back
FARTHER = 1.5  # a delay that differs by this factor from the last report is reported at once
MOVED = 1.25  # an estimate that differs by this factor from the last look is worth another look


class MemberEstimate(NamedTuple):
    """What a plan knows of a member, from its report."""

    period_us: int
    regular: bool
    delays_us: tuple[int, ...]  # to the members, in the order of the view; 0 to itself


class RoleSituation(NamedTuple):
    """The inputs of a plan; members are numbered by their place in the view."""

    delays_ms: tuple[tuple[float, ...], ...]
    periods_ms: tuple[float, ...]  # inf: silent
    regular: tuple[bool, ...]
    sequencers: tuple[int, ...]  # the present sequencer of each member; itself where it is active
    null_ms: float
    eager: bool


Advise = Callable[[RoleSituation], tuple[int, ...] | None]  # sequencers that are worth a change, or None


class Planner(Layer):
    """Reports to the eldest member, and proposes plans where this site is the eldest."""

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
        self.seen: tuple[MemberEstimate, ...] = ()  # the estimates at the last look
        self.found: tuple[int, ...] | None = None  # the better sequencers that the last look found
        self.opened_ns: int | None = None  # when the view opened
        self.looked_ns = 0  # the last look without a result, or the last plan
        self.told: tuple[MemberEstimate, ...] = ()  # the last reports
        self.delays_ns = -REST_NS  # when delays last changed in them,
        self.settling_ns = 0  # and how long after that more distant pairs may still be measuring

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
        if self.order.stirred:  # without messages, roles do not matter
            self.tell()
            if self.host.site == self.view.members[0]:
                self.look()

    # Reports

    def tell(self) -> None:
        """Report significant changes since our last report, and the results of the first probes."""
        report, told = self.estimator.report(), self.estimator.reported
        if told is None:
            due = len(report.delays_us) == len(self.view.members) - 1
        else:
            words = self.word(self.host.site, told), self.word(self.host.site, report)
            due = leapt(*words) or delays_moved(*words, FARTHER)
        if due:
            self.estimator.tell(report)

    def word(self, site: SiteId, report: DelayReport) -> MemberEstimate:
        """Return the estimates of a report, and bounds for what it lacks: a member that has hardly sent sends
        rarely."""
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
        """Propose other roles if they are worth a change, now and at the last look."""
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
            return  # not all pairs have measured their delay since
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
        """Note the delays that have changed since the last report, and how long other pairs may still be measuring.

        All members probe at about the same times, as they installed the view: delays no longer than one that is known
        to have changed have most likely been measured. Where that is wrong, the next look corrects the plan.
        """
        moved = [delay for told, now in zip(self.told, words, strict=False) for delay in moved_delays(told, now)]
        if moved:
            longest = max(delay for word in words for delay in word.delays_us)
            self.delays_ns = self.host.now_ns
            self.settling_ns = min(REST_NS, 1_000 * BELIEVED * (longest - max(moved)))
        self.told = words

    def is_unfinished(self) -> bool:
        """Whether roles differ from the plan: a member leapt ahead of it, or its request was refused."""
        plan = self.plan()
        return plan is not None and {site for site in plan if plan[site] == site} != self.order.order.active

    def plan(self) -> Mapping[SiteId, SiteId] | None:
        """Return the plan in force."""
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
    """Whether an estimate differs significantly from the reported one."""
    return differs(told.period_us, now.period_us, times) or delays_moved(told, now, times)


def delays_moved(told: MemberEstimate, now: MemberEstimate, times: float = MOVED) -> bool:
    return bool(moved_delays(told, now, times))


def moved_delays(told: MemberEstimate, now: MemberEstimate, times: float = MOVED) -> list[int]:
    """Return the delays that differ significantly from the reported ones."""
    pairs = zip(told.delays_us, now.delays_us, strict=True)
    return [new for old, new in pairs if differs(old, new, times) and abs(old - new) > ALIKE_US]


def agree(words: Sequence[MemberEstimate]) -> bool:
    """Whether both ends of every path report the same delay."""
    there = tuple(word.delays_us for word in words)
    back = tuple(zip(*there, strict=True))
    return not any(
        differs(one, two, MOVED) and abs(one - two) > ALIKE_US
        for pair in zip(there, back, strict=True)
        for one, two in zip(*pair, strict=True)
    )


def leapt(told: MemberEstimate, now: MemberEstimate) -> bool:
    """Whether a load has changed so much that roles cannot wait."""
    return differs(told.period_us, now.period_us, LEAP)


def differs(one: int, two: int, times: float) -> bool:
    return max(one, two) > times * min(one, two)
