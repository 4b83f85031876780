"""The network of a scenario: delays between sites, or packets over links with a rate and a queue.

By default the delay of a packet is drawn from its channels, independently of other traffic (sim/network/delays.py).
Over the packet network (sim/packets/) a packet passes link by link and waits in the queue of each: its delay then
depends on the bottleneck link and on the traffic that shares it.
"""

from __future__ import annotations

from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Literal

import msgspec

from isthmus.core.validation import COUNT_MAX, DURATION_MAX_MS, BadValue, check_range, given_keys, show, with_prefix
from isthmus.scenario.costs import CostSpec
from isthmus.scenario.faults import Crash, DelayShift, Heal, Loss, Partition, Relink
from isthmus.scenario.workload import Reply
from isthmus.stacks.registry import STACKS

if TYPE_CHECKING:
    from isthmus.scenario.model import Scenario

FLOWS_MAX = 100_000
FRAGMENT_MAX = 8_000_000  # bytes; 23 bits with the header
RATE_MAX_PER_S = 1e6


class Background(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Background load on the links: Poisson flows between pairs of sites drawn at random."""

    flows: int
    rate_per_s: float  # packets of each flow
    packet_bytes: int = 1000  # without the header

    def __post_init__(self) -> None:
        check_range("flows", self.flows, 1, FLOWS_MAX, "a whole number")
        check_range("rate_per_s", self.rate_per_s, 1e-6, RATE_MAX_PER_S)
        check_range("packet_bytes", self.packet_bytes, 0, FRAGMENT_MAX, "a whole number")


class NetworkSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The network that carries the packets of a run."""

    kind: Literal["delays", "packets"] = "delays"
    costs: CostSpec | None = None  # costs of hosts and LANs, with delays; an empty table enables them; None: no costs
    # Packet network only:
    graph: Literal["topology", "random"] = "topology"  # the links of the topology; or G(n, p), drawn from the seed
    mean_degree: float | None = None  # of the random graph: n p
    propagation_ms: tuple[float, float] = (0.0, 1.0)  # of its links, uniform
    bandwidth_mbps: float = 10.0  # of random links, and of topology links without a bandwidth of their own
    fragment_bytes: int = 1468  # a larger message is fragmented; each fragment has its own header
    multicast: Literal["tree", "unicast"] = "tree"  # one copy per branch of a tree, or one packet per target
    control_bytes: int | None = None  # size counted per message beside header and payload; None: the encoded size
    background: Background | None = None
    engine: Literal["auto", "python", "compiled"] = "auto"  # same results; auto: compiled if numba is installed
    endpoints: Literal["layers", "compiled", "auto"] = "layers"  # compiled: some stacks; auto: if numba is there
    hops: bool = False  # also trace every hop
    queue_max: int | None = None  # packets per link; further ones are dropped; None: unbounded (plain engine)

    def __post_init__(self) -> None:
        if self.kind != "packets":
            for name in given_keys(self):
                if name not in ("kind", "costs"):
                    raise BadValue(name, show(getattr(self, name)), "nothing, unless kind is packets")
            return
        if self.costs is not None:
            raise BadValue("costs", "a table", "nothing, unless kind is delays")
        if (self.mean_degree is None) == (self.graph == "random"):
            expected = "how many links a node has on average" if self.graph == "random" else "nothing: links are given"
            raise BadValue("mean_degree", show(self.mean_degree), expected)
        if self.mean_degree is not None:
            check_range("mean_degree", self.mean_degree, 1, COUNT_MAX)
        if not (isfinite(self.bandwidth_mbps) and 1e-3 <= self.bandwidth_mbps <= 1e6):
            raise BadValue("bandwidth_mbps", repr(self.bandwidth_mbps), "a number from 0.001 to 1000000")
        low, high = self.propagation_ms
        if not 0 <= low <= high <= DURATION_MAX_MS:
            raise BadValue("propagation_ms", show(self.propagation_ms), "two times, the lower one first")
        check_range("fragment_bytes", self.fragment_bytes, 1, FRAGMENT_MAX, "a whole number")
        if self.control_bytes is not None:
            check_range("control_bytes", self.control_bytes, 0, COUNT_MAX, "a whole number")
        if self.queue_max is not None:
            check_range("queue_max", self.queue_max, 1, COUNT_MAX, "a whole number")
            if self.engine == "compiled" or self.endpoints != "layers":
                raise BadValue("queue_max", show(self.queue_max), "nothing, where engine or end points are compiled")
        if self.endpoints != "layers":
            self.check_compiled()

    def check_compiled(self) -> None:
        """Reject options that compiled end points do not support: encoded sizes, the plain engine and traced hops."""
        if self.control_bytes is None:
            raise BadValue("control_bytes", "nothing", "a number of bytes, where end points are compiled")
        if self.engine == "python":
            raise BadValue("engine", "'python'", "auto or compiled, where end points are compiled")
        if self.hops:
            raise BadValue("hops", "true", "false, where end points are compiled")


def check_network(scenario: Scenario) -> None:
    """Reject what a packet network does not support: link faults, and the limits of compiled end points."""
    spec, drawn = scenario.network, scenario.random_faults
    if spec.costs is not None:
        names = [group.name for group in scenario.groups]
        with_prefix("network.costs", partial(spec.costs.lans_of, names))
    if spec.kind != "packets":
        return
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Partition | Heal | Loss | DelayShift | Relink):
            found = repr(type(fault).__name__.lower())
            raise BadValue(f"faults[{index}].kind", found, "a fault of a site: the links of a packet network have none")
    for key in ("partitions", "losses", "delay_shifts"):
        if getattr(drawn, key):
            raise BadValue(
                f"random_faults.{key}", show(getattr(drawn, key)), "0: links of a packet network do not fail"
            )
    if scenario.clocks.service is not None:
        raise BadValue("clocks.service", "a clock service", "none on a packet network, which has no LAN broadcasts")
    if spec.endpoints != "layers":
        check_twins(scenario)


