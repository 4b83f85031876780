"""Who should be active: the rules by which a process chooses its role, each a policy.

A process that sends more often than a ticket takes to come back is better off issuing its own; one that sends rarely
would only keep the others waiting for its promises. So a process compares the period of its application with the
delay to the nearest other active process.

*Fixed*: the roles are given. *Threshold* is the paper's dynamic rule: change when period and delay differ by more
than a share of the delay. *Revalidated* is ours: the same wish, but the request carries its reasons, and all judge
them again where it is delivered. In between another process may have changed its role: two neighbours that both see
themselves far from any active process both ask, and only the first is right. *Restless* changes its mind at random: it
is there for tests, which want every kind of change at every moment. *Planned* follows a plan for the whole group
(planned.py), and keeps the roles as they are while there is none.

How a role changes (the phases of `RolePhase`):
- to active: ask, ticketed by the sequencer, and send nothing until the request is delivered;
- to passive: ask, ticketed by oneself, and neither send nor issue. Where the request is delivered the process is
  removed, unless it is the last active one; those it served choose another sequencer and *reassign* what is not
  delivered: just that has no ticket, as the old sequencer's tickets all go before its request;
- another sequencer: send nothing until all that one sent is delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random

import msgspec

from isthmus.core.errors import RemoteError
from isthmus.core.layer import View
from isthmus.core.message import SiteId, Targets
from isthmus.protocols.estimator import Estimator
from isthmus.protocols.total.hybrid.wire import HybridOptions, RolePlan, RoleRequest, RoleState

LEAP = 3.0  # an estimate that differs by so many times is no accident
BUSY, PATIENCE = 0.5, 2  # who sends at least twice in null_ms waits twice that: its next message is nearly there
PLANNED_MAX = 10  # members; beyond, finding a plan would keep a live site from answering for too long


class RolePhase(Enum):
    """What a process is, or is about to become."""

    ACTIVE = 1
    PASSIVE = 2
    TO_ACTIVE = 3
    TO_PASSIVE = 4
    CHANGING = 5  # passive, on its way to another sequencer
    LISTENING = 6  # it does not know the roles yet, or its view is closing


SENDING = (RolePhase.ACTIVE, RolePhase.PASSIVE)
SERVED = (RolePhase.PASSIVE, RolePhase.TO_ACTIVE, RolePhase.CHANGING)  # by a sequencer


class FixedRoles:
    """Roles as given; where none of the active is left, the member with the highest id stands in."""

    __slots__ = ("active",)
    watches = False  # whether estimates matter

    def __init__(self, active: Targets | None) -> None:
        self.active = active

    def initial(self, members: Targets) -> set[SiteId]:
        """Who is active in a configuration without a past."""
        return {site for site in members if self.active is None or site in self.active} or {max(members)}

    def wants(self, site: SiteId, active: bool, period_ns: float | None, delay_ns: float | None) -> bool:  # noqa: ARG002
        """Whether a process in a role would be active, given its period and the delay to the nearest other active."""
        return self.active is None or site in self.active

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:  # noqa: ARG002
        """Whether a request still stands where it is delivered, with others active."""
        return True

    def may_leave(self, others: set[SiteId]) -> bool:  # noqa: ARG002
        """Whether an active process may become passive now, with others active."""
        return True

    def adopt(self, sender: SiteId, plan: RolePlan, members: Targets) -> bool:  # noqa: ARG002
        """Take a plan over; whether this rule goes by plans, and it is one."""
        return False

    def open(self, members: Targets) -> None:
        """A view opens."""

    def sequencer_of(self, site: SiteId) -> SiteId | None:  # noqa: ARG002
        """The sequencer that is meant for a process; None: the one it picks."""
        return None

    def pick(self, active: set[SiteId], distance_ns: Callable[[SiteId], float]) -> SiteId:
        """The sequencer of a passive process."""
        return min(active, key=lambda site: (distance_ns(site), site))

    def is_better(self, new: SiteId, old: SiteId, distance_ns: Callable[[SiteId], float]) -> bool:  # noqa: ARG002
        """Whether a sequencer is worth the change from another."""
        return True


class ThresholdRoles(FixedRoles):
    """Roles by period and delay; everybody is active at first."""

    __slots__ = ("threshold",)
    watches = True

    def __init__(self, threshold: float) -> None:
        super().__init__(None)
        self.threshold = threshold

    def wants(self, site: SiteId, active: bool, period_ns: float | None, delay_ns: float | None) -> bool:  # noqa: ARG002
        if period_ns is None or delay_ns is None:
            return active
        if active:
            return period_ns <= delay_ns * (1 + self.threshold)
        return period_ns < delay_ns * (1 - self.threshold)

    def is_better(self, new: SiteId, old: SiteId, distance_ns: Callable[[SiteId], float]) -> bool:
        return distance_ns(new) < (1 - self.threshold) * distance_ns(old)


class RevalidatedRoles(ThresholdRoles):
    """The same, and a request is judged again where it is delivered, by the reasons that it carries."""

    __slots__ = ()

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:  # noqa: ARG002
        nearest = min((delays_ns[site] for site in others if site in delays_ns), default=None)
        return nearest is None or (go.period_ns < nearest) == go.active


class PlannedRoles(RevalidatedRoles):
    """Roles as the plan has them, which all members adopt at one place of the order; large groups have none.

    Who sends much more often than when the plan was adopted need not wait for the next one: until then it is active
    where it would be by itself.
    """

    __slots__ = ("leapt", "period_ns", "plan", "small")

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold)
        self.plan: Mapping[SiteId, SiteId] | None = None  # the sequencer of each member, itself where it is active
        self.small = True  # otherwise each member chooses for itself
        self.period_ns: float | None = None  # of the application here, when the plan was adopted
        self.leapt = False  # much longer than now

    def initial(self, members: Targets) -> set[SiteId]:
        self.open(members)
        return super().initial(members)

    def open(self, members: Targets) -> None:
        self.plan, self.small = None, len(members) <= PLANNED_MAX

    def adopt(self, sender: SiteId, plan: RolePlan, members: Targets) -> bool:
        if sender != members[0] or not plan.fits(members):
            return False
        self.plan = dict(zip(members, plan.sequencers, strict=True))
        self.period_ns, self.leapt = None, False
        return True

    def wants(self, site: SiteId, active: bool, period_ns: float | None, delay_ns: float | None) -> bool:
        if self.small and self.plan is None:
            return active
        if self.plan is not None and period_ns is not None:
            self.period_ns = self.period_ns or period_ns
            self.leapt |= period_ns * LEAP < self.period_ns
        if self.plan is None or self.leapt:
            return super().wants(site, active, period_ns, delay_ns)
        return self.plan[site] == site

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:
        if self.plan is not None and (self.plan[sender] == sender) == go.active:
            return True
        alone = not self.small or (self.plan is not None and go.active)
        return alone and super().confirms(sender, go, delays_ns, others)

    def may_leave(self, others: set[SiteId]) -> bool:
        """Those who are to be active come first: in between, the few that are would have to serve everybody."""
        return self.plan is None or others.issuperset(self.plan.values())

    def sequencer_of(self, site: SiteId) -> SiteId | None:
        return None if self.plan is None else self.plan[site]

    def is_better(self, new: SiteId, old: SiteId, distance_ns: Callable[[SiteId], float]) -> bool:
        return self.plan is not None or super().is_better(new, old, distance_ns)


class RandomRoles(FixedRoles):
    """Changes at random, whether it makes sense or not."""

    __slots__ = ("random",)
    watches = True

    def __init__(self, random: Random) -> None:
        super().__init__(None)
        self.random = random

    def wants(self, site: SiteId, active: bool, period_ns: float | None, delay_ns: float | None) -> bool:  # noqa: ARG002
        return (self.random.random() < 0.2) != active

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:  # noqa: ARG002
        return go.period_ns % 3 != 0  # anything that is the same for all

    def pick(self, active: set[SiteId], distance_ns: Callable[[SiteId], float]) -> SiteId:  # noqa: ARG002
        return self.random.choice(sorted(active))


Rule = FixedRoles


def rule_of(options: HybridOptions, random: Random) -> Rule:
    if options.rule in (None, "fixed"):
        return FixedRoles(options.active)
    if options.rule == "restless":
        return RandomRoles(random)
    if options.rule == "planned":
        return PlannedRoles(options.threshold)
    return ThresholdRoles(options.threshold) if options.rule == "paper" else RevalidatedRoles(options.threshold)


class Outlook:
    """What one process knows that matters to its role: its rule, its period, and how far the others are."""

    __slots__ = ("estimator", "options", "rule", "site")

    def __init__(self, site: SiteId, options: HybridOptions, estimator: Estimator, rule: Rule) -> None:
        self.site = site
        self.options = options
        self.estimator = estimator
        self.rule = rule

    def distance_ns(self, site: SiteId) -> float:
        """The delay to a member: as measured, or until then as the topology has it."""
        measured = self.estimator.delay_ns(site)
        if measured is not None or site == self.site:
            return measured or 0.0
        return self.options.distances[self.site][site] * 1e6 if self.options.distances else 0.0

    def wants(self, active: bool, others: set[SiteId]) -> bool:
        """Whether the rule would have us active, given our role and the other active processes."""
        if active and not self.rule.may_leave(others):
            return True
        delay_ns = min(self.distance_ns(site) for site in sorted(others))
        return self.rule.wants(self.site, active, self.estimator.period_ns(), delay_ns)

    def patience(self) -> int:
        """How many times `null_ms` to be silent before a null.

        With gaps at random and a period of two fifths of null_ms, one gap in twelve outlasts null_ms, by less than
        that period on the mean: nulls would be a tenth of all packets, to be a few ms faster at times.
        """
        period_ns = self.estimator.period_ns()
        return PATIENCE if period_ns is not None and period_ns <= BUSY * self.options.null_ms * 1e6 else 1

    def request(self, active: bool, members: Targets) -> RoleRequest:
        """A request for another role, with its reasons."""
        return RoleRequest(active, self.estimator.period_ns() or 0.0, tuple(self.distance_ns(site) for site in members))

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:
        """Whether a member's request stands, with others active; it tells how often its application sends, too."""
        if go.period_ns >= 1:
            self.estimator.note_period(sender, round(go.period_ns))
        return self.rule.confirms(sender, go, delays_ns, others)

    def sequencer(self, active: set[SiteId]) -> SiteId:
        """The sequencer to have: the one that was asked for, or as the rule picks."""
        wanted = self.options.sequencer_of.get(self.site, self.rule.sequencer_of(self.site))
        return wanted if wanted is not None and wanted in active else self.rule.pick(active, self.distance_ns)

    def is_better(self, new: SiteId, old: SiteId) -> bool:
        """Whether a sequencer is worth the change from another."""
        return new != old and self.rule.is_better(new, old, self.distance_ns)


