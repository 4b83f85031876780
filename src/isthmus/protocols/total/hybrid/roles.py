"""The rules by which a process chooses to be active or passive, and the phases of a change of roles.

A process whose messages are more frequent than the round trip of a ticket should issue its own tickets; a rare sender
would only delay the others, which wait for its promises. So a process compares the period of its application with the
delay to the nearest other active process.

*FixedRoles*: as configured. *ThresholdRoles*, the paper's dynamic rule: change when period and delay differ by more
than a share of the delay. *RevalidatedRoles*, ours: the same, but the request carries its reasons, and all members
judge them again where it is delivered. In between another process may have changed its role: two neighbours that are
both far from any active process both ask, and only the first is right. *RandomRoles* changes at random, for tests of
every kind of change at every moment. *PlannedRoles* follows a plan for the whole group (planned.py), and without one
changes nothing.

The phases of a process (`RolePhase`); requests are ordered like messages, and count where they are delivered:

| phase | event | next |
|---|---|---|
| LISTENING | the view opens (`resume`) | ACTIVE or PASSIVE |
| ACTIVE | the rule wants passive: request, ticketed by itself; neither send nor issue | TO_PASSIVE |
| TO_PASSIVE | its request stands (others choose another sequencer and *reassign* entries) | PASSIVE |
| TO_PASSIVE | its request does not stand: it is the last active process, or the reasons are gone | ACTIVE |
| PASSIVE | the rule wants active: request, ticketed by the sequencer; send nothing | TO_ACTIVE |
| TO_ACTIVE | its request stands | ACTIVE |
| TO_ACTIVE | its request does not stand | PASSIVE |
| PASSIVE | another sequencer is better: send nothing until all that was sent is delivered | CHANGING |
| CHANGING | all is delivered, or the sequencer becomes passive | PASSIVE |
| any | the view closes | LISTENING |

Only undelivered entries need to be reassigned, as all tickets of the old sequencer precede its request.
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

LEAP = 3.0  # an estimate that differs by this factor is significant
BUSY, PATIENCE = 0.5, 2  # a sender of at least two messages per null_ms waits twice null_ms before a null
PLANNED_MAX = 10  # members; beyond, finding a plan would keep a live site from answering for too long


class RolePhase(Enum):
    """The role of a process, or the change it waits for; the module docstring has the transitions."""

    ACTIVE = 1
    PASSIVE = 2
    TO_ACTIVE = 3
    TO_PASSIVE = 4
    CHANGING = 5  # passive, on its way to another sequencer
    LISTENING = 6  # the roles are unknown, or the view is closing


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
        """Whether a process should be active, given its role, its period and the delay to the nearest other active."""
        return self.active is None or site in self.active

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:  # noqa: ARG002
        """Whether a request still stands where it is delivered, with others active."""
        return True

    def may_leave(self, others: set[SiteId]) -> bool:  # noqa: ARG002
        """Whether an active process may become passive now, with others active."""
        return True

    def adopt(self, sender: SiteId, plan: RolePlan, members: Targets) -> bool:  # noqa: ARG002
        """Adopt a plan; return whether this rule follows plans, and the plan is valid."""
        return False

    def open(self, members: Targets) -> None:
        """A view opens."""

    def sequencer_of(self, site: SiteId) -> SiteId | None:  # noqa: ARG002
        """Return the sequencer planned for a process; None: it picks one."""
        return None

    def pick(self, active: set[SiteId], distance_ns: Callable[[SiteId], float]) -> SiteId:
        """Pick the sequencer of a passive process."""
        return min(active, key=lambda site: (distance_ns(site), site))

    def is_better(self, new: SiteId, old: SiteId, distance_ns: Callable[[SiteId], float]) -> bool:  # noqa: ARG002
        """Whether a sequencer is worth the change from another."""
        return True


class ThresholdRoles(FixedRoles):
    """Roles by period and delay; all processes are active at first."""

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
    """The same, but a request is judged again where it is delivered, by the reasons that it carries."""

    __slots__ = ()

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:  # noqa: ARG002
        nearest = min((delays_ns[site] for site in others if site in delays_ns), default=None)
        return nearest is None or (go.period_ns < nearest) == go.active


class PlannedRoles(RevalidatedRoles):
    """Roles by a plan that all members adopt at one place of the order; large groups have none.

    A process whose rate has leapt since the plan was adopted does not wait for the next plan: until then it chooses by
    its own period and delay.
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
        """Whether all planned active processes are active: until then too few would serve all the others."""
        return self.plan is None or others.issuperset(self.plan.values())

    def sequencer_of(self, site: SiteId) -> SiteId | None:
        return None if self.plan is None else self.plan[site]

    def is_better(self, new: SiteId, old: SiteId, distance_ns: Callable[[SiteId], float]) -> bool:
        return self.plan is not None or super().is_better(new, old, distance_ns)


