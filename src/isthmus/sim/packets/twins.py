"""End points of two stacks, compiled: flooding and causal-vector, over the compiled packet network.

Imported on use, as it needs numba. Each function is a whole run: its input is the schedule of submits, its output the
time of each delivery at each node. They act as the layers of those stacks (protocols/causal/) at the same events in the
same order, and tests compare them with the layers, receipt by receipt. Independently of the protocol and its state,
each delivery is checked against the definition of causal order: `past[m, s]` is how many messages of sender s the
author of m had delivered when it submitted m, and a node that delivers m must have delivered as many.

Schedule: `due[i]` is the time of entry i, in ns, and `what[i]` the message then submitted, or below 0 for a background
packet, whose path begins at step -1 - what[i]; in `vector`, from the number of messages on, the copy of a message that
returns to its sender. Entries due at one time execute before packets that arrive then. A message has a sender, given
by its index among the senders, a number from 1 on, and the sizes of its fragments. A node participates until
`crashes[node]`.

`log` receives (time, node, kind, message, neighbour) of submits and deliveries, and of receipts if `wires` is set; it
has no rows if no trace is requested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from isthmus.sim.packets.kernel import (
    DELIVER,
    HEAPED,
    LAST,
    SPARES,
    Array,
    enter,
    go_on,
    grown,
    leave,
    new_state,
    send,
)

RECEIPT, DELIVERY, SUBMIT = range(3)  # kinds in the log
NEVER = -1  # as the time of a delivery
CHUNKS_FIRST = 1024
RECEIPTS, VIOLATIONS, QUEUE_MAX, QUEUE_NS = range(4)  # counters of a run beside the network's marks
LOG_ROWS, SENDS, FRAGMENTS, ARC_BYTES = range(4, 8)
COUNTS = 8
NODE, SENDER, NUMBER, FULL_BYTES, FULLS, REST_BYTES = range(6)  # columns of messages


@njit(cache=True, forceinline=True)
def write(log: Array, counts: Array, now: int, node: int, kind: int, message: int, neighbour: int) -> None:
    if len(log) > 0:
        row = counts[LOG_ROWS]
        log[row, 0], log[row, 1], log[row, 2], log[row, 3], log[row, 4] = now, node, kind, message, neighbour
        counts[LOG_ROWS] += 1


@njit(cache=True, forceinline=True)
def count_sends(targets: int, message: int, messages: Array, counts: Array) -> None:
    """Count a message once per target."""
    fulls = messages[message, FULLS]
    counts[SENDS] += targets
    counts[FRAGMENTS] += targets * (fulls + 1)
    counts[ARC_BYTES] += targets * (fulls * messages[message, FULL_BYTES] + messages[message, REST_BYTES])


@njit(cache=True, forceinline=True)
def deliver(
    now: int,
    node: int,
    message: int,
    messages: Array,
    past: Array,
    taken: Array,
    delivered: Array,
    log: Array,
    counts: Array,
) -> None:
    """Record a delivery, and check causal order."""
    sender = messages[message, SENDER]
    broken = taken[node, sender] != messages[message, NUMBER] - 1
    for other in range(past.shape[1]):
        broken |= taken[node, other] < past[message, other]
    counts[VIOLATIONS] += broken
    taken[node, sender] += 1
    delivered[message, node] = now
    write(log, counts, now, node, DELIVERY, message, node)


@njit(cache=True)
def flood(
    due: Array,
    what: Array,
    background_bytes: int,
    messages: Array,
    sender_count: int,
    crashes: Array,
    arc_first: Array,
    arc_from: Array,
    arc_to: Array,
    arc_step: Array,
    steps: Array,
    propagation: Array,
    rate: Array,
    need: int,
    log: Array,
    wires: bool,
) -> tuple[Array, Array, Array]:
    """Run constrained flooding: forward a first receipt to every neighbour but the one it came from, then deliver it.

    Arcs are the directed links of the overlay, those that leave node v from arc_first[v] on; a step that delivers names
    its arc.
    """
    nodes = len(arc_first) - 1
    links, chunks, following, heap, marks = new_state(propagation, rate, CHUNKS_FIRST + need)
    highest = np.zeros((nodes, sender_count), np.int32)  # S: of each sender, the last message taken
    taken = np.zeros((nodes, sender_count), np.int32)
    past = np.zeros((len(messages), sender_count), np.int32)
    delivered = np.full((len(messages), nodes), NEVER, np.int64)
    counts = np.zeros(COUNTS, np.int64)
    entry = 0
    while entry < len(due) or marks[HEAPED] > 0:
        if marks[SPARES] < need:
            chunks, following = grown(chunks, following, marks, need)
        if entry < len(due) and (marks[HEAPED] == 0 or due[entry] <= heap[0, 0]):
            now, message, arc = due[entry], what[entry], -1
            entry += 1
            if message < 0:
                enter(now, -1 - message, 0, background_bytes, steps, links, chunks, following, heap, marks)
                continue
            node = messages[message, NODE]
            if now >= crashes[node]:
                continue
            past[message, :] = taken[node, :]
            write(log, counts, now, node, SUBMIT, message, node)
        else:
            now, message, step, sized = leave(links, chunks, following, heap, marks)
            go_on(now, step, message, sized, steps, links, chunks, following, heap, marks)
            arc = steps[step, DELIVER]
            if arc < 0 or not sized & LAST:
                continue
            node = arc_to[arc]
            if now >= crashes[node]:
                continue
            counts[RECEIPTS] += 1
            if wires:
                write(log, counts, now, node, RECEIPT, message, arc_from[arc])
        sender, number = messages[message, SENDER], messages[message, NUMBER]
        if number <= highest[node, sender]:
            continue
        for out in range(arc_first[node], arc_first[node + 1]):
            if arc < 0 or arc_to[out] != arc_from[arc]:
                send(
                    *(now, arc_step[out], 1, message),
                    *(messages[message, FULL_BYTES], messages[message, FULLS], messages[message, REST_BYTES]),
                    *(steps, links, chunks, following, heap, marks),
                )
        count_sends(arc_first[node + 1] - arc_first[node] - (arc >= 0), message, messages, counts)
        deliver(now, node, message, messages, past, taken, delivered, log, counts)
        highest[node, sender] = number
    return delivered, counts, marks


@njit(cache=True, forceinline=True)
def missing(node: int, message: int, messages: Array, past: Array, taken: Array) -> tuple[int, int]:
    """Return sender and number of a missing message that must be delivered here first; number 0 if none is missing."""
    for sender in range(past.shape[1]):
        wanted = past[message, sender]
        if sender == messages[message, SENDER]:
            wanted = messages[message, NUMBER] - 1
        if taken[node, sender] < wanted:
            return sender, wanted
    return 0, 0


@njit(cache=True)
def vector(
    due: Array,
    what: Array,
    background_bytes: int,
    messages: Array,
    crashes: Array,
    root_first: Array,
    root_count: Array,
    steps: Array,
    propagation: Array,
    rate: Array,
    need: int,
    log: Array,
    wires: bool,
) -> tuple[Array, Array, Array]:
    """Run causal broadcast by vectors over multicast trees: a message waits until its author's deliveries are all here.

    Senders are in ascending order of their nodes; a step that delivers names its node. The messages that wait for one
    sender form a list in order of arrival, re-examined when that message has been delivered, as in the layer.
    """
    nodes, sender_count = len(crashes), len(root_first)
    links, chunks, following, heap, marks = new_state(propagation, rate, CHUNKS_FIRST + need)
    taken = np.zeros((nodes, sender_count), np.int32)
    past = np.zeros((len(messages), sender_count), np.int32)
    delivered = np.full((len(messages), nodes), NEVER, np.int64)
    counts = np.zeros(COUNTS, np.int64)
    first_waiting = np.full((nodes, sender_count), NEVER, np.int32)  # by the awaited sender
    last_waiting = np.full((nodes, sender_count), NEVER, np.int32)
    then = np.full((nodes, len(messages)), NEVER, np.int32)  # the next one in its list
    until = np.zeros((nodes, len(messages)), np.int32)  # the awaited number
    came = np.zeros((nodes, len(messages)), np.int64)
    waiting = np.zeros(nodes, np.int32)
    ready = np.empty(len(messages) + 1, np.int32)
    entry = 0
    while entry < len(due) or marks[HEAPED] > 0:
        if marks[SPARES] < need:
            chunks, following = grown(chunks, following, marks, need)
        if entry < len(due) and (marks[HEAPED] == 0 or due[entry] <= heap[0, 0]):
            now, message = due[entry], what[entry]
            entry += 1
            if message < 0:
                enter(now, -1 - message, 0, background_bytes, steps, links, chunks, following, heap, marks)
                continue
            own = message >= len(messages)
            message -= len(messages) if own else 0
            node, sender = messages[message, NODE], messages[message, SENDER]
            if now >= crashes[node]:
                continue
            if not own:
                past[message, :] = taken[node, :]
                write(log, counts, now, node, SUBMIT, message, node)
                send(
                    *(now, root_first[sender], root_count[sender], message),
                    *(messages[message, FULL_BYTES], messages[message, FULLS], messages[message, REST_BYTES]),
                    *(steps, links, chunks, following, heap, marks),
                )
                count_sends(nodes - 1, message, messages, counts)
                continue
        else:
            now, message, step, sized = leave(links, chunks, following, heap, marks)
            go_on(now, step, message, sized, steps, links, chunks, following, heap, marks)
            node = steps[step, DELIVER]
            if node < 0 or not sized & LAST or now >= crashes[node]:
                continue
            counts[RECEIPTS] += 1
            if wires:
                write(log, counts, now, node, RECEIPT, message, messages[message, NODE])
        came[node, message] = now
        ready[0], first, size = message, 0, 1
        while first < size:
            one = ready[first]
            first += 1
            sender, number = missing(node, one, messages, past, taken)
            if number > 0:
                until[node, one], then[node, one] = number, NEVER
                if last_waiting[node, sender] < 0:
                    first_waiting[node, sender] = one
                else:
                    then[node, last_waiting[node, sender]] = one
                last_waiting[node, sender] = one
                waiting[node] += 1
                continue
            deliver(now, node, one, messages, past, taken, delivered, log, counts)
            counts[QUEUE_NS] += now - came[node, one]
            sender = messages[one, SENDER]
            before, other = NEVER, first_waiting[node, sender]
            while other >= 0:
                following_one = then[node, other]
                if until[node, other] <= taken[node, sender]:
                    ready[size] = other
                    size += 1
                    waiting[node] -= 1
                    if before < 0:
                        first_waiting[node, sender] = following_one
                    else:
                        then[node, before] = following_one
                    if following_one < 0:
                        last_waiting[node, sender] = before
                else:
                    before = other
                other = following_one
        counts[QUEUE_MAX] = max(counts[QUEUE_MAX], waiting[node])
    return delivered, counts, marks


@njit(cache=True)
def arc_routes(into_first: Array, into: Array, into_from: Array, arc_first: Array, arc_to: Array) -> Any:
    """Return the steps of the routes along all arcs, and the first step of each, as Wiring.routes_to gives them.

    Links that end at node v are into[into_first[v]] and on, ascending, and come from into_from; each has a reverse
    link, so the links that leave v are the same with their last bit flipped. No table of all pairs is kept: 64 targets
    at a time, as the bits of a word, are searched from together, level by level. at_level[k, v] holds the targets that
    are k hops from v; a route takes the lowest link that leads one level nearer.
    """
    nodes = len(into_first) - 1
    arc_step = np.zeros(len(arc_to), np.int64)
    steps = np.empty((8 * len(arc_to) + 64, 4), np.int32)
    at_level = np.zeros((16, nodes), np.uint64)
    seen = np.empty(nodes, np.uint64)
    count = 0
    for base in range(0, nodes, 64):
        at_level[0, :], seen[:] = 0, 0
        for target in range(base, min(base + 64, nodes)):
            at_level[0, target] = np.uint64(1) << np.uint64(target - base)
            seen[target] = at_level[0, target]
        depth, going = 0, True
        while going:
            depth, going = depth + 1, False
            if depth == len(at_level):
                more = np.zeros((2 * depth, nodes), np.uint64)
                more[:depth] = at_level
                at_level = more
            at_level[depth, :] = 0
            for node in range(nodes):
                front = at_level[depth - 1, node]
                if front:
                    for place in range(into_first[node], into_first[node + 1]):
                        at_level[depth, into_from[place]] |= front
            for node in range(nodes):
                fresh = at_level[depth, node] & ~seen[node]
                at_level[depth, node] = fresh
                seen[node] |= fresh
                going |= fresh != 0
        for target in range(base, min(base + 64, nodes)):
            bit = np.uint64(1) << np.uint64(target - base)
            for back in range(arc_first[target], arc_first[target + 1]):  # links of an overlay are symmetric
                node = arc_to[back]
                arc, level = arc_first[node], 1
                while arc_to[arc] != target:
                    arc += 1
                while not at_level[level, node] & bit:
                    level += 1
                if count + level > len(steps):
                    wider = np.empty((2 * len(steps) + level, 4), np.int32)
                    wider[:count] = steps[:count]
                    steps = wider
                arc_step[arc] = count
                for nearer in range(level - 1, -1, -1):
                    place = into_first[node]
                    while not at_level[nearer, into_from[place]] & bit:
                        place += 1
                    node = into_from[place]
                    steps[count, 0], steps[count, 1] = into[place] ^ 1, count + 1
                    steps[count, 2], steps[count, 3] = (1, -1) if nearer else (0, arc)
                    count += 1
    return steps[:count].copy(), arc_step
