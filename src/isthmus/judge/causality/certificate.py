"""A certificate of causal order, for groups that are totally ordered: one linear order that has room for everything.

If one order of all messages contains every life's deliveries, and has each message behind all that its sender had
delivered or submitted when it submitted it, every life delivers in causal order. Kahn's algorithm without a graph looks
for it: each life points at its next delivery, and a message is taken when all its deliverers point at it and its sender
has taken all that it had before.

Finding an order proves that no life delivers a message ahead of its past; finding none proves nothing. What a life owes
and never delivers is not looked at here.
"""

from __future__ import annotations

from isthmus.judge.history import GroupHistory

TAKEN = -2  # in the place of a sender: the message has its place in the order


def is_certified(group: GroupHistory) -> bool:
    """Whether there is such an order; no life may have delivered a message twice."""
    lives = group.lives
    if any(len(life.delivered) < len(life.deliveries) for life in lives):
        return False
    lists = [life.deliveries for life in lives]
    needed = [0] * len(group.names)  # by message: its deliverers, and its sender where it was submitted here
    for order in lists:
        for message in order:
            needed[message] += 1
    sender = [-1] * len(group.names)  # by message: the slot of the life that submitted it here
    for slot, life in enumerate(lives):
        for message, _ in life.sent:
            needed[message] += 1
            sender[message] = slot
    places, sent = [0] * len(lives), [0] * len(lives)  # next delivery, and next submit, of each life
    wanted = sum(map(bool, needed))
    pointing: dict[int, list[int]] = {}  # message to the lives that point at it
    moving = list(range(len(lives)))
    releasing = list(moving)
    while moving or releasing:
        ready: list[int] = []
        while moving:
            slot = moving.pop()
            order, place = lists[slot], places[slot]
            if place < len(order):
                message = order[place]
                pointing.setdefault(message, []).append(slot)
                needed[message] -= 1
                if not needed[message]:
                    ready.append(message)
            releasing.append(slot)
        while releasing:
            slot = releasing.pop()
            submits, at = lives[slot].sent, sent[slot]
            if at == len(submits) or submits[at][1] > places[slot]:
                continue  # something that it had delivered before is still to be taken
            if at == 0 or sender[submits[at - 1][0]] == TAKEN:
                message = submits[at][0]
                sent[slot] = at + 1
                needed[message] -= 1
                if not needed[message]:
                    ready.append(message)
        for message in ready:
            wanted -= 1
            for slot in pointing.pop(message, ()):
                places[slot] += 1
                moving.append(slot)
            if sender[message] >= 0:
                releasing.append(sender[message])
                sender[message] = TAKEN
    return wanted == 0
