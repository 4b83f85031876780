"""Random scenarios: any number of networks, workloads and faults, each a function of one seed.

They are small, so that thousands run in minutes, and hostile, so that few orders survive them by luck: loss,
duplication, reordering, crashes, partitions, clock jumps, slow readers, floods, tiny windows, staggered views, a second
group, a relay. Payloads differ, and are checked at delivery. Every fault ends before the run does, so that deliveries
missing at the end are missing permanently. The options drawn for a stack depend on the fields of its `NamedStack`,
never on its name.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from isthmus.fuzz.networks import (
    random_lans,
    random_relinks,
    random_topology,
    random_workload,
    random_workloads,
    randomly_linked,
    reordering,
)
from isthmus.fuzz.strain import flooded, random_causal, strained
from isthmus.protocols.estimator import EstimatorOptions
from isthmus.protocols.total.ring.ring import RingOptions
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.relay import RelayOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.faults import Crash, Fault, RandomFaults, Recover
from isthmus.scenario.model import Clocks, GroupSpec, HybridSpec, Membership, Reader, Scenario, StackSpec
from isthmus.scenario.overlay import OverlaySpec
from isthmus.scenario.workload import Workload
from isthmus.stacks.registry import STACKS
from isthmus.topology.overlay.links import Kind

DURATION_MS = 2_000.0
HARD_MS = 1_000.0  # added to the duration
DRAIN_MS = 600_000.0  # tiny windows over lossy links are slow; a run ends as soon as it is at rest
RELAYED_DRAIN_MS = 3_000_000.0  # end-to-end acknowledgements pass all the lossy links: a window of 4 took 1,200 s
STAGGER_MS = (1.0, 2_000.0)


def random_scenario(stack: str, seed: int) -> Scenario:
    random = Random(f"fuzz/{stack}/{seed}")
    direct = random.random() < 0.15 and "transport" in STACKS[stack].options
    flood = random.random() < 0.07
    topology = random_topology(random, rough=not direct and random.random() < 0.8, small=flood)
    if STACKS[stack].relays and not flood and random.random() < 0.4:
        topology = random_lans(random, rough=not direct and random.random() < 0.8)
    if direct and STACKS[stack].reorders and random.random() < 0.5:
        topology = reordering(topology)
    names = [site.name for site in topology.sites]
    drawn = random_faults(random, direct)
    membership = random_membership(random, direct, drawn, len(names))
    if STACKS[stack].steady:
        membership = msgspec.structs.replace(membership, majority=False, hasty=False)
    duration_ms = DURATION_MS + 2 * membership.stagger_ms  # leaves time for traffic after the first view
    relinks = random_relinks(random, topology, duration_ms) if STACKS[stack].relays else ()
    made = Scenario(
        name=f"fuzz-{stack}-{seed}",
        topology=topology,
        stack=random_stack(stack, names, random, direct),
        workloads=random_workloads(random, names, duration_ms),
        seed=seed,
        duration_ms=duration_ms,
        drain_ms=RELAYED_DRAIN_MS if STACKS[stack].relays else DRAIN_MS,
        faults=(*random_crashes(random, names, drawn, membership, duration_ms), *relinks),
        random_faults=drawn,
        clocks=Clocks(offset_ms=100, drift_ppm=200) if random.random() < 0.3 else Clocks(),
        readers=(random_reader(random, names),) if random.random() < 0.2 else (),
        membership=membership,
        turn_ms=random.choice([0.5, 2.0, 10.0]) if random.random() < 0.25 else 0.0,
        payloads="varied",
        wire="codec" if random.random() < 0.1 else "reference",
    )
    if STACKS[stack].relays:
        made = perhaps_gated(made, Random(f"gated/{stack}/{seed}"))
    apart = Random(f"relay/{stack}/{seed}")  # a separate source, so that all else is the same as without a relay
    if not direct and apart.random() < 0.3 and "relay" in STACKS[stack].options:
        relay = RelayOptions(pack_ms=apart.choice([0, 1, 50]))
        made = msgspec.structs.replace(made, stack=msgspec.structs.replace(made.stack, relay=relay))
    if "optimistic" in STACKS[stack].options:
        made = strained(made, random)
    if flood:
        return flooded(made, random)
    return with_second_group(made, random) if random.random() < 0.12 and not membership.majority else made


def perhaps_gated(plain: Scenario, random: Random) -> Scenario:
    """Use, in some runs, a random graph of gateways, which hold messages until deliveries are confirmed."""
    if random.random() < 0.8:
        return plain
    causal = msgspec.structs.replace(plain.stack.causal, gated=True)
    stack = msgspec.structs.replace(plain.stack, causal=causal)
    return msgspec.structs.replace(plain, topology=randomly_linked(random, plain.topology), stack=stack)


def hard_scenario(stack: str, seed: int) -> Scenario:
    """Return the scenario with tight windows, slow readers, and repeated crashes and recoveries, down to one site."""
    plain = random_scenario(stack, seed)
    random = Random(f"hard/{stack}/{seed}")
    names = [site.name for site in plain.topology.sites]
    hard_ms = plain.duration_ms + HARD_MS
    faults: list[Fault] = []
    for name in random.sample(names, random.randint(1, len(names) - 1)):
        times = sorted(random.uniform(0, hard_ms) for _ in range(random.randint(1, 4)))
        faults += [
            Recover(at_ms=when, site=name) if number % 2 else Crash(at_ms=when, site=name)
            for number, when in enumerate(times)
        ]
    tight: dict[str, Any] = {
        "credit": CreditOptions(window=random.choice([2, 4, 32]), queue_max=random.choice([8, 64])),
        "reliable": ReliableOptions(ack_every=random.choice([4, 256]), keep_max=random.choice([4, 64])),
    }
    options = msgspec.structs.replace(plain.stack, **only_taken(stack, tight))
    detection_ms = random.choice([0, 1, 50, 500])
    return msgspec.structs.replace(
        plain,
        name=f"hard-{stack}-{seed}",
        stack=options,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        readers=(Reader(sites=(random.choice(names),), consume_ms=random.choice([1, 30])),),
        membership=msgspec.structs.replace(plain.membership, detection_ms=detection_ms, majority=False),
        duration_ms=hard_ms,
        drain_ms=max(plain.drain_ms, 3 * DRAIN_MS),
    )


def replay_command(stack: str, seed: int, sort: str = "plain") -> str:
    return f"isthmus fuzz {stack} --seed {seed}" + ("" if sort == "plain" else f" --{sort}")


# Faults


def random_faults(random: Random, direct: bool) -> RandomFaults:
    """Draw all faults but crashes; no loss over a direct transport."""
    if random.random() < 0.2:
        return RandomFaults()
    return RandomFaults(
        partitions=0 if direct else random.choice([0, 0, 1, 2]),
        losses=0 if direct else random.choice([0, 1]),
        delay_shifts=random.choice([0, 1]),
        clock_jumps=random.choice([0, 1]),
    )


def random_membership(random: Random, direct: bool, drawn: RandomFaults, sites: int) -> Membership:
    """Draw a membership: staggered views in half of the cases, majority only where there are partitions."""
    low, high = STAGGER_MS
    hasty = not direct and random.random() < 0.4
    return Membership(
        detection_ms=random.choice([0, 1, 20] if hasty else [0, 50, 500]),
        majority=bool(drawn.partitions) and sites > 2 and random.random() < 0.5,
        stagger_ms=low * (high / low) ** random.random() if random.random() < 0.5 else 0.0,
        hasty=hasty,
    )


def random_crashes(
    random: Random, names: list[str], drawn: RandomFaults, membership: Membership, duration_ms: float
) -> tuple[Crash | Recover, ...]:
    """Draw crashes of at most a minority, some with a recovery; also while other sites install a view.

    With majority views, a majority must remain of the smallest view that a partition can lead to.
    """
    most = (len(names) - 1) // 2
    if membership.majority:
        most = 1 if len(names) >= 5 and drawn.partitions == 1 else 0
    victims = random.sample(names, min(random.choice([0, 1, 1, 2, 3]), most))
    faults: list[Crash | Recover] = []
    at_ms = random.uniform(0, 0.9) * duration_ms
    for site in victims:
        faults.append(Crash(at_ms=at_ms, site=site))
        if random.random() < 0.4:
            faults.append(Recover(at_ms=random.uniform(at_ms, duration_ms), site=site))
        change_ms = membership.detection_ms + random.random() * 2 * membership.stagger_ms
        soon = random.random() < 0.5 and at_ms + change_ms < duration_ms
        at_ms = at_ms + change_ms if soon else random.uniform(0, 0.9) * duration_ms
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def random_reader(random: Random, names: list[str]) -> Reader:
    return Reader(sites=(random.choice(names),), consume_ms=random.uniform(1, 20))


# Stacks


def random_stack(stack: str, names: list[str], random: Random, direct: bool) -> StackSpec:
    more: dict[str, Any] = {}
    if "hybrid" in STACKS[stack].options:
        more["hybrid"] = random_hybrid(stack, names, random)
    if "causal" in STACKS[stack].options:
        more["causal"] = random_causal(random)
    if "overlay" in STACKS[stack].options:
        more["overlay"] = random_overlay(random)
    if "sequencer" in STACKS[stack].options:
        more["sequencer"] = random.choice([None, random.choice(names)])
        more["batch_ms"] = random.choice([None, None, 0.0, 5.0])
    if "ring" in STACKS[stack].options:
        more["ring"] = RingOptions(batch=random.choice([10, 30, 1000]))
    more |= {
        "transport": "direct" if direct else "reliable",
        "credit": CreditOptions(
            window=random.choice([2, 4, 32, 1024, 4096]), queue_max=random.choice([8, 64, 1024, 4096])
        ),
        "reliable": ReliableOptions(
            ack_every=random.choice([1, 4, 256]),
            hold_max=random.choice([1, 4, 64, 1024]),
            keep_max=random.choice([4, 16, 64, 8192]),
            repair_max=random.choice([4, 64]),
        ),
    }
    return StackSpec(name=stack, **only_taken(stack, more))


def only_taken(stack: str, drawn: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in drawn.items() if name in STACKS[stack].options}


def random_hybrid(stack: str, names: list[str], random: Random) -> HybridSpec:
    """Draw roles, clocks and nulls of the ticket protocols; nulls always, as a silent site would block the others."""
    given = STACKS[stack].roles == "given"
    return HybridSpec(
        active=tuple(random.sample(names, random.randint(1, len(names)))) if given else (),
        rule=random.choice(["restless", "restless", "planned", "dynamic", "paper"]),
        clock=random.choice(["lamport", "rate", "synchronised"]),
        null_ms=random.choice([5.0, 25.0, 200.0]),
        eager=random.random() < 0.7,
        threshold=random.choice([0.0, 0.2]),
        estimator=EstimatorOptions(
            probe_ms=random.choice([200.0, 500.0]),  # shorter periods: probes of nine sites would fill a narrow link
            detector=random.choice(["mean-shift", "sliding"]),
            samples=random.choice([3, 16]),
            silence=random.random() < 0.5,
        ),
    )


def random_overlay(random: Random) -> OverlaySpec:
    """Draw an overlay: usually the hypercube; all others must work as well."""
    kinds: list[Kind] = ["hypercube", "hypercube", "hypercube", "incomplete", "ring", "clique", "random"]
    return OverlaySpec(
        kind=random.choice(kinds), seed=random.randrange(9), ids=random.choice(["numbers", "numbers", "topology"])
    )


def with_second_group(plain: Scenario, random: Random) -> Scenario:
    """Add a group of some or all of the sites, with a stack, traffic and views of its own."""
    names = [site.name for site in plain.topology.sites]
    direct = plain.stack.transport == "direct"
    possible = [
        name
        for name, known in STACKS.items()
        if (not direct or is_borne(plain, name)) and "overlay" not in known.options
    ]
    members = random.sample(names, random.randint(2, len(names)))
    others = random_stack(random.choice(possible), names, random, direct)
    traffic: list[Workload] = [
        random_workload(random, "all", len(members), plain.duration_ms),
        random_workload(random, random.randint(1, len(members)), len(members), plain.duration_ms),
    ]
    moved = tuple(msgspec.structs.replace(workload, group="second") for workload in traffic)
    return msgspec.structs.replace(
        plain,
        groups=(GroupSpec(name="first"), GroupSpec(name="second", sites=tuple(members), stack=others)),
        workloads=(*plain.workloads, *moved),
    )


def is_borne(scenario: Scenario, stack: str) -> bool:
    """Return whether a stack keeps its promises over a direct transport in this network."""
    return STACKS[stack].reorders or all(channel.fifo for channel in scenario.topology.all_channels())
