"""The network and the traffic of the causal studies: a ring of LANs, groups inside LANs and across two of them.

LAN k has `hosts` hosts and two dedicated gateways. Group G_k is all hosts of LAN k; group O_k is the second half of LAN
k and the first half of LAN k + 1. Each host sends 30 messages at 10 a second, Poisson: 80 % to its LAN, 20 % to the O
that it belongs to. Channels reorder: a LAN takes 1 ms and an exponential time of 0.3 ms, a WAN link 50 ms and 10 ms.
"""

from __future__ import annotations

from isthmus.protocols.causal.options import CausalPolicy
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson, Workload
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import lan_ring

LAN = Channel(Gamma(1.3, 0.3**2, 1.0), fifo=False)
WAN = Channel(Gamma(60.0, 10.0**2, 50.0), fifo=False)
RATE_PER_S, LOCAL, MESSAGES = 10.0, 0.8, 30
SENDING_MS = 1000 * MESSAGES / RATE_PER_S
WARM_UP = 0.4  # of the time of sending, before sizes are taken


def hosts_of(lan: int, lans: int, hosts: int) -> tuple[str, ...]:
    return tuple(f"c{lan % lans}-{number}" for number in range(hosts))


def group_traffic(lans: int, hosts: int) -> list[Workload]:
    """Messages to the groups of LANs, and to those across two LANs."""
    made: list[Workload] = []
    for lan in range(lans):
        inside = hosts_of(lan, lans, hosts)
        across = inside[hosts // 2 :] + hosts_of(lan + 1, lans, hosts)[: hosts // 2]
        for group, share in ((inside, LOCAL), (across, 1 - LOCAL)):
            made.append(Poisson(rate_per_s=share * RATE_PER_S, count=round(share * MESSAGES), sites=group, to=group))
    return made


def causal_scenario(lans: int, hosts: int, stack: str, policy: CausalPolicy, seed: int) -> Scenario:
    """Group traffic over a ring of LANs."""
    return Scenario(
        name="causal-separators",
        topology=lan_ring(lans, hosts, LAN, WAN),
        stack=StackSpec(name=stack, transport="direct", causal=policy),
        workloads=tuple(group_traffic(lans, hosts)),
        seed=seed,
        duration_ms=1.5 * SENDING_MS,
    )
