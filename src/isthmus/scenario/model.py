"""A scenario: everything that decides what happens in a run, as one frozen value.

Names in it are names of the topology, checked when the value is made. `faults_of_run` and the random sources are
derived from the seed, so that a run is a function of the scenario alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Literal

import msgspec

from isthmus.core.document import SHORTEST_MS, Invalid, join, one_of, show
from isthmus.core.message import SiteId
from isthmus.protocols.total.compensation import OptimisticOptions
from isthmus.protocols.total.hybrid_wire import HybridOptions, HybridPolicy
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.frames import ReliableOptions
from isthmus.scenario.faults import Crash, Fault, Heal, Loss, Partition, RandomFaults, Recover
from isthmus.scenario.workload import Workload, named_sites, span_ms
from isthmus.stacks import STACKS, StackOptions
from isthmus.topology.model import Topology

NAME_MAX = 100


class HybridSpec(HybridPolicy, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Roles and policies of the ticket protocols, with sites by their names."""

    active: tuple[str, ...] = ()  # sites or clusters; () of the stack hybrid: the cluster agents
    # Passive site: active site; otherwise the nearest active one:
    sequencer_of: dict[str, str] = msgspec.field(default_factory=dict)
    rule: Literal["dynamic", "paper", "restless"] = "dynamic"  # of the stack dynamic-hybrid

    def options(self, **resolved: Any) -> HybridOptions:
        """The same with names resolved."""
        policy = {name: getattr(self, name) for name in HybridPolicy.__struct_fields__}
        return HybridOptions(**policy, **resolved)

    def of(self, stack: str, topology: Topology) -> HybridOptions:
        """What a stack makes of it in a topology."""
        named = named_sites(topology, self.active, "active")
        for site, other in self.sequencer_of.items():
            with_prefix("sequencer_of", partial(topology.site_id, site))
            with_prefix(f"sequencer_of.{site}", partial(topology.site_id, other))
        sites = [SiteId(number) for number in range(len(topology.sites))]
        distances = tuple(tuple(0.0 if a == b else topology.mean_ms(a, b) for b in sites) for a in sites)
        if stack == "symmetric":
            return self.options(rule="fixed", distances=distances)
        if stack == "dynamic-hybrid":
            return self.options(rule=self.rule, distances=distances)
        agents = tuple(cluster.agent for cluster in topology.clusters)
        active = named or agents
        sequencer_of = {topology.site_id(site): topology.site_id(other) for site, other in self.sequencer_of.items()}
        for site, other in self.sequencer_of.items():
            if topology.site_id(other) not in active:
                raise Invalid(f"sequencer_of.{site}", repr(other), "the name of an active site")
        return self.options(rule="fixed", active=active, sequencer_of=sequencer_of, distances=distances)


class StackSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which stack, with which options."""

    name: str
    transport: Literal["reliable", "direct"] = "reliable"
    sequencer: str | None = None
    batch_ms: float | None = None
    credit: CreditOptions = CreditOptions()
    reliable: ReliableOptions = ReliableOptions()
    optimistic: OptimisticOptions = OptimisticOptions()
    hybrid: HybridSpec = HybridSpec()

    def __post_init__(self) -> None:
        if self.name not in STACKS:
            raise Invalid("name", repr(self.name), one_of(self.name, STACKS))
        if self.batch_ms is not None:
            span_ms("batch_ms", self.batch_ms)


class Clocks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far site clocks are off: each draws its offset and drift from plus or minus these."""

    offset_ms: float = 0.0
    drift_ppm: float = 0.0

    def __post_init__(self) -> None:
        span_ms("offset_ms", self.offset_ms)
        if not 0 <= self.drift_ppm < 100_000:
            raise Invalid("drift_ppm", repr(self.drift_ppm), "a number from 0 to below 100000")


