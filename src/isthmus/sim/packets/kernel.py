"""The packet network's events, compiled: the same arithmetic as plain.py over flat arrays of integers.

Imported on use, as it needs numba. The state is five arrays, so that a call has little overhead:
- links: a row of eight per directed link, one cache line: when it is free, its constants, its queue;
- chunks: the queues, cut into chunks of CHUNK packets of three numbers each; `following` links the chunks of a queue,
  and the spare ones;
- heap: (arrival, order and link), four children per node;
- steps: (link, first branch, number of branches, node to deliver to), as defined in ways.py;
- marks: counters, and the ends of lists.

A packet is (arrival; order, size and last-of-message flag; message and step). Most of the time is spent waiting for
memory, so numbers share words: an order has 39 bits, a link and a size with its flag 24, a message and a step 31.
`chunks` cannot grow inside a call that does not own it: the caller ensures as many spare ones as packets may enter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

FREE, PROPAGATION, RATE, HEAD, HEAD_AT, TAIL, TAIL_AT, COUNT = range(8)  # columns of links
LINK, BRANCH, BRANCHES, DELIVER = range(4)  # columns of steps
HEAPED, ORDER, SPARE, SPARES, HOPS, LOAD_NS, LOAD_MAX, LAST_NS, AT_NS, AT_NODE, AT_MESSAGE, LOGGED = range(12)  # marks
MARKS = 12
CHUNK, FIELDS = 16, 3
LOW_BITS = 24  # below an order: a link, or a size with its flag
LOW_MASK = (1 << LOW_BITS) - 1
LAST = 1 << 23  # a packet that completes its message
SIZE_MASK = LAST - 1
MESSAGE_BITS = 32  # a message is in the bits above, its step in those below
STEP_MASK = (1 << MESSAGE_BITS) - 1
QUIET, ARRIVED, FULL = range(3)  # why a call ended: nothing is due; a message arrived; no chunks, or no room for hops
Array = Any  # of numpy, as numba sees it


@njit(cache=True)
def new_state(propagation: Array, rate: Array, chunk_count: int) -> tuple[Array, Array, Array, Array, Array]:
    """Return the state of links without packets."""
    count = len(propagation)
    links = np.zeros((count, 8), np.int64)
    links[:, PROPAGATION] = propagation
    links[:, RATE] = rate
    chunks = np.empty(chunk_count * CHUNK * FIELDS, np.int64)
    following = np.empty(chunk_count, np.int64)
    heap = np.empty((count + 1, 2), np.int64)
    marks = np.zeros(MARKS, np.int64)
    marks[SPARE] = -1
    spare_from(0, following, marks)
    return links, chunks, following, heap, marks


@njit(cache=True)
def spare_from(first: int, following: Array, marks: Array) -> None:
    """Add chunks to the list of spare ones, the lowest at its head."""
    for chunk in range(len(following) - 1, first - 1, -1):
        following[chunk] = marks[SPARE]
        marks[SPARE] = chunk
    marks[SPARES] += len(following) - first


@njit(cache=True)
def grown(chunks: Array, following: Array, marks: Array, need: int) -> tuple[Array, Array]:
    """Return the same queues with twice the room, or as much more as needed."""
    old = len(following)
    count = old + max(old, need)
    more_chunks = np.empty(count * CHUNK * FIELDS, np.int64)
    more_chunks[: len(chunks)] = chunks
    more_following = np.empty(count, np.int64)
    more_following[:old] = following
    spare_from(old, more_following, marks)
    return more_chunks, more_following


@njit(cache=True, forceinline=True)
def rise(at: int, time: int, rank: int, heap: Array) -> None:
    """Insert an entry into the heap at a free place or above it."""
    while at > 0:
        above = (at - 1) >> 2
        if heap[above, 0] < time or (heap[above, 0] == time and heap[above, 1] < rank):
            break
        heap[at, 0], heap[at, 1] = heap[above, 0], heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = time, rank


@njit(cache=True, forceinline=True)
def sink(time: int, rank: int, heap: Array, size: int) -> None:
    """Insert an entry in the place of the first one, or below it."""
    at = 0
    while True:
        child = 4 * at + 1
        if child >= size:
            break
        least, least_time, least_rank = child, heap[child, 0], heap[child, 1]
        for other in range(child + 1, min(child + 4, size)):
            other_time = heap[other, 0]
            if other_time < least_time or (other_time == least_time and heap[other, 1] < least_rank):
                least, least_time, least_rank = other, other_time, heap[other, 1]
        if time < least_time or (time == least_time and rank < least_rank):
            break
        heap[at, 0], heap[at, 1] = least_time, least_rank
        at = least
    heap[at, 0], heap[at, 1] = time, rank


@njit(cache=True, forceinline=True)
def enter(
    now: int,
    step: int,
    message: int,
    sized: int,
    steps: Array,
    links: Array,
    chunks: Array,
    following: Array,
    heap: Array,
    marks: Array,
) -> None:
    """Let a packet enter the link of a step; `sized` is its size, with LAST if it completes its message."""
    link = steps[step, LINK]
    free = links[link, FREE]
    gone = max(now, free) + ((sized & SIZE_MASK) * links[link, RATE] + 500) // 1000
    links[link, FREE] = gone
    due = gone + links[link, PROPAGATION]
    marks[LOAD_NS] += due - now
    marks[ORDER] += 1
    order, count = marks[ORDER], links[link, COUNT]
    if count == 0 or links[link, TAIL_AT] == CHUNK:
        chunk = marks[SPARE]
        marks[SPARE] = following[chunk]
        marks[SPARES] -= 1
        if count == 0:
            links[link, HEAD], links[link, HEAD_AT] = chunk, 0
            rise(marks[HEAPED], due, order << LOW_BITS | link, heap)
            marks[HEAPED] += 1
        else:
            following[links[link, TAIL]] = chunk
        links[link, TAIL], links[link, TAIL_AT] = chunk, 0
    place = (links[link, TAIL] * CHUNK + links[link, TAIL_AT]) * FIELDS
    chunks[place], chunks[place + 1] = due, order << LOW_BITS | sized
    chunks[place + 2] = message << MESSAGE_BITS | step
    links[link, TAIL_AT] += 1
    links[link, COUNT] = count + 1
    marks[LOAD_MAX] = max(marks[LOAD_MAX], count + 1)


@njit(cache=True, forceinline=True)
def leave(links: Array, chunks: Array, following: Array, heap: Array, marks: Array) -> tuple[int, int, int, int]:
    """Take the next packet to arrive off its link: return its time, message, step, and size with LAST."""
    link = heap[0, 1] & LOW_MASK
    chunk = links[link, HEAD]
    place = (chunk * CHUNK + links[link, HEAD_AT]) * FIELDS
    now, sized, packed = chunks[place], chunks[place + 1] & LOW_MASK, chunks[place + 2]
    count = links[link, COUNT] - 1
    links[link, COUNT] = count
    links[link, HEAD_AT] += 1
    if count == 0 or links[link, HEAD_AT] == CHUNK:
        links[link, HEAD], links[link, HEAD_AT] = following[chunk], 0
        following[chunk] = marks[SPARE]
        marks[SPARE] = chunk
        marks[SPARES] += 1
    if count:
        place = (links[link, HEAD] * CHUNK + links[link, HEAD_AT]) * FIELDS
        sink(chunks[place], chunks[place + 1] & ~LOW_MASK | link, heap, marks[HEAPED])
    else:
        size = marks[HEAPED] - 1
        marks[HEAPED] = size
        sink(heap[size, 0], heap[size, 1], heap, size)
    marks[HOPS] += 1
    marks[LAST_NS] = now
    return now, packed >> MESSAGE_BITS, packed & STEP_MASK, sized


@njit(cache=True, forceinline=True)
def send(
    now: int,
    first: int,
    count: int,
    message: int,
    full: int,
    fulls: int,
    rest: int,
    steps: Array,
    links: Array,
    chunks: Array,
    following: Array,
    heap: Array,
    marks: Array,
) -> None:
    """Send a message in `fulls` fragments of size `full` and a last one: fragment by fragment over all branches."""
    for fragment in range(fulls + 1):
        sized = full if fragment < fulls else rest | LAST
        for step in range(first, first + count):
            enter(now, step, message, sized, steps, links, chunks, following, heap, marks)


@njit(cache=True, forceinline=True)
def go_on(
    now: int,
    step: int,
    message: int,
    sized: int,
    steps: Array,
    links: Array,
    chunks: Array,
    following: Array,
    heap: Array,
    marks: Array,
) -> None:
    """Let a packet at the end of a step enter its branches."""
    first = steps[step, BRANCH]
    for branch in range(first, first + steps[step, BRANCHES]):
        enter(now, branch, message, sized, steps, links, chunks, following, heap, marks)


@njit(cache=True)
def advance(
    limit: int,
    need: int,
    hops: Array,
    steps: Array,
    links: Array,
    chunks: Array,
    following: Array,
    heap: Array,
    marks: Array,
) -> int:
    """Execute hops due before a time, up to the next complete arrival of a message; return why it ended."""
    while marks[HEAPED] > 0 and heap[0, 0] < limit:
        if marks[SPARES] < need or (len(hops) > 0 and marks[LOGGED] == len(hops)):
            return FULL
        link = heap[0, 1] & LOW_MASK
        now, message, step, sized = leave(links, chunks, following, heap, marks)
        if len(hops) > 0:
            row = marks[LOGGED]
            hops[row, 0], hops[row, 1], hops[row, 2], hops[row, 3] = now, link, message, links[link, COUNT]
            marks[LOGGED] += 1
        go_on(now, step, message, sized, steps, links, chunks, following, heap, marks)
        if sized & LAST and steps[step, DELIVER] >= 0:
            marks[AT_NS], marks[AT_NODE], marks[AT_MESSAGE] = now, steps[step, DELIVER], message
            return ARRIVED
    return QUIET
