"""Additional stress in some random scenarios: hard cases for the optimistic and causal orders, and floods.

A flood is a site that submits more messages at once than one packet of tickets orders, to a stack whose windows admit
them.
"""

from __future__ import annotations

from random import Random

import msgspec

from isthmus.protocols.causal.options import CausalPolicy
from isthmus.protocols.total.optimistic.compensation import DELAY_RULES, OptimisticOptions
from isthmus.protocols.transport.credit import CreditOptions
from isthmus.protocols.transport.reliable.frames import ReliableOptions
from isthmus.scenario.faults import ClockJump, Crash, Fault, Recover
from isthmus.scenario.model import Clocks, Scenario
from isthmus.scenario.workload import Burst, Poisson, Workload
from isthmus.stacks.registry import STACKS

FLOOD = (1_100, 1_400)  # messages: more than fit into a packet of tickets, or into a range
FLOOD_BYTES = 4  # small enough for as many to fit into one frame
WIDE = 4096  # a window that admits a whole flood


def strained(plain: Scenario, random: Random) -> Scenario:
    stack = msgspec.structs.replace(plain.stack, optimistic=random_options(random))
    names = [site.name for site in plain.topology.sites]
    first = stack.sequencer or names[0]
    faults: list[Fault] = list(plain.faults)
    if random.random() < 0.6 and len(names) > 2 and not plain.membership.majority:
        if len(names) < 5:  # two must remain, or there is no order to judge
            faults = []
        faults = [fault for fault in faults if not isinstance(fault, Crash | Recover) or fault.site != first]
        at_ms = random.uniform(0, 0.8) * plain.duration_ms
        faults.append(Crash(at_ms=at_ms, site=first))
        if random.random() < 0.5:
            faults.append(Recover(at_ms=random.uniform(at_ms, plain.duration_ms), site=first))
    for _ in range(random.choice([0, 1, 3])):
        by_ms = random.choice([-1, 1]) * 10 ** random.uniform(0, 4)
        faults.append(
            ClockJump(at_ms=random.uniform(0, plain.duration_ms), site=random.choice([first, *names]), by_ms=by_ms)
        )
    sized: list[Workload] = [Poisson(rate_per_s=random.uniform(1, 3), payload_bytes=random.choice([0, 500, 1500]))]
    return msgspec.structs.replace(
        plain,
        stack=stack,
        workloads=(*plain.workloads, *sized[: random.choice([0, 1])]),
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        clocks=Clocks(offset_ms=random.choice([0, 100, 10_000]), drift_ppm=random.choice([0, 200, 20_000])),
    )


def random_options(random: Random) -> OptimisticOptions:
    return OptimisticOptions(
        policy=random.choice(list(DELAY_RULES)),
        alpha=random.choice([0.95, 0.95, 0.5, 0.0]),
        gain=random.choice([0.02, 0.02, 0.5]),
        window_ms=random.choice([None, None, 0.0, 30.0]),
        delay_max_ms=random.choice([1000.0, 50.0]),
        request_age_ms=random.choice([10_000.0, 200.0]),
    )


def random_causal(random: Random) -> CausalPolicy:
    """Draw rules and codings of extended histories, with wide or tight bounds."""
    names = ("extended", "symmetric", "separators", "anywhere", "remainder", "forgetting")
    rules = {name: random.random() < 0.7 for name in names} if random.random() < 0.5 else {}
    return CausalPolicy(
        **rules,
        forced=random.random() < 0.3,
        coding=random.choice(["groups", "masks"]),
        entries_max=random.choice([4, 8, 1024]),
        history_max=random.choice([4, 64, 4096]),
        hold_max=random.choice([4, 64, 65_536]),
        keep_max=random.choice([4, 64, 8192]),
        ack_period_ms=random.choice([1.0, 100.0, 1000.0]),
        gauge_ms=random.choice([0.0, 0.0, 20.0]),
    )


def flooded(plain: Scenario, random: Random) -> Scenario:
    """Add a flood at one or two sites: in one turn, or message by message at one instant."""
    names = [site.name for site in plain.topology.sites]
    source, other = random.sample(names, 2)
    count = random.randint(*FLOOD)
    flood = Burst(
        period_ms=plain.duration_ms,
        start_ms=random.uniform(0, 0.8) * plain.duration_ms,
        burst_count=count,
        count=count,
        one_turn=random.random() < 0.35,
        sites=(source, other)[: random.choice([1, 2])],
        to="all" if random.random() < 0.8 else random.randint(1, len(names)),
        payload_bytes=FLOOD_BYTES,
    )
    taken = STACKS[plain.stack.name].options
    stack = msgspec.structs.replace(
        plain.stack,
        credit=CreditOptions(window=WIDE, queue_max=WIDE) if "credit" in taken else CreditOptions(),
        reliable=ReliableOptions(ack_every=plain.stack.reliable.ack_every),  # one frame per repair would take hours
    )
    if "hybrid" in taken:  # other sites issue the tickets of the flood, and gather them for a while
        clock = random.choice(["lamport", "lamport", stack.hybrid.clock])  # its numbers are close together
        hybrid = msgspec.structs.replace(stack.hybrid, null_ms=200.0, eager=random.random() < 0.3, clock=clock)
        if STACKS[stack.name].roles == "given":
            hybrid = msgspec.structs.replace(hybrid, active=tuple(name for name in names if name != source))
        stack = msgspec.structs.replace(stack, hybrid=hybrid)
    turn_ms = random.choice([0.0, 10.0, 50.0, 50.0])
    return msgspec.structs.replace(plain, stack=stack, workloads=(*plain.workloads, flood), turn_ms=turn_ms)
