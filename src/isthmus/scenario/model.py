"""A scenario: everything that determines a run, as one frozen value.

Names refer to the topology and are checked on construction. `faults_of_run` and the random sources are derived from the
seed, so that a run is a function of the scenario alone.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, Literal

import msgspec

from isthmus.core.message import GroupId, SiteId, Targets
from isthmus.core.validation import PERIOD_MIN_MS, BadValue, given_keys, one_of, show, with_key, with_prefix
from isthmus.protocols.causal.flooding.safe_wire import DynamicOptions
from isthmus.protocols.causal.options import CausalOptions, CausalPolicy
from isthmus.protocols.fragments import FragmentOptions
from isthmus.protocols.participants.wire import Conditions, ParticipantsOptions
from isthmus.protocols.routing.calculus.model import Composition
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.total.hybrid.wire import HybridOptions, HybridPolicy
from isthmus.protocols.total.optimistic.compensation import OptimisticOptions
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.relay import RelayOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.clocks import Clocks as Clocks
from isthmus.scenario.composition.check import check_composition, check_recomputed, check_views, couriers_of, is_bare
from isthmus.scenario.faults import Fault, Heal, Leave, Loss, OfReference, Partition, Pause, RandomFaults, Relink
from isthmus.scenario.membership import Agreed as Agreed
from isthmus.scenario.membership import Membership as Membership
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.packets import NetworkSpec, check_network
from isthmus.scenario.participants.model import ParticipantSpec
from isthmus.scenario.workload import Workload, named_sites, span_ms
from isthmus.stacks.assembly import resolve_lans, resolve_options, resolve_roles
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.topology.gateways.lans import check_served, lans_of
from isthmus.topology.model import Topology

NAME_MAX = 100


class HybridSpec(HybridPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Roles and policies of the ticket protocols, with sites given by name."""

    active: tuple[str, ...] = ()  # sites or clusters; () with the stack hybrid: the cluster agents
    # Passive site to active site; default: the nearest active one:
    sequencer_of: dict[str, str] = msgspec.field(default_factory=dict)
    rule: Literal["planned", "dynamic", "paper", "restless"] = "planned"  # of the stack dynamic-hybrid

    def of(self, stack: str, topology: Topology) -> HybridOptions:
        """Return the options with names resolved and the stack's own defaults."""
        policy = HybridOptions(**{name: getattr(self, name) for name in HybridPolicy.__struct_fields__})
        roles = STACKS[stack].roles
        named = named_sites(topology, self.active, "active")
        for site, other in self.sequencer_of.items():
            with_prefix("sequencer_of", partial(topology.site_id, site))
            with_prefix(f"sequencer_of.{site}", partial(topology.site_id, other))
        if roles != "given":
            rule = self.rule if roles == "changing" else None
            return resolve_roles(stack, topology, msgspec.structs.replace(policy, rule=rule))
        sequencer_of = {topology.site_id(site): topology.site_id(other) for site, other in self.sequencer_of.items()}
        given = msgspec.structs.replace(policy, active=named or None, sequencer_of=sequencer_of)
        options = resolve_roles(stack, topology, given)
        for site, other in self.sequencer_of.items():
            if topology.site_id(other) not in (options.active or ()):
                raise BadValue(f"sequencer_of.{site}", repr(other), "the name of an active site")
        return options


class StackSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stack and its options."""

    name: str
    transport: Literal["reliable", "direct"] = "reliable"
    sequencer: str | None = None
    batch_ms: float | None = None
    credit: CreditOptions = CreditOptions()
    reliable: ReliableOptions = ReliableOptions()
    optimistic: OptimisticOptions = OptimisticOptions()
    hybrid: HybridSpec = HybridSpec()
    relay: RelayOptions | None = None  # one multicast copy per remote LAN; an empty table enables it
    safe: bool = False  # deliver only messages that a quorum of the view holds
    causal: CausalPolicy = CausalPolicy()
    ring: RingOptions = RingOptions()
    fragments: FragmentOptions = FragmentOptions()  # for messages that do not fit into a frame
    overlay: OverlaySpec = OverlaySpec()
    dynamic: DynamicOptions = DynamicOptions()

    def __post_init__(self) -> None:
        if self.name not in STACKS:
            raise BadValue("name", repr(self.name), one_of(self.name, STACKS))
        taken = STACKS[self.name].options
        for name in given_keys(self):
            if name not in (*taken, "name"):
                right = f"one of {', '.join(taken)}, which the stack {self.name} takes"
                if name == "safe":
                    right = f"false, with the stack {self.name}: a flood tells nobody who has what"
                raise BadValue(name, show(getattr(self, name)), right)
        if self.batch_ms is not None:
            span_ms("batch_ms", self.batch_ms)
        if self.relay is not None and self.transport != "reliable":
            right = "the reliable transport: a relay may lose packets"
            raise BadValue("relay", "a relay over the direct transport", right)
        if self.safe and self.transport == "direct":
            raise BadValue("safe", "true", "false, over the direct transport, which knows nothing of who has what")

    def causal_options(self, topology: Topology) -> CausalOptions:
        """Return the options of the causal stacks for a topology; reject LANs over which messages cannot be relayed."""
        policy = {name: getattr(self.causal, name) for name in CausalPolicy.__struct_fields__}
        return resolve_lans(self.name, topology, CausalOptions(**policy))


class Reader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A slow application: it takes this long per delivered message."""

    sites: tuple[str, ...]
    consume_ms: float

    def __post_init__(self) -> None:
        span_ms("consume_ms", self.consume_ms, PERIOD_MIN_MS)
        if not self.sites:
            raise BadValue("sites", "an empty list", "at least one site or cluster")


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several groups of a scenario, with its own members, stack and views."""

    name: str
    sites: tuple[str, ...] = ()  # sites or clusters; () for all
    stack: StackSpec | None = None  # None: that of the scenario


class GroupOfRun(msgspec.Struct, frozen=True):
    """A group with its names resolved."""

    id: GroupId  # 0, 1, 2 ... in the order of the scenario
    name: str
    members: Targets
    stack: StackSpec
    options: StackOptions
    processes: Targets  # members that run applications: all but routers


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario without its network and traffic."""

    stack: StackSpec
    name: str = "scenario"
    seed: int = 0
    duration_ms: float = 10_000.0
    drain_ms: float = 30_000.0  # maximum wait at the end for messages in flight
    faults: tuple[Fault, ...] = ()
    random_faults: RandomFaults = RandomFaults()
    clocks: Clocks = Clocks()
    readers: tuple[Reader, ...] = ()
    membership: Membership = Membership()
    network: NetworkSpec = NetworkSpec()
    groups: tuple[GroupSpec, ...] = ()  # (): one group of all sites, with the scenario's stack
    participants: tuple[ParticipantSpec, ...] = ()
    participant_groups: dict[str, Conditions] = msgspec.field(default_factory=dict)  # when each group may act
    router: RouterOptions = RouterOptions()  # of all routers of a composition
    turn_ms: float = 0.0  # duration of a turn of a site; 0: a turn is one event
    payloads: Literal["same", "varied"] = "same"  # varied: contents are checked at delivery
    wire: Literal["sized", "reference", "codec"] = "sized"  # count bytes; or not; or also encode and decode
    trace: Literal["events", "wire", "none"] = "events"  # wire: also every send and receive


