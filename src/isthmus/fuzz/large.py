"""Random scenarios with messages of all sizes: plain ones, hard ones, and ones with agreed membership.

Pieces are a few bytes, so that a message of a few hundred bytes has dozens: view changes, crashes, joins and slow
readers occur in the middle of one. The window for large messages is often no larger than one of them.
"""

from __future__ import annotations

from random import Random

import msgspec

from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.scenarios import hard_scenario, random_scenario
from isthmus.protocols.fragments import LARGEST_BYTES, FragmentOptions
from isthmus.scenario.model import Scenario
from isthmus.scenario.workload import Burst, Workload
from isthmus.stacks.registry import STACKS

PIECE_BYTES = (16, 40, 100)
PIECES_MAX = 30
DRAIN_MS = 2_000_000.0  # dozens of pieces through a window of two
MANY = 50  # messages: bursts of at least this size keep small payloads


def large_scenario(stack: str, seed: int) -> Scenario:
    random = Random(f"large/{stack}/{seed}")
    sorts = [random_scenario, hard_scenario] + ([agreed_scenario] * 2 if not STACKS[stack].steady else [])
    plain = random.choice(sorts)(stack, seed)
    piece = random.choice(PIECE_BYTES)
    window = random.choice([1, PIECES_MAX * piece, 3 * PIECES_MAX * piece, LARGEST_BYTES])
    fragments = FragmentOptions(piece_bytes=piece, window_bytes=window)
    return msgspec.structs.replace(
        plain,
        name=f"large-{stack}-{seed}",
        drain_ms=DRAIN_MS,
        stack=msgspec.structs.replace(plain.stack, fragments=fragments),
        groups=tuple(
            group
            if group.stack is None
            else msgspec.structs.replace(group, stack=msgspec.structs.replace(group.stack, fragments=fragments))
            for group in plain.groups
        ),
        workloads=tuple(enlarged(workload, random, piece) for workload in plain.workloads),
    )


def enlarged(workload: Workload, random: Random, piece: int) -> Workload:
    """Return a workload with large messages, in two of three cases."""
    if isinstance(workload, Burst) and workload.burst_count >= MANY:
        return msgspec.structs.replace(workload, payload_bytes=min(workload.payload_bytes, piece))
    if random.random() < 0.33:
        return workload
    return msgspec.structs.replace(workload, payload_bytes=random.randint(piece, PIECES_MAX * piece))
