"""Total order: no cycle in the union of all delivery orders, found in linear time.

Messages go to arbitrary sets of processes: p: a b, q: b c, r: c a is no total order, though no two of them disagree.
Kahn's algorithm without a graph: each life points at its next delivery; a message that all its deliverers point at is
taken, and moves their pointers on. Each cycle is broken by taking a message that the fewest lives object to, which
counts as one violation. The witness: two messages and two lives if any two disagree, the first cycle otherwise.

Invariants: a life counts by the first delivery of a message only. `total` holds a crashed life to what it delivered in
the views that it survived: in its last one it may have acted on what died with it. `uniform-total` holds it to
everything. A domain has no views of its own: there `total` passes over a crashed life.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

from isthmus.judge.history import DELIVER, SUBMIT, GroupHistory, Life
from isthmus.judge.properties.finding import Finding
from isthmus.judge.witness import LACKS, EventKey, Witness

Order = tuple[Life, list[int]]
Step = tuple[Life, int, int]  # a life that delivered one message before another


def total(group: GroupHistory) -> Finding:
    """The union of the delivery orders of all lives, as far as they answer for them, has no cycle."""
    return acyclic(group, [(life, first_deliveries(life, whole=life.up)) for life in group.lives])


def uniform_total(group: GroupHistory) -> Finding:
    return acyclic(group, [(life, first_deliveries(life, whole=True)) for life in group.lives])


def first_deliveries(life: Life, whole: bool) -> list[int]:
    """What a life delivered, each message once; without the whole, only up to its last view."""
    deliveries = life.deliveries if whole else life.deliveries[: life.epochs[-1].start]
    return deliveries if len(life.delivered) == len(life.deliveries) else list(dict.fromkeys(deliveries))


def acyclic(group: GroupHistory, orders: list[Order]) -> Finding:
    finding = Finding(LACKS["total"])
    deliverers = Counter(chain.from_iterable(order for _, order in orders))
    if comparable(orders):
        shared = (sum(deliverers[message] > 1 for message in order) for _, order in orders)
        finding.evidence_count = sum(max(0, count - 1) for count in shared)
    merge(group, orders, deliverers, finding)
    return finding


def comparable(orders: list[Order]) -> bool:
    """Whether two lives share two messages; the first pair looked at usually does."""
    sets = [set(order) for _, order in orders if len(order) > 1]
    return any(len(one & other) > 1 for index, one in enumerate(sets) for other in sets[index + 1 :])


def merge(group: GroupHistory, orders: list[Order], deliverers: Counter[int], finding: Finding) -> None:
    """Take messages in an order that all lives agree on; where there is none, count a violation and go on."""
    lists = [order for _, order in orders]
    ends = [len(order) for order in lists]
    places = [0] * len(lists)  # each life's next delivery
    waiting: dict[int, list[int]] = {}  # message to the lives that point at it
    taken: set[int] = set()
    moving = list(range(len(lists)))
    while True:
        while moving:
            at = moving.pop()
            order, place, end = lists[at], places[at], ends[at]
            while place < end and order[place] in taken:
                place += 1  # a cycle was broken here
            places[at] = place
            if place == end:
                continue
            message = order[place]
            pointing = waiting.get(message)
            if pointing is None:
                pointing = waiting[message] = []
            pointing.append(at)
            if len(pointing) == deliverers[message]:
                del waiting[message]
                for index in pointing:
                    places[index] += 1
                moving += pointing
        if not waiting:
            return
        if finding.witness is not None:
            finding.violation_count += 1
        else:
            left = [(life, order[place:]) for (life, order), place in zip(orders, places, strict=True)]
            finding.violate(shown(group, inversion(left) or cycle(left)))
        least = min(waiting, key=lambda message: (deliverers[message] - len(waiting[message]), message))
        taken.add(least)
        moving = waiting.pop(least)


def shown(group: GroupHistory, steps: list[Step]) -> Witness:
    """Steps that contradict each other, as a witness."""
    events, messages = [], []
    for life, first, second in steps:
        for message, role in ((first, "delivered first"), (second, "delivered second")):
            messages.append(group.names[message])
            events.append(EventKey(DELIVER, life.process, group.names[message], role=role, life=life.incarnation))
    submits = [EventKey(SUBMIT, key[1], key, role="submitted") for key in dict.fromkeys(messages)]
    lives = tuple(life.key for life, _, _ in steps)
    return Witness("order", lives, tuple(messages), events=(*submits, *events))


def inversion(left: list[Order]) -> list[Step]:
    """Two messages that two lives delivered in different orders; nothing where no two lives disagree."""
    for index, (one, order) in enumerate(left):
        place = {message: at for at, message in enumerate(order)}
        for other, opposite in left[index + 1 :]:
            before = -1
            for message in opposite:
                at = place.get(message, -1)
                if at < 0:
                    continue
                if at < before:
                    return [(one, message, order[before]), (other, order[before], message)]
                before = at
    return []


def cycle(left: list[Order]) -> list[Step]:
    """A cycle among the next deliveries of the lives that are stuck."""
    stuck = [(life, order[0], set(order)) for life, order in left if order]
    path: list[Step] = []
    seen: dict[int, int] = {}  # message to its place in the path
    message = stuck[0][1]
    while message not in seen:
        seen[message] = len(path)
        life, head = next((life, head) for life, head, rest in stuck if head != message and message in rest)
        path.append((life, head, message))
        message = head
    return list(reversed(path[seen[message] :]))