class RandomRoles(FixedRoles):
    """Changes at random."""

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
    """What one process knows for its choice of a role: its rule, its period, and its distances."""

    __slots__ = ("estimator", "options", "rule", "site")

    def __init__(self, site: SiteId, options: HybridOptions, estimator: Estimator, rule: Rule) -> None:
        self.site = site
        self.options = options
        self.estimator = estimator
        self.rule = rule

    def distance_ns(self, site: SiteId) -> float:
        """Return the measured delay to a member, or until then that of the topology."""
        measured = self.estimator.delay_ns(site)
        if measured is not None or site == self.site:
            return measured or 0.0
        return self.options.distances[self.site][site] * 1e6 if self.options.distances else 0.0

    def wants(self, active: bool, others: set[SiteId]) -> bool:
        """Whether the rule wants us active, given our role and the other active processes."""
        if active and not self.rule.may_leave(others):
            return True
        delay_ns = min(self.distance_ns(site) for site in sorted(others))
        return self.rule.wants(self.site, active, self.estimator.period_ns(), delay_ns)

    def patience(self) -> int:
        """Return the silence before a null, in multiples of `null_ms`.

        With gaps at random and a period of two fifths of null_ms, one gap in twelve outlasts null_ms, by less than
        that period on the mean: nulls would be a tenth of all packets, to be a few ms faster at times.
        """
        period_ns = self.estimator.period_ns()
        return PATIENCE if period_ns is not None and period_ns <= BUSY * self.options.null_ms * 1e6 else 1

    def request(self, active: bool, members: Targets) -> RoleRequest:
        """A request for another role, with its reasons."""
        return RoleRequest(active, self.estimator.period_ns() or 0.0, tuple(self.distance_ns(site) for site in members))

    def confirms(self, sender: SiteId, go: RoleRequest, delays_ns: Mapping[SiteId, float], others: set[SiteId]) -> bool:
        """Whether a member's request stands, with others active; takes in the period that it reports."""
        if go.period_ns >= 1:
            self.estimator.note_period(sender, round(go.period_ns))
        return self.rule.confirms(sender, go, delays_ns, others)

    def sequencer(self, active: set[SiteId]) -> SiteId:
        """Return the sequencer to use: as configured, or as the rule picks."""
        wanted = self.options.sequencer_of.get(self.site, self.rule.sequencer_of(self.site))
        return wanted if wanted is not None and wanted in active else self.rule.pick(active, self.distance_ns)

    def is_better(self, new: SiteId, old: SiteId) -> bool:
        """Whether a sequencer is worth the change from another."""
        return new != old and self.rule.is_better(new, old, self.distance_ns)


def roles_after(
    view: View, survivors: Targets, active: set[SiteId], terms: Mapping[SiteId, int]
) -> tuple[set[SiteId], dict[SiteId, int]]:
    """Return the active members of the next view and all terms; without a survivor that is active, the highest id
    is."""
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
    """Return the roles of a view with some members; refuses those of another view."""
    try:
        roles = msgspec.msgpack.decode(state, type=RoleState)
    except msgspec.DecodeError as error:
        raise RemoteError(f"roles that do not decode: {error}") from error
    if len(roles.role_numbers) != len(members) or not roles.active or not set(roles.active) <= set(members):
        raise RemoteError(f"roles that do not fit the members {members}: {roles}")
    return set(roles.active), dict(zip(members, roles.role_numbers, strict=True))
