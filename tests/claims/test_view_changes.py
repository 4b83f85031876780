"""What a change of view costs: four one-way delays from the suspicion, and so many packets."""

from __future__ import annotations

from collections import Counter

import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import GroupId, Message, SiteId, Targets
from isthmus.protocols.membership.couriers import Parcels
from isthmus.protocols.membership.wire import Accepted, Decide, Prepare, Promise, Propose
from isthmus.protocols.transport.relay import RelayOptions
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import Agreed, Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.network.delays import Stamp
from isthmus.sim.run import SimRun
from isthmus.sim.site import SimPort
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel, Cluster, Topology, TopologySite
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, PROCESS, TIME_NS, VALUE, Row

DELAY_MS = 50.0
LAN_MS = 0.2
CRASH_MS = 2_000.0


def crashed(sites: int, rate_per_s: float) -> tuple[list[Row], Counter[type[Message]]]:
    """A run in which the last of some sites crashes, and what the agreement sent until the new view was everywhere."""
    ids = tuple(SiteId(number) for number in range(sites))
    lan = Channel(Constant(DELAY_MS))
    topology = Topology("one", tuple(TopologySite(f"s{n}", 0) for n in ids), (Cluster("lan", ids, ids[0], lan),), ())
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site"),
        workloads=(Poisson(rate_per_s=rate_per_s),),
        faults=(Crash(at_ms=CRASH_MS, site=f"s{sites - 1}"),),
        duration_ms=4_000,
        membership=Membership(kind="agreed", agreed=Agreed(round_trip_ms=2 * DELAY_MS)),
    )
    rows: list[Row] = []
    run = SimRun(scenario, rows)
    counts: Counter[type[Message]] = Counter()
    send = run.network.send

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(run.network, name)

        def send(self, stamp: Stamp, group: GroupId, targets: Targets, message: Message, size_bytes: int) -> None:
            counts[type(message)] += len(targets)
            send(stamp, group, targets, message, size_bytes)

    for site in run.sites:
        for port in site.ports.values():
            port.network = Counting()  # type: ignore[assignment]
    run.execute()
    return rows, counts


@pytest.mark.parametrize(("sites", "packets"), [(5, 31), (15, 251)])
def test_packets_and_delays_of_a_view_change(sites: int, packets: int) -> None:
    rows, counts = crashed(sites, rate_per_s=0.001)
    kinds = (Prepare, Promise, Propose, Accepted, Decide)
    print({kind.__name__: counts[kind] for kind in kinds})
    n = sites
    assert {kind: counts[kind] for kind in kinds} == {
        Prepare: n - 1,
        Promise: n - 2,
        Propose: n - 1,
        Accepted: (n - 1) ** 2,
        Decide: n - 1,
    }
    assert sum(counts[kind] for kind in kinds) == packets
    suspected = min(row[TIME_NS] for row in rows if row[KIND] == Kind.SUSPECT)
    installed = [row[TIME_NS] for row in rows if row[KIND] == Kind.VIEW and row[VALUE] == 2]
    assert len(installed) == sites - 1
    first_ms, last_ms = (min(installed) - suspected) / 1e6, (max(installed) - suspected) / 1e6
    print(f"{sites} sites: installed {first_ms / DELAY_MS:.2f} to {last_ms / DELAY_MS:.2f} delays after suspicion")
    assert last_ms <= 4 * DELAY_MS + 1


@pytest.mark.parametrize("sites", [3, 5])
def test_datagrams_between_lans_with_agents_that_pack(sites: int) -> None:
    """Three LANs: L (L - 1) + 3 (L - 1) = 12 datagrams for 9 or 15 sites, which would be 71 and 179 one by one."""
    topology = mesh(3, sites, Channel(Constant(LAN_MS)), Channel(Constant(DELAY_MS)))
    scenario = Scenario(
        topology=topology,
        stack=StackSpec(name="token-site", relay=RelayOptions()),
        workloads=(Poisson(rate_per_s=0.001),),
        faults=(Crash(at_ms=CRASH_MS, site=topology.sites[-1].name),),
        duration_ms=4_000,
        membership=Membership(kind="agreed", agreed=Agreed(round_trip_ms=2 * DELAY_MS)),
    )
    rows: list[Row] = []
    crossed: Counter[type[Message]] = Counter()
    send, cluster = SimPort.send, [site.cluster for site in topology.sites]

    def counting(port: SimPort, targets: Targets, message: Message) -> None:
        crossed[type(message)] += sum(cluster[target] != cluster[port.site] for target in targets)
        send(port, targets, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimPort, "send", counting)
        SimRun(scenario, rows).execute()
    assert crossed[Parcels] == 12
    assert sum(crossed[kind] for kind in (Prepare, Promise, Propose, Accepted, Decide)) == 0
    suspected = min(row[TIME_NS] for row in rows if row[KIND] == Kind.SUSPECT and row[PROCESS] == 0)
    installed = [row[TIME_NS] for row in rows if row[KIND] == Kind.VIEW and row[VALUE] == 2]
    took = (max(installed) - suspected) / 1e6 / DELAY_MS
    print(f"{3 * sites} sites: {took:.2f} delays after the coordinator's suspicion")
    assert len(installed) == 3 * sites - 1 and took < 4.2