def roles_after(
    view: View, survivors: Targets, active: set[SiteId], terms: Mapping[SiteId, int]
) -> tuple[set[SiteId], dict[SiteId, int]]:
    """Who is active in the next view, and the terms of its members; the highest id, where no active process is left."""
    kept = active.intersection(survivors)
    numbers = {site: terms[site] if site in survivors else 0 for site in view.members}
    if not kept:
        elected = max(survivors)
        numbers[elected] += 1
        return {elected}, numbers
    return kept, numbers


def encode_roles(members: Targets, active: set[SiteId], terms: Mapping[SiteId, int]) -> bytes:
    return msgspec.msgpack.encode(RoleState(tuple(sorted(active)), tuple(terms[site] for site in members)))


def decode_roles(state: bytes, members: Targets) -> tuple[set[SiteId], dict[SiteId, int]]:
    """The roles of a view with some members; refuses those of another."""
    try:
        roles = msgspec.msgpack.decode(state, type=RoleState)
    except msgspec.DecodeError as error:
        raise RemoteError(f"roles that do not decode: {error}") from error
    if len(roles.role_numbers) != len(members) or not roles.active or not set(roles.active) <= set(members):
        raise RemoteError(f"roles that do not fit the members {members}: {roles}")
    return set(roles.active), dict(zip(members, roles.role_numbers, strict=True))
