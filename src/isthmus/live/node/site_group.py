"""One group of a live site: its plan with names resolved, what the present life has of it, and who uses it.

A group is used by a program's `Group`, a router's node, or the traffic of a live run: the runtime of the site calls its
handler on the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from isthmus.core.errors import InputError
from isthmus.core.layer import Layer, View
from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.validation import BadValue, one_of
from isthmus.live.net.hello import GroupHello, short_text
from isthmus.live.node.errors import SiteFailed
from isthmus.live.node.incarnations import FileStore
from isthmus.live.node.plans import AgreedPlan, GroupPlan
from isthmus.live.node.site import LivePort
from isthmus.protocols.application import Application
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.home import Past
from isthmus.scenario.workload import named_sites
from isthmus.stacks.assembly import Builder, resolve_options
from isthmus.stacks.registry import STACKS
from isthmus.topology.model import Topology


def nothing() -> None:
    """Do nothing."""


async def nothing_sent(_timeout: float) -> bool:
    """Whether the others have all that was sent: nothing was."""
    return True


class GroupHandler(NamedTuple):
    """What uses a group at this site."""

    application: Callable[[], Layer]  # the top of the stack, for the life that begins
    on_stack: Callable[[LivePort], None]  # the life has a stack, at this port
    gather: Callable[[], None] = nothing  # the turn ends: hand over what it has read and sent
    on_life_end: Callable[[], None] = nothing  # the site begins a new life: nothing of the old one counts
    on_end: Callable[[], None] = nothing  # the site has left, or the others refuse it
    settle: Callable[[float], Awaitable[bool]] = (
        nothing_sent  # wait until the others have what was sent; whether they do
    )


class SiteGroup:
    """One group of a site."""

    __slots__ = (
        "agreement",
        "asked_s",
        "build",
        "failure",
        "group",
        "handler",
        "members",
        "options",
        "past",
        "plan",
        "port",
        "store",
    )

    def __init__(self, topology: Topology, plan: GroupPlan, group: GroupId) -> None:
        if plan.stack not in STACKS:
            raise InputError("stack", "", repr(plan.stack), one_of(plan.stack, STACKS))
        self.plan = plan
        self.build: Builder = STACKS[plan.stack].build
        self.group = group
        everyone = tuple(SiteId(number) for number in range(len(topology.sites)))
        self.members: Targets = named_sites(topology, plan.sites, "sites") or everyone
        try:
            options = resolve_options(plan.stack, topology, plan.options)
        except BadValue as error:
            raise error.at("options", plan.name) from None
        self.options = options if plan.safe is None else msgspec.structs.replace(options, safe=plan.safe)
        self.handler: GroupHandler | None = None  # None: this site is not in the group
        # Of the present life:
        self.port: LivePort | None = None
        self.agreement: Agreement | None = None  # where members agree on views
        self.asked_s: float | None = None  # since when all others ask this site to found the group
        self.failure: SiteFailed | None = None  # for which this site leaves
        # From one life to the next:
        self.past: Past | None = None
        self.store: FileStore | None = None

    def handles_state(self) -> bool:
        """Whether this site's application has a state to hand over."""
        top = None if self.port is None else self.port.stack.layers[0]
        return top is not None and (
            top.keeper() is not None or (isinstance(top, Application) and top.on_state is not None)
        )

    def begins(self, view: View) -> bool:
        """Whether a view is one with which the group begins, with what this site's program has."""
        if self.agreement is None or self.agreement.decision is None:
            return True
        decision = self.agreement.decision
        return decision.view == view and decision.begins_at(self.agreement.host.site)

    def hello(self, agreed: AgreedPlan | None) -> GroupHello:
        """What sites compare of this group at first contact."""
        return GroupHello(self.group, self.plan.name, self.plan.stack, self.members, self.shared_options(agreed))

    def shared_options(self, agreed: AgreedPlan | None) -> dict[str, str]:
        """The options that must be the same at all sites, as text."""
        taken, options = STACKS[self.plan.stack].options, self.options
        shown: dict[str, object] = {"credit.window": options.credit.window}
        shown["membership"] = "static" if agreed is None else "agreed"
        if agreed is not None:
            shown["membership.weights"] = sorted(agreed.rules.weights.items())
        shown["safe"], shown["relay"] = options.safe, options.relay is not None
        if self.plan.composition:
            shown["composition"] = self.plan.composition
        if "sequencer" in taken:
            shown["sequencer"] = "the eldest" if options.sequencer is None else f"site {options.sequencer}"
        if options.participants is not None:
            shown["participants"] = sorted(options.participants.conditions.items())
        if "optimistic" in taken:
            shown["optimistic.policy"] = options.optimistic.policy
        if "hybrid" in taken:
            hybrid = options.hybrid
            shown["hybrid.rule"], shown["hybrid.clock"] = hybrid.rule, hybrid.clock
            shown["hybrid.active"] = "all" if hybrid.active is None else list(hybrid.active)
            shown["hybrid.sequencer_of"] = sorted(hybrid.sequencer_of.items())
        if "causal" in taken:
            causal = options.causal
            shown["causal.coding"], shown["causal.rules"] = causal.coding, causal.rules()
            shown["causal.lans"], shown["causal.gated"] = causal.lans, causal.gated
        if "overlay" in taken:
            shown["overlay"] = options.overlay
        return {name: short_text(str(value)) for name, value in shown.items()}
