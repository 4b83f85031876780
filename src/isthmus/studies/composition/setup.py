"""The runs of the study `composition`: groups and routers, networks, load, and the grid (docs/design/studies.md).

A message takes 200 us of its sender's CPU, 80 us of the wire, 5 us of propagation and 300 us of each receiver's CPU; a
hop of the token takes 1 ms; a router has one CPU per interface. Each member submits a batch when its last one has
passed, the worst time on a ring. Messages to other groups go half to all, half to one, by plain forwarding.

Parts of the grid: *size*, latency over members, for shares of messages between groups and two batches; *throughput*,
batches of 1 to 30 in one, two and four groups; *packing*, several messages in one frame of a router; *priorities*, the
token visits routers twice in a rotation; *lan*, two groups on one LAN; *wan*, routers 30 ms apart, with a ring and with
a causal multicast between them; *stacks*, other orders inside groups, with an open load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from isthmus.protocols.routing.calculus.model import Composition, Igp, OrderingDomain, ProcessGroup, RouterSpec
from isthmus.protocols.routing.options import RouterOptions
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.protocols.total.token_site import BATCH_MAX
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.scenario.composition.nodes import nodes_as_groups
from isthmus.scenario.costs import CostSpec
from isthmus.scenario.model import GroupSpec, Scenario, StackSpec
from isthmus.scenario.packets import NetworkSpec
from isthmus.scenario.workload import Closed, Poisson, Workload
from isthmus.studies.composition.claims import series_of
from isthmus.studies.model import Cell, Parameters, Scale
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Topology, WanLink
from isthmus.topology.shapes import of_named_sites

Between = Literal["link", "ring", "causal"]  # what joins the routers

PROPAGATION_MS = 0.005
ROUNDS, WARM_UP = 14, 4  # batches of each member; those not counted
DURATION_MS = 600_000.0  # far beyond the last batch
PAYLOAD_BYTES = 1
FLOW = 1_000_000  # a window never filled, so that flow control sends nothing
STACK_BETWEEN = {"link": "fifo", "ring": "ring", "causal": "causal-vector"}
SIZES: dict[Scale, dict[int, tuple[int, ...]]] = {  # members, by batch
    "quick": {10: (12, 36), 30: (12,)},
    "full": {10: (4, 12, 20, 28, 36), 30: (4, 12, 20, 28, 36)},
}
SHARES = (0.0, 0.1, 0.2, 0.5, 1.0)
QUICK_SHARES = {(12, 10): (0.2, 0.5, 1.0), (12, 30): (0.2, 0.5), (36, 10): (0.2, 0.5)}  # by members and batch
BATCHES: dict[Scale, tuple[int, ...]] = {"quick": (1, 5), "full": (1, 2, 5, 10, 15, 20, 25, 30)}
PACKS: dict[Scale, tuple[int, ...]] = {"quick": (8,), "full": (2, 4, 8, 16)}
THROUGHPUT_MEMBERS, THROUGHPUT_SHARE = 36, 0.1
WAN_MS, WAN_SHARE = 30.0, 0.1
STACKS_SHARE = 0.2
OPEN_MS: dict[Scale, float] = {"quick": 800.0, "full": 3_000.0}  # of an open load
LOADS: dict[str, dict[int, float]] = {  # messages per second, near the limit of one group of 12 or 36
    "ring": {12: 1500.0, 36: 1500.0},
    "token-site": {12: 1500.0, 36: 1500.0},
    "symmetric": {12: 80.0, 36: 25.0},
}
MEMBERS: dict[Scale, tuple[int, ...]] = {"quick": (12,), "full": (12, 36)}  # of the parts that vary something else
TIMES: dict[Scale, tuple[int, int]] = {"quick": (6, 2), "full": (ROUNDS, WARM_UP)}  # batches; those not counted


def stack_spec(name: str, batch: int = BATCH_MAX) -> StackSpec:
    """A stack over the direct transport; the holder of the token of a ring sends all it has, as routers must."""
    ring = RingOptions(batch=batch) if name == "ring" else RingOptions()
    return StackSpec(name=name, transport="direct", credit=CreditOptions(window=FLOW, queue_max=FLOW), ring=ring)


def names_of(groups: int, members: int) -> list[list[str]]:
    return [[f"g{group}-{place}" for place in range(members // groups)] for group in range(groups)]


def composition_of(groups: int, members: int, inside: str, between: Between, first: bool = False) -> Composition:
    """Groups of equal size below one protocol that joins their routers."""
    kept: Literal["causal", "fifo-total"] = "causal" if between == "causal" else "fifo-total"
    igp = Igp("core", "fifo", "link") if between == "link" else Igp("core", kept, "group", STACK_BETWEEN[between])
    names = names_of(groups, members)
    everyone = tuple(f"g{number}" for number in range(groups))
    return Composition(
        name=f"{groups}-groups",
        groups=tuple(ProcessGroup(f"g{number}", tuple(own), "fifo-total", inside) for number, own in enumerate(names)),
        routers=tuple(RouterSpec(f"r{number}", (f"g{number}", "core")) for number in range(groups)),
        domains=(OrderingDomain("all", everyone, "fifo", "inter" if first else "all", prioritised=first),),
        igps=(igp,),
    )


def network_of(groups: int, members: int, wan_ms: float) -> Topology:
    lan, wan = Channel(Constant(PROPAGATION_MS)), Channel(Constant(wan_ms))
    routers = [[f"r{number}"] if groups > 1 else [] for number in range(groups)]
    sites = [[*own, *router] for own, router in zip(names_of(groups, members), routers, strict=True)]
    clusters = [(f"lan-{number}", own, lan) for number, own in enumerate(sites)]
    links = [WanLink(a, b, wan, wan) for b in range(groups) for a in range(b)]
    return of_named_sites(f"{groups}-groups-of-{members // groups}", clusters, links)


def composed(
    groups: int, members: int, batch: int, inter: float, seed: int,
    *, charged: bool = False, shared: bool = False, rounds: int = ROUNDS, **more: Any,
) -> Scenario:  # fmt: skip
    """One run; with one group, the single group of the same members.

    `charged`: control messages take time like any other. `shared`: groups are on one LAN in pairs.
    """
    lans = tuple((f"g{at}", f"g{at + 1}") for at in range(0, groups, 2)) if shared else ()
    load: dict[str, Any] = {"burst_count": batch, "rounds": rounds, "payload_bytes": PAYLOAD_BYTES}
    names = [""] if groups == 1 else [f"g{number}" for number in range(groups)]
    loads = tuple(Closed(group=name, inter_share=inter, **load) if name else Closed(**load) for name in names)
    costs = CostSpec(control_free=not charged, lans=lans)
    return joined(groups, members, seed, loads, costs, DURATION_MS, batch=batch, **more)


def loaded(
    groups: int, members: int, rate_per_s: float, inter: float, seed: int, inside: str, duration_ms: float
) -> Scenario:
    """One run with an open load, so that stacks other than the ring can be compared.

    Control messages take time like any other, because these stacks differ in them.
    """
    shares: list[tuple[str | tuple[str, ...], float]] = [((), 1.0)]
    if groups > 1:
        shares = [((), 1 - inter), ("all", inter / 2), ("other", inter / 2)]
    loads = tuple(
        Poisson(
            group=f"g{number}" if groups > 1 else "",
            to_groups=to,
            rate_per_s=rate_per_s * share / members,
            payload_bytes=PAYLOAD_BYTES,
        )
        for number in range(groups)
        for to, share in shares
    )
    return joined(groups, members, seed, loads, CostSpec(), duration_ms, inside=inside)


def joined(
    groups: int, members: int, seed: int, loads: tuple[Workload, ...], costs: CostSpec, duration_ms: float,
    *, inside: str = "ring", between: Between | None = None, wan_ms: float = PROPAGATION_MS, pack: int = 1,
    first: bool = False, batch: int = BATCH_MAX,
) -> Scenario:  # fmt: skip
    """Groups with their routers, or one group alone, under a load.

    `first`: messages between groups go first, as the token visits routers twice in a rotation.
    """
    common: dict[str, Any] = {
        "name": "composition",
        "seed": seed,
        "duration_ms": duration_ms,
        "network": NetworkSpec(costs=costs),
        "wire": "reference",
        "topology": network_of(groups, members, wan_ms),
        "stack": stack_spec(inside, batch if groups == 1 else BATCH_MAX),
        "workloads": loads,
    }
    if groups == 1:
        return Scenario(**common)
    chosen: Between = between or ("link" if groups == 2 else "ring")
    composition = composition_of(groups, members, inside, chosen, first)
    stacks = {f"g{number}": inside for number in range(groups)} | {"core": STACK_BETWEEN[chosen]}
    given = tuple(GroupSpec(name=name, stack=stack_spec(stack)) for name, stack in stacks.items())
    router = RouterOptions(pack_max=pack, window=FLOW, queue_max=FLOW)
    return Scenario(composition=composition, groups=nodes_as_groups(composition, given), router=router, **common)


def grid(scale: Scale, seeds: Sequence[int]) -> list[Cell]:
    """All parts; only the mix of messages to own and other groups is random."""
    rounds, warm_up = TIMES[scale]
    cells: list[Cell] = []

    def add(part: str, groups: int, members: int, batch: int, inter: float, variant: str = "", **more: Any) -> None:
        for seed in seeds:
            if part == "stacks":
                load = LOADS[variant][members]
                made = loaded(groups, members, load, inter, seed, variant, OPEN_MS[scale])
            else:
                made = composed(groups, members, batch, inter, seed, rounds=rounds, **more)
            parameters: Parameters = {
                "part": part,
                "series": series_of(groups, inter, variant),
                "groups": groups,
                "members": members,
                "batch": batch,
                "inter": inter,
                "variant": variant,
                "rounds": 0 if part == "stacks" else rounds,
                "warm_up": 0 if part == "stacks" else warm_up,
                "seed": seed,
            }
            cells.append(Cell(parameters, made))

    for batch, sizes in SIZES[scale].items():
        for members in sizes:
            add("size", 1, members, batch, 0.0)
            for inter in SHARES if scale == "full" else QUICK_SHARES[members, batch]:
                add("size", 4, members, batch, inter)
    for batch in BATCHES[scale]:
        for groups in (1, 2, 4):
            add("throughput", groups, THROUGHPUT_MEMBERS, batch, THROUGHPUT_SHARE if groups > 1 else 0.0)
    for members in MEMBERS[scale]:
        for pack in PACKS[scale]:
            add("packing", 4, members, 10, 1.0, f"{pack} a frame", pack=pack)
        add("lan", 4, members, 10, 0.2, "two groups on a LAN", shared=True)
    add("priorities", 4, 36, 10, 0.5, "routers twice", first=True)
    for kind in ("ring", "causal") if scale == "full" else ():  # a rotation outlasts the few batches of quick runs
        add("wan", 4, 36, 10, WAN_SHARE, kind, wan_ms=WAN_MS, between=kind)
    for inside in LOADS:
        for members in MEMBERS[scale]:
            for groups in (1, 4):
                add("stacks", groups, members, 1, STACKS_SHARE, inside)
    return cells


def networks() -> tuple[Topology, ...]:
    return (network_of(4, 12, PROPAGATION_MS),)