def check_twins(scenario: Scenario) -> None:
    """Reject what compiled end points lack: they support two stacks, one static group, and messages to all."""
    twins = [name for name, stack in STACKS.items() if stack.twin]
    stack, spec = scenario.stack, scenario.network
    wanted = "tree" if STACKS[stack.name].twin == "vector" else "unicast"
    ends_ms = scenario.duration_ms + scenario.drain_ms
    expectations: list[tuple[str, object, bool, str]] = [
        ("stack.name", stack.name, stack.name in twins, f"{' or '.join(twins)}"),
        ("stack.transport", stack.transport, stack.transport == "direct", "direct"),
        ("network.multicast", spec.multicast, spec.multicast == wanted, wanted),
        ("groups", scenario.groups, not scenario.groups, "nothing: one group"),
        ("participants", scenario.participants, not scenario.participants, "nothing"),
        ("readers", scenario.readers, not scenario.readers, "nothing"),
        ("trace", scenario.trace, scenario.trace != "wire", "events or none"),
        ("payloads", scenario.payloads, scenario.payloads == "same", "same"),
        ("turn_ms", scenario.turn_ms, not scenario.turn_ms, "0"),
        ("membership.kind", scenario.membership.kind, scenario.membership.kind != "agreed", "ideal"),
        ("membership.absent", scenario.membership.absent, not scenario.membership.absent, "nobody"),
    ]
    if scenario.faults or scenario.random_faults.crashes:
        late = scenario.membership.detection_ms >= ends_ms
        expected = f"at least {ends_ms:g}, when the run is over"
        expectations.append(("membership.detection_ms", scenario.membership.detection_ms, late, expected))
        crashes = all(isinstance(fault, Crash) for fault in scenario.faults) and not scenario.random_faults.recover
        expectations.append(("faults", "other faults", crashes, "crashes alone"))
    for index, workload in enumerate(scenario.workloads):
        plain = workload.to == "all" and not isinstance(workload, Reply)
        expectations.append((f"workloads[{index}]", "replies, or some addressees", plain, "messages to all"))
    for key, found, right, expected in expectations:
        if not right:
            raise BadValue(key, show(found), f"{expected}, where end points are compiled")
