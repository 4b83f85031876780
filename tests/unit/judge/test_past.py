"""The pass over a causal past against sets that are closed by trying everything; whole, in blocks, and compiled."""

from __future__ import annotations

import logging
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.judge.causality import compiled, past
from isthmus.judge.causality.past import (
    ABSENT,
    CARRIED,
    CODE_BITS,
    UNKNOWN,
    BlockResult,
    EarlyDelivery,
    Owed,
    chain,
    judge,
)

Wild = tuple[list[list[int]], list[int], list[tuple[int, int, int]]]  # steps, sources, owed (slot, message, code)
NOTHING = Owed(*(np.zeros(0, np.int64) for _ in range(3)))


def wild(seed: int) -> Wild:
    """A history of a few lives, most of them impossible or out of order: steps, what messages are, and debts."""
    random = Random(f"past/{seed}")
    slots, messages = random.randint(1, 5), random.randint(1, 9)
    mild = random.random() < 0.5  # deliveries follow submits, with little out of order
    events: list[list[tuple[float, int]]] = [[] for _ in range(slots)]
    sources: list[int] = []
    for message in range(messages):
        sources.append(random.choices((ABSENT, CARRIED, UNKNOWN), (8, 1, 1))[0])
        if sources[-1] == ABSENT:
            events[random.randrange(slots)].append((message, ~message))
        for own in events:
            if random.random() < 0.7:
                at = message + random.random() * 3 if mild else random.random() * messages
                own.append((at, message))
    steps = [[step for _, step in sorted(own)] for own in events]
    owed: list[tuple[int, int, int]] = []
    for slot, own in enumerate(steps):
        deliveries = sum(step >= 0 for step in own)
        for message in range(messages):
            if deliveries and sources[message] == ABSENT and message not in own and random.random() < 0.3:
                owed.append((slot, message, (random.randint(1, deliveries) << CODE_BITS) + 1 + len(owed)))
    return steps, sources, owed


def expected(history: Wild) -> list[EarlyDelivery]:
    """The first violation of every life, and how many it has, from the past of every message as a set."""
    steps, sources, owed = history
    pasts: dict[int, set[int]] = {message: set() for message, source in enumerate(sources) if source != UNKNOWN}
    size = -1
    while size != sum(map(len, pasts.values())):
        size = sum(map(len, pasts.values()))
        for own in steps:
            seen: set[int] = set()
            for step in own:
                if step < 0:
                    pasts[~step] |= seen
                message = ~step if step < 0 else step
                if message in pasts:
                    seen |= {message} | pasts[message]
    found = []
    for slot, own in enumerate(steps):
        deliveries = [step for step in own if step >= 0]
        codes = {message: number << CODE_BITS for number, message in enumerate(deliveries, start=1)}
        codes |= {message: code for at, message, code in owed if at == slot}
        late = []
        for number, message in enumerate(deliveries, start=1):
            due = max((codes.get(one, 0) for one in pasts.get(message, set()) - {message}), default=0)
            if due > number << CODE_BITS:
                late.append((number, message, due))
        if late:
            found.append(EarlyDelivery(slot, *late[0], len(late)))
    return found


def judged(history: Wild, width: int) -> list[EarlyDelivery]:
    """The same by the pass, in blocks of so many receivers."""
    steps, sources, owed = history
    sequences = [np.array(own, np.int32) for own in steps]
    found: list[EarlyDelivery] = []
    for first in range(0, len(steps), width):
        block = range(first, min(first + width, len(steps)))
        own = [(slot - first, message, code) for slot, message, code in owed if slot in block]
        columns = np.array(own, np.int64).reshape(-1, 3).T
        result = judge(sequences, np.array(sources, np.int8), block, Owed(*columns))
        assert not result.open
        found += result.early
    return found


@settings(max_examples=2000, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(1, 5))
def test_every_block_finds_what_trying_everything_finds(seed, width):
    history = wild(seed)
    assert judged(history, width) == expected(history)


def test_some_are_good_and_some_are_not():
    """The random histories have both, with circles and without."""
    bad = [bool(expected(wild(seed))) for seed in range(300)]
    assert 30 < sum(bad) < 290


def test_compiled_and_plain_are_the_same(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(past, "COMPILED_STEPS", 0)
    for seed in range(300):
        assert judged(wild(seed), 2) == expected(wild(seed)), seed


def test_a_message_that_was_never_sent_hands_on_nothing():
    steps = [np.array([0, ~1], np.int32), np.array([1, 0], np.int32)]
    assert judge(steps, np.array([UNKNOWN, ABSENT], np.int8), range(2), NOTHING) == BlockResult([], False)
    assert judge(steps, np.array([CARRIED, ABSENT], np.int8), range(2), NOTHING).early == [
        EarlyDelivery(1, 1, 1, 2 << CODE_BITS, 1)
    ]


def test_many_messages_under_way_and_many_circles_find_room():
    count = 2000
    sent = np.array([~message for message in range(count)], np.int32)
    backwards = np.arange(count, dtype=np.int32)[::-1].copy()
    found = judge([sent, backwards], np.full(count, ABSENT, np.int8), range(2), NOTHING)
    assert found == BlockResult([EarlyDelivery(1, 1, count - 1, count << CODE_BITS, count - 1)], False)
    # Each of two lives delivers what the other submits, and before its own: every message is on a circle.
    half = np.arange(count // 2, dtype=np.int32)
    crossed = [
        np.stack([half + count // 2, ~half], axis=1).ravel(),
        np.stack([half, ~(half + count // 2)], axis=1).ravel(),
    ]
    assert judge(crossed, np.full(count, ABSENT, np.int8), range(2), NOTHING).open is False
    assert judge(crossed, np.full(count, ABSENT, np.int8), range(2), NOTHING, circles_max=16).open is True


def test_chain_is_the_shortest():
    steps = [np.array([~0], np.int32), np.array([0, ~1, ~2], np.int32), np.array([1, 2, ~3], np.int32)]
    assert chain(steps, 0, 3) in ([0, 1, 3], [0, 2, 3])
    assert chain(steps, 3, 0) == []


@pytest.fixture
def fresh():
    compiled.numba.cache_clear()
    compiled.compiled.cache_clear()
    yield
    compiled.numba.cache_clear()
    compiled.compiled.cache_clear()


def plus(one: int, other: int) -> int:
    return one + other


def test_without_numba_the_loop_runs_as_it_is_and_the_log_says_so(fresh, monkeypatch, caplog):
    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(compiled, "import_module", absent)
    with caplog.at_level(logging.WARNING, "isthmus"):
        assert compiled.compiled(plus) is plus and compiled.compiled(plus)(1, 2) == 3
    assert caplog.messages == [compiled.MISSING]


def test_where_nothing_can_be_kept_it_is_compiled_without(fresh, monkeypatch):
    """A read-only installation and no folder for caches: numba refuses to cache, and says so by a RuntimeError."""
    numba = pytest.importorskip("numba")
    from numba.core import caching

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(RuntimeError):
        numba.njit(cache=True)(plus)
    assert compiled.compiled(plus)(1, 2) == 3
