"""All interleavings of a few events on a bench, each distinct one once: the agreement in small scopes.

Problem: drawn schedules leave open what they missed. Idea: a site's state is a function of what has happened at it, in
its order; so two interleavings in which every site sees the same are the same state, and one of them is enough. States
are found breadth first, each by a replay from the start, until all are found or a bound is reached; every state must
keep what bench_checks.py asks for. Time is the exception: it passes for all when one ticks, and is no part of a state.

A scope says what may happen besides packets that arrive, in the order in which they were sent on each way: who may
begin to suspect whom, submit, tick (time passes before it), crash and come back, and how many packets may be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec
from tests.harness.membership_bench import ROUND_NS, Bench, Kind
from tests.harness.membership_bench_checks import wrong

from isthmus.core.message import SiteId
from isthmus.protocols.membership.agreement import Agreement

Step = tuple[str, int, int]  # what, where, and whom it is about: ("arrive", 1, 0) is the next packet from 0 at 1
PASSED = 6  # round trips that pass before a tick: an attempt, or its patience, is over


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What may happen, each once unless it is there twice."""

    sites: int = 3
    files: bool = False
    first: tuple[Step, ...] = ()  # what happens before, in this order
    may: tuple[Step, ...] = ()
    losses: int = 0  # packets that may be lost


class Explored(msgspec.Struct, frozen=True):
    """What came of an exploration."""

    states: int
    complete: bool  # there are no more
    failures: tuple[tuple[tuple[Step, ...], str], ...]  # how a state that is wrong came about, and what is wrong


def explore(scope: Scope, states_max: int, kind: Kind = Agreement) -> Explored:
    """Find the states of a scope, nearest first, and look at each."""
    left: deque[tuple[Step, ...]] = deque([()])
    seen: dict[tuple[tuple[Step, ...], ...], bool] = {}
    failures: list[tuple[tuple[Step, ...], str]] = []
    while left and len(seen) < states_max:
        path = left.popleft()
        bench = replay(scope, path, kind)
        failures += [(path, found) for found in wrong(bench)[:1]]
        for step in choices(scope, bench, path):
            following = (*path, step)
            key = histories(scope, following)
            if key not in seen:
                seen[key] = True
                left.append(following)
    return Explored(len(seen), not left, tuple(failures))


def histories(scope: Scope, path: tuple[Step, ...]) -> tuple[tuple[Step, ...], ...]:
    """What has happened at each site, and which packets of each way were lost."""
    return tuple([tuple([step for step in path if step[1] == site]) for site in range(scope.sites)])


def replay(scope: Scope, path: tuple[Step, ...], kind: Kind) -> Bench:
    bench = Bench(scope.sites, scope.files, kind)
    while bench.pool:  # everybody says that it is in the first view
        bench.arrive(0)
    for step in (*scope.first, *path):
        take(bench, step)
    return bench


def choices(scope: Scope, bench: Bench, path: tuple[Step, ...]) -> Iterator[Step]:
    """What may happen next."""
    ways = dict.fromkeys([(packet[1], packet[0]) for packet in bench.pool])
    coming = [site for what, site, _ in scope.may if what == "recover"]
    for target, source in ways:
        if not bench.at[target].alive and target not in coming:
            continue  # nothing comes of it
        yield "arrive", target, source
        if sum(step[0] == "lose" for step in path) < scope.losses:
            yield "lose", target, source
    for step in dict.fromkeys(scope.may):
        if path.count(step) < scope.may.count(step):
            yield step


def take(bench: Bench, step: Step) -> None:
    """Have something happen."""
    what, where, about = step[0], SiteId(step[1]), SiteId(step[2])
    if what in ("arrive", "lose"):
        place = next((n for n, packet in enumerate(bench.pool) if packet[:2] == (about, where)), None)
        if place is not None:
            bench.arrive(place) if what == "arrive" else bench.pool.pop(place)
    elif what in ("suspect", "trust"):
        bench.suspect(where, about, what == "suspect")
    elif what == "submit":
        bench.submit(where)
    elif what == "tick":
        bench.now_ns += PASSED * ROUND_NS
        bench.tick(where)
    elif what == "crash":
        bench.crash(where)
    else:
        assert what == "recover"
        bench.recover(where)


SCOPES = {  # those that are explored to the end first
    "a crash": Scope(first=(("submit", 2, 2), ("crash", 2, 2)), may=(("suspect", 0, 2), ("suspect", 1, 2))),
    "a crash and a loss": Scope(
        first=(("submit", 2, 2), ("crash", 2, 2), ("suspect", 0, 2), ("suspect", 1, 2)), may=(("tick", 0, 0),), losses=1
    ),
    "the coordinator crashes": Scope(
        first=(("submit", 0, 0), ("suspect", 0, 2), ("suspect", 1, 2), ("crash", 2, 2)),
        may=(("crash", 0, 0), ("suspect", 1, 0)),
    ),
    "two rivals": Scope(first=(("submit", 1, 1),), may=(("suspect", 0, 1), ("suspect", 1, 0))),
    "a wrong suspicion": Scope(first=(("submit", 2, 2),), may=(("suspect", 0, 2), ("suspect", 1, 2))),
    "a vote by the file": Scope(
        files=True,
        first=(("suspect", 0, 2),),
        may=(("crash", 1, 1), ("recover", 1, 1), ("suspect", 2, 0), ("tick", 2, 2)),
    ),
    "out and in again": Scope(
        first=(("submit", 0, 0), ("suspect", 0, 2), ("suspect", 1, 2)),
        may=(("trust", 0, 2), ("trust", 1, 2), ("tick", 2, 2), ("tick", 2, 2), ("tick", 0, 0)),
    ),
}