class Reader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A slow application: it takes this long for each message that it is given."""

    sites: tuple[str, ...]
    consume_ms: float

    def __post_init__(self) -> None:
        span_ms("consume_ms", self.consume_ms, SHORTEST_MS)
        if not self.sites:
            raise Invalid("sites", "an empty list", "at least one site or cluster")


class Membership(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ideal view-synchronous service of the simulator."""

    detection_ms: float = 500.0  # from a crash or a recovery to the start of the view change

    def __post_init__(self) -> None:
        span_ms("detection_ms", self.detection_ms)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scenario but for its network and its traffic."""

    stack: StackSpec
    name: str = "scenario"
    seed: int = 0
    duration_ms: float = 10_000.0
    drain_ms: float = 30_000.0  # how long to wait, at most, for what is under way at the end
    faults: tuple[Fault, ...] = ()
    random_faults: RandomFaults = RandomFaults()
    clocks: Clocks = Clocks()
    readers: tuple[Reader, ...] = ()
    membership: Membership = Membership()
    wire: Literal["sized", "reference", "codec"] = "sized"  # count bytes; or do not; or encode and decode, too
    trace: Literal["events", "wire", "none"] = "events"  # wire: every send and receive, too


class Scenario(Settings, frozen=True, kw_only=True):
    """Topology, stack, workload, faults, seed and duration."""

    topology: Topology
    workloads: tuple[Workload, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.name) <= NAME_MAX or "/" in self.name or not self.name.isprintable():
            raise Invalid("name", show(self.name), f"a name for a folder: no slash, at most {NAME_MAX} letters")
        span_ms("duration_ms", self.duration_ms, SHORTEST_MS)
        span_ms("drain_ms", self.drain_ms)
        if not self.workloads:
            raise Invalid("workloads", "nothing", "at least one workload")
        for index, workload in enumerate(self.workloads):
            with_prefix(f"workloads[{index}]", partial(self.check_workload, workload))
        for index, fault in enumerate(self.faults):
            with_prefix(f"faults[{index}]", partial(self.check_fault, fault))
        for index, reader in enumerate(self.readers):
            with_prefix(f"readers[{index}]", partial(named_sites, self.topology, reader.sites, "sites"))
        if self.stack.sequencer is not None:
            with_prefix("stack.sequencer", lambda: self.topology.site_id(self.stack.sequencer or ""))
        with_prefix("stack.hybrid", lambda: self.stack.hybrid.of(self.stack.name, self.topology))
        if self.stack.transport == "direct":
            self.check_direct()

    def check_workload(self, workload: Workload) -> None:
        workload.senders(self.topology)
        if not isinstance(workload.to, str | int):
            named_sites(self.topology, workload.to, "to")
        if isinstance(workload.to, int) and workload.to > len(self.topology.sites):
            raise Invalid("to", repr(workload.to), f"at most the {len(self.topology.sites)} sites of the topology")

    def check_fault(self, fault: Fault) -> None:
        fault.check_names(self.topology)
        if fault.at_ms > self.duration_ms:
            raise Invalid("at_ms", repr(fault.at_ms), f"a time within the scenario's {self.duration_ms:g} ms")

    def check_direct(self) -> None:
        """A direct transport stands on channels that lose nothing, and reorder only where the stack bears it."""
        right = "reliable, where channels lose, repeat or reorder"
        reorders = STACKS[self.stack.name].reorders
        sites = range(len(self.topology.sites))
        for a in sites:
            for b in sites:
                for channel in self.topology.channels(SiteId(a), SiteId(b)):
                    if channel.loss or channel.duplicate or not (channel.fifo or reorders):
                        raise Invalid("stack.transport", "'direct'", right)
        drawn = self.random_faults
        if drawn.partitions or drawn.losses or any(isinstance(f, Partition | Heal | Loss) for f in self.faults):
            raise Invalid("stack.transport", "'direct'", right)

    def random(self, *purpose: object) -> Random:
        """A random source of its own for each purpose; text seeds do not depend on the hash seed."""
        return Random("/".join(map(str, (self.seed, *purpose))))

    def faults_of_run(self) -> list[Fault]:
        """The given faults and the drawn ones, in order of time."""
        drawn = self.random_faults.draw(self.topology, self.random("faults"), self.duration_ms)
        return sorted([*self.faults, *drawn], key=lambda fault: fault.at_ms)

    def stack_options(self) -> StackOptions:
        spec = self.stack
        sequencer = None if spec.sequencer is None else self.topology.site_id(spec.sequencer)
        direct = spec.transport == "direct"
        hybrid = spec.hybrid.of(spec.name, self.topology)
        return StackOptions(direct, sequencer, spec.batch_ms, spec.credit, spec.reliable, spec.optimistic, hybrid)

    def has_crashes(self) -> bool:
        return any(isinstance(fault, Crash | Recover) for fault in self.faults_of_run())


def with_prefix(prefix: str, check: Callable[[], object]) -> None:
    """Run a check; what it refuses is named with the prefix of its key."""
    try:
        check()
    except Invalid as error:
        raise Invalid(join(prefix, error.key), error.found, error.expected) from None
