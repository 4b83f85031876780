"""Runs of a flood whose links come and go: a ring with chords, and a hypercube that grows and shrinks, with crashes.

Delays are drawn per packet and differ by far, so that what can overtake does. Besides the promises of the stack, no
message may be lost: what any process that is there at the end delivered, all must have that were there when it was
submitted.
"""

from __future__ import annotations

from random import Random

from isthmus.core.layer import Kind
from isthmus.core.message import SiteId
from isthmus.fuzz.judge import judge_run
from isthmus.fuzz.watch import Limits, WatchedRun
from isthmus.protocols.causal.flooding.safe_links import SafeFlooding
from isthmus.protocols.causal.flooding.safe_wire import DynamicOptions
from isthmus.scenario.faults import Crash, Fault, Leave, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.workload import Poisson, Reply
from isthmus.stacks.registry import Build
from isthmus.topology.delay import Gamma
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.schema import KIND, NUMBER, PROCESS, SENDER, VIEW, Row

SITES = 40
CHORDS = 60
FOUNDERS = 12
DURATION_MS = 8_500.0
MS = 1_000_000


def scenario_of(seed: int, kind: str, faults: tuple[Fault, ...], absent: tuple[str, ...] = ()) -> Scenario:
    lan = Channel(Gamma(mean_ms=12.0, variance_ms2=144.0, shift_ms=0.5), loss=0.01, fifo=False)
    return Scenario(
        name=f"safe-{kind}-{seed}",
        seed=seed,
        topology=mesh(1, SITES, lan, lan),
        stack=StackSpec(
            name="flooding-dynamic",
            overlay=OverlaySpec(kind=kind),  # type: ignore[arg-type]
            dynamic=DynamicOptions(retry_ms=150.0),
        ),
        workloads=(Poisson(rate_per_s=0.9, payload_bytes=8), Reply(probability=0.02, depth=3)),
        duration_ms=DURATION_MS,
        drain_ms=120_000.0,
        faults=faults,
        membership=Membership(detection_ms=50.0, stagger_ms=20.0, absent=absent),
        payloads="varied",
        wire="reference",
    )


def grown_and_shrunk(seed: int) -> Scenario:
    """From 12 to 40 sites and back to 12 by leaves, with crashes on the way."""
    random = Random(f"grow/{seed}")
    names = [f"c0-{number}" for number in range(SITES)]
    later = names[FOUNDERS:]
    crashed = sorted(random.sample(range(SITES), 4))
    faults: list[Fault] = [
        Recover(at_ms=100.0 + 3_000.0 * place / len(later), site=site) for place, site in enumerate(later)
    ]
    faults += [Crash(at_ms=random.uniform(4_000.0, 8_000.0), site=names[site]) for site in crashed]
    leavers = [site for site in later if names.index(site) not in crashed]
    random.shuffle(leavers)
    faults += [Leave(at_ms=4_500.0 + 3_500.0 * place / len(leavers), site=site) for place, site in enumerate(leavers)]
    return scenario_of(seed, "hypercube", tuple(sorted(faults, key=lambda fault: fault.at_ms)), tuple(later))


def ring_with_crashes(seed: int) -> Scenario:
    random = Random(f"ring/{seed}")
    crashed = random.sample(range(SITES), 2)
    faults = [Crash(at_ms=random.uniform(500.0, 7_000.0), site=f"c0-{site}") for site in crashed]
    return scenario_of(seed, "ring", tuple(sorted(faults, key=lambda fault: fault.at_ms)))


def ring_that_grows(seed: int) -> Scenario:
    """A ring, in which messages are under way for long, from 30 sites to 40."""
    later = tuple(f"c0-{number}" for number in range(30, SITES))
    faults = tuple(Recover(at_ms=100.0 + 600.0 * place, site=site) for place, site in enumerate(later))
    return scenario_of(seed, "ring", faults, later)


def lay_chords(run: WatchedRun, seed: int) -> None:
    """Have 60 links across the ring opened and closed at random times, each both ways."""
    random = Random(f"chords/{seed}")
    for _ in range(CHORDS):
        a, b = (SiteId(site) for site in random.sample(range(SITES), 2))
        start_ns = round(random.uniform(100.0, 7_000.0) * MS)
        end_ns = start_ns + round(random.uniform(50.0, 1_500.0) * MS)
        for here, there in ((a, b), (b, a)):
            run.scheduler.at(start_ns, act, (run, here, there), "open")
            run.scheduler.at(end_ns, act, (run, here, there), "close")


def act(ends: tuple[WatchedRun, SiteId, SiteId], verb: str) -> None:
    run, here, there = ends
    port = run.sites[here].ports[run.groups[0].id]
    layer = port.stack.find(SafeFlooding)
    if run.sites[there].alive and port.owner.alive and there not in layer.near and there in layer.ids:
        port.run(lambda: getattr(layer, verb)(there))


def failures_of(scenario: Scenario, seed: int, build: Build | None = None, chords: bool = False) -> list[str]:
    """Run a scenario; what it broke."""
    rows: list[Row] = []
    run = WatchedRun(scenario, rows, build)
    if chords:
        lay_chords(run, seed)
    judged = judge_run(run, rows, limits=Limits(packets=2_000_000, events=4_000_000))
    return [*judged.failures(), *losses(rows)]


def losses(rows: list[Row]) -> list[str]:
    """Messages that somebody has who is there at the end, and somebody lacks who was there all the time."""
    up: dict[int, bool] = {}
    first: dict[int, int] = {}  # the first view of the present life
    delivered: dict[int, set[tuple[int, int]]] = {}
    submitted: dict[tuple[int, int], int] = {}
    for row in rows:
        process, kind, key = row[PROCESS], row[KIND], (row[SENDER], row[NUMBER])
        if kind == Kind.VIEW:
            up.setdefault(process, True)
            first.setdefault(process, row[VIEW])
        elif kind == Kind.CRASH:
            up[process] = False
        elif kind == Kind.RECOVER:
            up[process] = True
            first.pop(process, None)
            delivered.pop(process, None)
        elif kind == Kind.SUBMIT:
            submitted[key] = row[VIEW]
        elif kind == Kind.DELIVER:
            delivered.setdefault(process, set()).add(key)
    there = [process for process, alive in sorted(up.items()) if alive and process in first]
    found = set().union(*(delivered.get(process, set()) for process in there))
    return [
        f"process {process} lost message {key}"
        for key in sorted(found)
        for process in there
        if first[process] <= submitted[key] and key not in delivered.get(process, set())
    ][:3]
