"""The packet network: its arithmetic by hand, both engines against each other, ways, sizes, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.core.errors import InputError
from isthmus.core.validation import BadValue
from isthmus.scenario.faults import Crash, Loss
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.packets import Background, NetworkSpec
from isthmus.scenario.workload import Burst, Poisson
from isthmus.sim.packets import compiled
from isthmus.sim.packets.network import PacketNetwork
from isthmus.sim.packets.plain import CompletedMessage, Engine, PlainEngine
from isthmus.sim.packets.twin import CompiledRun
from isthmus.sim.packets.ways import NOBODY, Ways, fragment_sizes
from isthmus.sim.run import SimRun
from isthmus.sim.simulate import make_run
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.topology.wiring import DuplexLink, Wiring, random_wiring
from isthmus.trace.schema import GAUGE, KIND, TIME_NS, Gauge, Row

LINE = Wiring(3, [DuplexLink(0, 1, 100, 1000), DuplexLink(1, 2, 50, 2000)])  # 1 ns per byte, then 2
END_NS = 1 << 60


def both(ways: Ways, hops: bool = False) -> list[Engine]:
    pytest.importorskip("numba")
    return [PlainEngine(ways, hops), compiled.CompiledEngine(ways, hops)]


def arrivals(engine: Engine) -> list[CompletedMessage]:
    found = []
    while engine.next_ns() is not None:
        arrival = engine.advance(END_NS)
        if arrival is not None:
            found.append(arrival)
    return found


# Arithmetic


def test_a_packet_leaves_when_its_link_is_free_and_arrives_a_propagation_later() -> None:
    ways = Ways(LINE)
    for engine in both(ways):
        engine.start(0, ways.path(0, 2), 1, (10,))
        engine.start(0, ways.path(0, 2), 2, (10,))
        engine.start(5, ways.path(0, 1), 3, (4,))
        # Link 0: gone at 10, 20, 24; at node 1 at 110, 120, 124. Link 2: gone at 130 and 150; at node 2 at 180, 200.
        assert engine.next_ns() == 110
        assert arrivals(engine) == [
            CompletedMessage(124, 1, 3),
            CompletedMessage(180, 2, 1),
            CompletedMessage(200, 2, 2),
        ]
        assert engine.hop_count == 5 and engine.last_ns == 200
        assert engine.load_max == 3
        assert engine.load_ns == 110 + 120 + (124 - 5) + (180 - 110) + (200 - 120)


def test_a_full_queue_drops_the_last_packet_and_what_follows_of_its_message() -> None:
    ways = Ways(LINE)
    engine = PlainEngine(ways, queue_max=3)
    engine.start(0, ways.path(0, 2), 1, (10, 10))
    engine.start(0, ways.path(0, 2), 2, (10, 10, 10))  # its second packet finds three, its third goes with it
    assert engine.advance(200) is None
    engine.start(200, ways.path(0, 2), 3, (10,))
    assert [arrival.message for arrival in arrivals(engine)] == [1, 3]
    assert engine.load_max == 3 and engine.dropped_count == 2
    assert engine.take_drops() == [(2, ways.path(0, 2)[0])] and engine.take_drops() == []
    assert ways.ends_below(ways.path(0, 2)[0]) == [2]


def test_only_the_last_fragment_completes_a_message() -> None:
    ways = Ways(LINE)
    for engine in both(ways):
        engine.start(0, ways.path(0, 1), 9, (10, 10, 3))
        assert arrivals(engine) == [CompletedMessage(123, 1, 9)] and engine.hop_count == 3


def test_hops_stop_at_a_limit_and_at_every_arrival() -> None:
    ways = Ways(LINE)
    for engine in both(ways):
        engine.start(0, ways.path(0, 2), 1, (10,))
        assert engine.advance(110) is None and engine.hop_count == 0
        assert engine.advance(111) is None and engine.hop_count == 1
        assert engine.advance(END_NS) == CompletedMessage(180, 2, 1)
        assert engine.next_ns() is None


def test_what_arrives_at_one_time_does_so_in_the_order_of_entry() -> None:
    star = Wiring(4, [DuplexLink(0, 3, 10, 1000), DuplexLink(1, 3, 10, 1000), DuplexLink(2, 3, 10, 1000)])
    ways = Ways(star)
    for engine in both(ways):
        for message, source in enumerate((2, 0, 1)):
            engine.start(0, ways.path(source, 3), message, (10,))
        assert [arrival.message for arrival in arrivals(engine)] == [0, 1, 2]


@given(st.integers(2, 25), st.integers(0, 1000), st.integers(1, 60))
@settings(deadline=None, max_examples=15)
def test_both_engines_agree_and_little_counts_what_is_on_links(nodes: int, seed: int, sends: int) -> None:
    random = Random(seed)
    ways = Ways(random_wiring(nodes, min(4.0, nodes), 10.0, (0.0, 0.01), random))
    plain, fast = both(ways, hops=True)
    found: list[list[CompletedMessage]] = [[], []]
    now = 0
    for message in range(sends):
        now += random.choice((0, 0, 1, 50_000))
        for engine, seen in zip((plain, fast), found, strict=True):
            while (arrival := engine.advance(now)) is not None:
                seen.append(arrival)
        source, *targets = random.sample(range(nodes), random.randint(2, nodes))
        roots = ways.tree(source, sorted(targets)) if len(targets) > 1 else ways.path(source, targets[0])
        assert roots is not None
        sizes = [*[random.randint(1, 1500)] * random.randint(0, 2), random.randint(1, 1500)]
        for engine in (plain, fast):
            engine.start(now, roots, message, sizes)
    for engine, seen in zip((plain, fast), found, strict=True):
        seen += arrivals(engine)
    assert found[0] == found[1]
    assert plain.take_hops() == fast.take_hops()
    for name in ("hop_count", "load_ns", "load_max", "last_ns"):
        assert getattr(plain, name) == getattr(fast, name)


# Ways


@given(st.integers(2, 30), st.integers(0, 1000))
@settings(deadline=None)
def test_a_tree_reaches_each_target_once_by_the_reversed_route(nodes: int, seed: int) -> None:
    random = Random(seed)
    wiring = random_wiring(nodes, min(4.0, nodes), 10.0, (0.0, 1.0), random)
    source, *targets = random.sample(range(nodes), random.randint(2, nodes))
    ways = Ways(wiring)
    roots = ways.tree(source, targets)
    assert roots is not None
    reached: dict[int, list[int]] = {}
    waiting = [(step, [ways.link[step]]) for step in range(roots[0], sum(roots))]
    for step, way in waiting:
        if ways.deliver_to[step] != NOBODY:
            assert ways.deliver_to[step] == wiring.heads[ways.link[step]] not in reached
            reached[ways.deliver_to[step]] = way
        first = ways.first_branch[step]
        waiting += [(branch, [*way, ways.link[branch]]) for branch in range(first, first + ways.branch_count[step])]
    assert sorted(reached) == sorted(targets)
    for target, way in reached.items():
        assert way == [link ^ 1 for link in reversed(wiring.path(target, source))]


def test_a_message_is_cut_into_full_fragments_and_a_rest() -> None:
    assert fragment_sizes(0, 32, 1468) == (32,)
    assert fragment_sizes(1468, 32, 1468) == (1500,)
    assert fragment_sizes(1600, 32, 1468) == (1500, 164)
    assert fragment_sizes(2936, 32, 1468) == (1500, 1500)


# As a network


def scenario(network: NetworkSpec | None = None, **more: object) -> Scenario:
    channel = Channel(Constant(2.0), bandwidth_mbps=10.0)
    given: dict[str, object] = {
        "topology": mesh(3, 2, channel, channel),
        "stack": StackSpec(name="fifo"),
        "workloads": (Poisson(rate_per_s=50, payload_bytes=3000),),
        "duration_ms": 300.0,
        "network": network or NetworkSpec(kind="packets"),
    }
    return Scenario(**(given | more))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("multicast", ["tree", "unicast"])
def test_rows_of_hops_are_there_on_request_and_change_nothing(engine: str, multicast: str) -> None:
    pytest.importorskip("numba")
    spec = NetworkSpec(kind="packets", engine=engine, multicast=multicast)  # type: ignore[arg-type]
    plain: list[Row] = []
    traced: list[Row] = []
    SimRun(scenario(network=spec), plain).execute()
    run = SimRun(scenario(network=msgspec.structs.replace(spec, hops=True)), traced)
    run.execute()
    hops = [row for row in traced if row[KIND] == 16 and row[GAUGE] == Gauge.LINK_QUEUE]
    assert len(hops) == run.figures()["hops"] > 0
    assert [row[TIME_NS] for row in hops] == sorted(row[TIME_NS] for row in hops)
    other = [(*row[:2], *row[3:]) for row in traced if row[GAUGE] != Gauge.LINK_QUEUE]
    assert other == [(*row[:2], *row[3:]) for row in plain]


def test_a_tree_carries_a_multicast_over_each_link_once() -> None:
    """Six sites in three LANs: the tree has five links, unicasts pass eleven."""
    counts = {}
    for multicast in ("tree", "unicast"):
        spec = NetworkSpec(kind="packets", multicast=multicast, control_bytes=4)  # type: ignore[arg-type]
        stack = StackSpec(name="unordered", transport="direct")
        burst = Burst(period_ms=1.0, burst_count=1, count=1, sites=("c0-1",), payload_bytes=10)
        run = SimRun(scenario(network=spec, stack=stack, workloads=(burst,)))
        run.execute()
        figures = run.figures()
        assert figures["sends"] == figures["fragments"] == 5 and figures["arc_bytes"] == 5 * 46
        counts[multicast] = figures["hops"]
    assert counts == {"tree": 5, "unicast": 11}


def test_background_loads_the_links_and_reaches_nobody() -> None:
    quiet = SimRun(scenario())
    quiet.execute()
    spec = NetworkSpec(kind="packets", background=Background(flows=30, rate_per_s=300))
    busy = SimRun(scenario(network=spec))
    busy.execute()
    assert busy.summary.delivered.count == quiet.summary.delivered.count
    assert busy.figures()["hops"] > quiet.figures()["hops"] + 1000
    assert busy.figures()["delay_mean_ms"] > quiet.figures()["delay_mean_ms"]


def test_a_view_waits_for_what_is_under_way() -> None:
    crash = Crash(at_ms=100.0, site="c1-0")
    run = SimRun(scenario(faults=(crash,), membership=Membership(detection_ms=50.0)))
    summary = run.execute()
    assert run.last_view() == 2 and summary.undelivered_count() == 0
    assert isinstance(run.network, PacketNetwork) and not run.network.waiters


# Refusals


@pytest.mark.parametrize(
    ("network", "key"),
    [
        ({"kind": "delays", "hops": True}, "hops"),
        ({"graph": "random"}, "mean_degree"),
        ({"mean_degree": 3.0}, "mean_degree"),
        ({"bandwidth_mbps": 0.0}, "bandwidth_mbps"),
        ({"propagation_ms": (2.0, 1.0)}, "propagation_ms"),
        ({"fragment_bytes": 0}, "fragment_bytes"),
        ({"fragment_bytes": 1 << 24}, "fragment_bytes"),
        ({"endpoints": "compiled"}, "control_bytes"),
        ({"endpoints": "compiled", "control_bytes": 4, "engine": "python"}, "engine"),
        ({"endpoints": "compiled", "control_bytes": 4, "hops": True}, "hops"),
    ],
)
def test_a_network_that_makes_no_sense_is_refused(network: dict[str, object], key: str) -> None:
    with pytest.raises(BadValue) as refused:
        NetworkSpec(**({"kind": "packets"} | network))  # type: ignore[arg-type]
    assert refused.value.key == key


def test_links_of_a_packet_network_do_not_fail() -> None:
    with pytest.raises(BadValue, match="fault of a site"):
        scenario(faults=(Loss(at_ms=1.0, until_ms=2.0, probability=0.5),))


TWIN = NetworkSpec(kind="packets", control_bytes=4, endpoints="compiled")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"stack": StackSpec(name="fifo")}, "stack.name"),
        ({"stack": StackSpec(name="causal-vector")}, "stack.transport"),
        ({"network": msgspec.structs.replace(TWIN, multicast="unicast")}, "network.multicast"),
        ({"trace": "wire"}, "trace"),
        ({"faults": (Crash(at_ms=1.0, site="c0-0"),)}, "membership.detection_ms"),
        ({"workloads": (Poisson(rate_per_s=1.0, to=2),)}, "workloads[0]"),
    ],
)
def test_compiled_end_points_refuse_what_they_do_not_do(changes: dict[str, object], key: str) -> None:
    given = {"stack": StackSpec(name="causal-vector", transport="direct"), "network": TWIN}
    with pytest.raises(BadValue) as refused:
        scenario(**(given | changes))  # type: ignore[arg-type]
    assert refused.value.key == key


def test_a_run_in_which_layers_would_send_more_than_their_twins_is_refused() -> None:
    pytest.importorskip("numba")
    stack = StackSpec(name="flooding", transport="direct")
    spec = msgspec.structs.replace(TWIN, multicast="unicast")
    with pytest.raises(InputError, match="ack_period_ms"):
        CompiledRun(scenario(stack=stack, network=spec))
    stack = StackSpec(name="causal-vector", transport="direct")
    busy = (Poisson(rate_per_s=5000, sites=("c0-0",)),)
    with pytest.raises(InputError, match="window"):
        CompiledRun(scenario(stack=stack, network=TWIN, workloads=busy))


# Without numba, and before it has compiled


def test_without_numba_the_plain_engine_does_the_same_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[list[Row]] = [[], []]
    SimRun(scenario(), rows[0]).execute()
    monkeypatch.setattr("isthmus.sim.packets.compiled.find_spec", lambda _name: None)
    compiled.say_that_it_is_slow.cache_clear()
    run = make_run(scenario(), rows[1])
    run.execute()
    assert isinstance(run, SimRun) and isinstance(run.network, PacketNetwork)
    assert isinstance(run.network.engine, PlainEngine)
    assert rows[0] == rows[1]
    assert "numba is not installed" in capsys.readouterr().err
    with pytest.raises(InputError, match=r"isthmus\[fast\]"):
        SimRun(scenario(network=NetworkSpec(kind="packets", engine="compiled")))
    auto = msgspec.structs.replace(TWIN, endpoints="auto")
    twin = make_run(scenario(stack=StackSpec(name="causal-vector", transport="direct"), network=auto))
    assert isinstance(twin, SimRun)


@pytest.mark.full
def test_the_first_run_says_what_it_compiles_and_the_second_does_not(tmp_path: object) -> None:
    """In processes of their own, with an empty cache; takes as long as compiling does."""
    pytest.importorskip("numba")
    program = (
        "from isthmus.sim.packets.compiled import CompiledEngine\n"
        "from isthmus.sim.packets.ways import Ways\n"
        "from isthmus.topology.wiring import Wire, Wiring\n"
        "ways = Ways(Wiring(2, [Wire(0, 1, 5, 1000)]))\n"
        "engine = CompiledEngine(ways)\n"
        "engine.start(0, ways.path(0, 1), 1, (10,))\n"
        "print(engine.advance(100))\n"
    )
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == "Arrival(time_ns=15, node=1, message=1)"
        told.append(done.stderr)
    assert "compiling the packet network" in told[0] and told[1] == ""
