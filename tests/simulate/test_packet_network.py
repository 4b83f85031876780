"""Stacks over the packet network: every stack keeps its promises, and compiled end points equal the layers.

The twins are held to the layers on the same seeds: every row of the trace, every receipt, every figure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import WatchedRun
from isthmus.judge.judgement import judge
from isthmus.protocols.application import Application
from isthmus.protocols.causal.flooding.flooding import FloodedMessage, Flooding
from isthmus.protocols.causal.vector import VectorOrder
from isthmus.protocols.transport.credit import Credit
from isthmus.protocols.transport.direct import Direct
from isthmus.scenario.faults import Crash
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.packets import Background, NetworkSpec
from isthmus.scenario.workload import Burst, Poisson, Reply
from isthmus.sim.packets.network import PacketNetwork
from isthmus.sim.packets.twin import CompiledRun
from isthmus.sim.run import SimRun
from isthmus.stacks.registry import STACKS
from isthmus.studies.overlay.setup import overlay_scenario, wired_topology
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, PROCESS, SENDER, TIME_NS, VALUE, Row

CHANNEL = Channel(Constant(1.0))
RELAYING = tuple(name for name, stack in STACKS.items() if stack.relays)


def small(stack: StackSpec, **more: Any) -> Scenario:
    """Nine sites on a random graph, whose messages need more than one fragment."""
    given: dict[str, Any] = {
        "topology": mesh(1, 9, CHANNEL, CHANNEL),
        "stack": stack,
        "workloads": (Poisson(rate_per_s=20, payload_bytes=2500), Reply(probability=0.2, payload_bytes=10)),
        "duration_ms": 400.0,
        "seed": 5,
        "network": NetworkSpec(kind="packets", graph="random", mean_degree=3.0, engine="python"),
    }
    return Scenario(**(given | more))


@pytest.mark.parametrize("name", [name for name in STACKS if name not in RELAYING])
def test_every_stack_keeps_its_promises_over_packets(name: str) -> None:
    rows: list[Row] = []
    given = small(StackSpec(name=name))
    run = SimRun(given, rows)
    assert run.execute().undelivered_count() == 0
    verdicts = judge(given, rows).verdicts
    assert verdicts and {verdict.status for verdict in verdicts} == {"valid"}, verdicts


@pytest.mark.parametrize("multicast", ["tree", "unicast"])
def test_a_reliable_stack_repairs_what_full_queues_drop(multicast: str) -> None:
    """Bursts over queues of a few packets; nothing is owed at the end, and nothing is waited for in vain."""
    given = small(StackSpec(name="fifo"))
    network = msgspec.structs.replace(given.network, queue_max=3, multicast=multicast)
    burst = Burst(period_ms=400.0, burst_count=12, payload_bytes=3_000)
    given = msgspec.structs.replace(given, network=network, workloads=(burst,), drain_ms=600_000.0)
    rows: list[Row] = []
    run = WatchedRun(given, rows)
    assert judge_run(run, rows).failures() == []
    assert isinstance(run.network, PacketNetwork) and run.network.dropped_count > 0 and not run.network.flights


@pytest.mark.parametrize("kind", ["ideal", "agreed"])
def test_members_crash_and_come_back_over_packets(kind: str) -> None:
    rows: list[Row] = []
    faults = (Crash(at_ms=100.0, site="c0-3"), Crash(at_ms=150.0, site="c0-0"))
    given = small(StackSpec(name="token-site"), faults=faults, membership=Membership(kind=kind), duration_ms=3000.0)  # type: ignore[arg-type]
    run = SimRun(given, rows)
    run.execute()
    assert run.last_view() >= 2
    assert {verdict.status for verdict in judge(given, rows).verdicts} == {"valid"}


def test_both_engines_write_the_same_trace() -> None:
    pytest.importorskip("numba")
    found = []
    for engine in ("python", "compiled"):
        rows: list[Row] = []
        given = small(StackSpec(name="hybrid"))
        spec = msgspec.structs.replace(given.network, engine=engine, background=Background(flows=9, rate_per_s=100))
        run = SimRun(msgspec.structs.replace(given, network=spec, trace="wire"), rows)
        run.execute()
        found.append((rows, run.figures(), run.scheduler.event_count))
    assert found[0] == found[1]


# Twins


@dataclass
class Outcome:
    """All that two runs are compared by."""

    rows: list[Row]
    figures: dict[str, float]
    counts: tuple[float, ...]
    receipts: list[tuple[int, int, int, int, int]]  # time, node, sender, number, from whom


def of_layers(given: Scenario, build: Callable[..., Any] | None = None) -> Outcome:
    rows: list[Row] = []
    network = msgspec.structs.replace(given.network, endpoints="layers", engine="python")
    traced = msgspec.structs.replace(given, network=network, trace="wire")
    run = SimRun(traced, rows, build)
    run.execute()
    kinds = (Kind.SEND, Kind.RECEIVE)
    receipts = [
        (row[TIME_NS], row[PROCESS], row[SENDER], row[NUMBER], row[VALUE]) for row in rows if row[KIND] == Kind.RECEIVE
    ]
    events = [(*row[:2], *row[3:]) for row in rows if row[KIND] not in kinds]
    return Outcome(events, run.figures(), counts_of(run), receipts)


def of_twin(given: Scenario) -> Outcome:
    rows: list[Row] = []
    network = msgspec.structs.replace(given.network, endpoints="compiled")
    run = CompiledRun(msgspec.structs.replace(given, network=network, trace="events"), rows, wires=True)
    run.execute()
    figures = run.figures()
    assert figures.pop("violations") == 0
    messages = run.schedule.messages
    receipts = [
        (time_ns, node, messages[message].node, messages[message].number, source)
        for time_ns, node, message, source in run.receipts
    ]
    return Outcome([(*row[:2], *row[3:]) for row in rows], figures, counts_of(run), receipts)


def counts_of(run: SimRun | CompiledRun) -> tuple[float, ...]:
    summary = run.summary
    return (
        *(summary.submitted_count, summary.undelivered_count(), summary.crash_count, summary.delivered.count),
        *(summary.delivered.mean(), summary.delivered.maximum, summary.per_message.mean()),
        *(run.network.packet_count, run.scheduler.now_ns, run.scheduler.event_count),
    )


def cases() -> dict[str, Scenario]:
    """Sizes that are powers of two and not, data of several fragments, overlays, ids, crashes and background."""
    found = {}
    for seed, nodes in ((1, 13), (2, 16), (3, 24), (4, 33)):
        for protocol in ("flooding", "vector"):
            data = (0, 100, 2000)[seed % 3]
            plain = overlay_scenario(protocol, nodes, data, seed, degree=4.0, bursts=3, burst=4)  # type: ignore[arg-type]
            found[f"{protocol}-{nodes}-{data}"] = plain
            dead = overlay_scenario(protocol, nodes, 10, seed, degree=4.0, bursts=2, burst=3, crashed=(3, 7))  # type: ignore[arg-type]
            late = (dead.faults[0], Crash(at_ms=1.0, site=dead.faults[1].site))  # type: ignore[union-attr]
            found[f"{protocol}-{nodes}-crashes"] = msgspec.structs.replace(dead, faults=late)
            loaded = msgspec.structs.replace(plain.network, background=Background(flows=20, rate_per_s=3000))
            found[f"{protocol}-{nodes}-background"] = msgspec.structs.replace(plain, network=loaded)
    for kind in ("incomplete", "clique", "ring", "random"):
        overlay = OverlaySpec(kind=kind)  # type: ignore[arg-type]
        found[f"flooding-{kind}"] = overlay_scenario(
            "flooding", 17, 50, 6, overlay=overlay, degree=4.0, bursts=2, burst=4
        )
    topology = wired_topology(100, 2)
    ids = OverlaySpec(ids="topology")
    found["flooding-near-ids"] = overlay_scenario(
        "flooding", 100, 50, 6, overlay=ids, bursts=1, burst=2, topology=topology
    )
    poisson = (Poisson(rate_per_s=2000, count=20, payload_bytes=40, sites=("c0-1", "c0-5", "c0-2")),)
    for protocol in ("flooding", "vector"):
        plain = overlay_scenario(protocol, 20, 0, 9, degree=4.0)  # type: ignore[arg-type]
        found[f"{protocol}-poisson"] = msgspec.structs.replace(plain, workloads=poisson, duration_ms=50.0)
    return found


CASES = cases()


@pytest.mark.parametrize("name", CASES)
def test_compiled_end_points_equal_the_layers_receipt_by_receipt(name: str) -> None:
    pytest.importorskip("numba")
    layers, twin = of_layers(CASES[name]), of_twin(CASES[name])
    assert len(layers.receipts) > 100
    assert twin.receipts == layers.receipts
    assert twin.rows == layers.rows
    assert twin.figures == layers.figures
    assert twin.counts == layers.counts


class Backwards(Flooding):
    """Forwards to the last neighbour first: what it delivers is right, and sometimes at another time."""

    __slots__ = ()

    def forward(self, source: SiteId, hop: FloodedMessage[Any]) -> None:
        self.below.submit(hop, tuple(reversed([site for site in self.near if site != source])))


class Hasty(VectorOrder):
    """Delivers whatever comes."""

    __slots__ = ()

    def missing(self, item: Any) -> int:
        return 0


def test_a_layer_that_differs_is_told_from_its_twin() -> None:
    """What the comparison is worth: a changed order of sends, and a missing wait, both show."""
    pytest.importorskip("numba")

    def backwards(host: Any, application: Application, options: Any) -> Any:
        return type_stack(host, application, options, Backwards(options.overlay, options.reliable))

    def hasty(host: Any, application: Application, options: Any) -> Any:
        return type_stack(host, application, options, Hasty())

    for name, build in (("flooding-24-0", backwards), ("vector-24-0", hasty)):
        layers, twin = of_layers(CASES[name], build), of_twin(CASES[name])
        assert twin.rows != layers.rows


def type_stack(host: Any, application: Application, options: Any, order: Any) -> Any:
    from isthmus.core.layer import Stack

    return Stack(host, application, Credit(options.credit), order, Direct())