class Scenario(Settings, frozen=True, kw_only=True):
    """A complete scenario: topology, stack, workload, faults, seed and duration."""

    topology: Topology
    workloads: tuple[Workload, ...]
    composition: Composition | None = None  # its nodes are the groups, in order

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_MAX or "/" in self.name or not self.name.isprintable():
            raise BadValue("name", show(self.name), f"a name for a folder: no slash, at most {NAME_MAX} letters")
        span_ms("duration_ms", self.duration_ms, PERIOD_MIN_MS)
        span_ms("drain_ms", self.drain_ms)
        if not self.workloads:
            raise BadValue("workloads", "nothing", "at least one workload")
        if self.composition is not None:
            check_composition(self.composition, self.topology, self.workloads, self.groups)
            check_recomputed(self.composition, self.topology, self.router)
            check_views(self.composition, self.membership.kind == "agreed")
        elif self.router.routes == "recomputed":
            raise BadValue("router.routes", "'recomputed'", "a scenario with a composition")
        for index, workload in enumerate(self.workloads):
            with_prefix(f"workloads[{index}]", partial(self.check_workload, workload))
        for index, fault in enumerate(self.faults):
            with_prefix(f"faults[{index}]", partial(self.check_fault, fault))
        for index, reader in enumerate(self.readers):
            with_prefix(f"readers[{index}]", partial(named_sites, self.topology, reader.sites, "sites"))
        span_ms("turn_ms", self.turn_ms)
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            raise BadValue("groups", f"the names {', '.join(names)}", "a name of its own for each group")
        for index, group in enumerate(self.groups):
            prefix = f"groups[{index}]"
            with_prefix(prefix, partial(named_sites, self.topology, group.sites, "sites"))
            if group.stack is not None:
                self.check_stack(group.stack, f"{prefix}.stack")
        self.check_stack(self.stack, "stack")
        with_prefix("membership", partial(named_sites, self.topology, self.membership.absent, "absent"))
        if self.clocks.service is not None:
            with_prefix("clocks.service", partial(self.clocks.check, self.topology))
        if given_keys(self.network):
            check_network(self)
        if self.membership.kind == "agreed":
            with_prefix("membership.agreed.weights", partial(self.membership.agreed.votes, self.topology))
        for index, participant in enumerate(self.participants):
            with_prefix(f"participants[{index}]", partial(self.check_participant, participant))
        for name in self.participant_groups:
            if all(participant.group != name for participant in self.participants):
                known = dict.fromkeys(participant.group for participant in self.participants)
                raise BadValue(f"participant_groups.{name}", "conditions", f"those of a group: {one_of(name, known)}")

    def check_stack(self, stack: StackSpec, key: str) -> None:
        if stack.sequencer is not None:
            with_prefix(f"{key}.sequencer", lambda: self.topology.site_id(stack.sequencer or ""))
        taken = STACKS[stack.name].options
        if "hybrid" in taken:
            with_prefix(f"{key}.hybrid", lambda: stack.hybrid.of(stack.name, self.topology))
        if "causal" in taken:
            stack.causal_options(self.topology)
        if "overlay" in taken:
            with_prefix(f"{key}.overlay", stack.overlay.plain)
        if STACKS[stack.name].steady and (self.membership.majority or self.membership.hasty):
            raise BadValue("membership", "majority or hasty", f"neither, where {key} is {stack.name}: it has no flush")
        if stack.transport == "direct":
            self.check_direct(stack, key)

    def check_workload(self, workload: Workload) -> None:
        members = self.members_of(workload.group)
        if workload.to_groups and self.composition is None:
            raise BadValue("to_groups", repr(workload.to_groups), "a scenario with a composition")
        workload.senders(self.topology)
        if not isinstance(workload.to, str | int):
            outside = [site for site in named_sites(self.topology, workload.to, "to") if site not in members]
            if outside:
                raise BadValue("to", repr(self.topology.sites[outside[0]].name), f"members of {workload.group!r}")
        most = len(workload.candidates(self.topology, members))
        if isinstance(workload.to, int) and workload.to > most:
            whose = f"the group {workload.group!r}" if workload.group else "the topology"
            named = " that `among` names" if workload.among else ""
            raise BadValue("to", repr(workload.to), f"at most the {most} sites of {whose}{named}")

    def members_of(self, name: str) -> Targets:
        """Return the sites of a group; those of the first group if no name is given."""
        everyone = tuple(SiteId(number) for number in range(len(self.topology.sites)))
        if not name and not self.groups:
            return everyone
        for group in self.groups:
            if not name or group.name == name:
                return named_sites(self.topology, group.sites, "sites") or everyone
        raise BadValue("group", repr(name), one_of(name, [group.name for group in self.groups]))

    def couriers(self) -> Targets:
        """Return the sites that only forward: the routers of a composition."""
        return () if self.composition is None else couriers_of(self.composition, self.topology)

    def check_participant(self, participant: ParticipantSpec) -> None:
        members = with_key("within", partial(self.members_of, participant.within))
        site = with_key("site", partial(self.topology.site_id, participant.site))
        if site not in members or site in self.couriers():
            raise BadValue("site", repr(participant.site), "a member of the site group")
        own = next((group.stack for group in self.groups if participant.within in ("", group.name)), None) or self.stack
        if not STACKS[own.name].participants:
            able = ", ".join(name for name, known in STACKS.items() if known.participants)
            raise BadValue("within", f"a group with the stack {own.name}", f"one with a stack of {able}")

    def check_fault(self, fault: Fault) -> None:
        fault.check_names(self.topology)
        steady = STACKS[self.stack.name].steady
        if self.membership.kind != "agreed" and isinstance(fault, Pause if steady else Leave | Pause):
            raise BadValue("kind", repr(fault.__struct_config__.tag), "another fault, unless membership is agreed")
        if isinstance(fault, OfReference) and self.clocks.service is None:
            tag = repr(fault.__struct_config__.tag)
            raise BadValue("kind", tag, "another fault, unless there is a [clocks.service]")
        if isinstance(fault, Relink) and self.membership.kind == "agreed":
            raise BadValue("kind", "'relink'", "another fault, where membership is agreed")
        stacks = [self.stack, *(group.stack for group in self.groups if group.stack is not None)]
        if isinstance(fault, Relink) and any(STACKS[stack.name].relays and not stack.causal.gated for stack in stacks):
            check_served(lans_of(fault.topology(self.topology)))
        if fault.at_ms > self.duration_ms:
            raise BadValue("at_ms", repr(fault.at_ms), f"a time within the scenario's {self.duration_ms:g} ms")

    def check_direct(self, stack: StackSpec, key: str) -> None:
        """Reject a direct transport over lossy channels, or over reordering ones if the stack does not allow it."""
        right = "reliable, where channels lose, repeat or reorder"
        reorders = STACKS[stack.name].reorders
        for channel in self.topology.all_channels():
            if channel.loss or channel.duplicate or not (channel.fifo or reorders):
                raise BadValue(f"{key}.transport", "'direct'", right)
        if self.membership.hasty or self.membership.kind == "agreed":
            cause = "is set" if self.membership.hasty else "is not ideal"
            option = "membership.hasty" if self.membership.hasty else "membership"
            raise BadValue(f"{key}.transport", "'direct'", f"reliable, where {option} {cause}")
        drawn = self.random_faults
        if drawn.partitions or drawn.losses or any(isinstance(f, Partition | Heal | Loss) for f in self.faults):
            raise BadValue(f"{key}.transport", "'direct'", right)

    def random(self, *purpose: object) -> Random:
        """Return a random source per purpose; text seeds do not depend on the hash seed."""
        return Random("/".join(map(str, (self.seed, *purpose))))

    def faults_of_run(self) -> list[Fault]:
        """Return the given and the drawn faults, in order of time."""
        drawn = self.random_faults
        faults = drawn.draw(self.topology, self.random("faults"), self.duration_ms) if given_keys(drawn) else []
        return sorted([*self.faults, *faults], key=lambda fault: fault.at_ms)

    def groups_of_run(self) -> list[GroupOfRun]:
        """Return the groups with names resolved; one group of all sites by default."""
        given = self.groups or (GroupSpec(name=""),)
        couriers = self.couriers()
        made = []
        for number, group in enumerate(given):
            stack = group.stack or self.stack
            bare = self.composition is not None and is_bare(self.composition, number)
            members, options = self.members_of(group.name), self.stack_options(stack, bare)
            if any(one.within == group.name or not (one.within or number) for one in self.participants):
                lights = ParticipantsOptions(conditions=self.participant_groups)
                options = msgspec.structs.replace(options, participants=lights)
            processes = tuple(site for site in members if site not in couriers)
            made.append(GroupOfRun(GroupId(number), group.name, members, stack, options, processes))
        return made

    def stack_options(self, stack: StackSpec | None = None, bare: bool = False) -> StackOptions:
        """Return the options of a stack, by default the scenario's, with names resolved."""
        spec = stack or self.stack
        sequencer = None if spec.sequencer is None else self.topology.site_id(spec.sequencer)
        optimistic = spec.optimistic
        if self.clocks.service is not None:
            optimistic = msgspec.structs.replace(optimistic, calendar=True)
        alike = ("batch_ms", "credit", "reliable", "relay", "safe", "ring", "fragments", "dynamic")
        given: dict[str, Any] = {name: getattr(spec, name) for name in alike}
        taken = STACKS[spec.name].options
        if "hybrid" in taken:
            given["hybrid"] = spec.hybrid.of(spec.name, self.topology)
        if "causal" in taken:
            given["causal"] = spec.causal_options(self.topology)
        if "overlay" in taken:
            given["overlay"] = spec.overlay.of(self.topology)
        direct = spec.transport == "direct"
        options = StackOptions(direct=direct, sequencer=sequencer, optimistic=optimistic, bare=bare, **given)
        return resolve_options(spec.name, self.topology, options)
