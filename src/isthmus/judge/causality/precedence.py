"""What came before what: deliveries that precede their own submit, and the chains of messages that prove a past.

Kahn's algorithm over the rows of a group: a process goes on until its next delivery is of a message that has not been
submitted yet, and waits for it; processes that all wait for one another have a cycle in *happened before*.

Invariants: how far the processes get does not depend on who goes first. Where all wait, the waiting delivery of the
process with the lowest number is let go and counts as one violation. The local order goes on over all lives of a
process: a crash takes memory, not time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter

from isthmus.judge.history import DELIVER, SUBMIT, GroupHistory, Life
from isthmus.judge.witness import EventKey


def impossible(group: GroupHistory) -> list[tuple[Life, int]]:
    """The deliveries that no order of events has room for, each as a life and a message."""
    here = [source is not None and source.life.group is group for source in group.submitted]
    known = bytearray(not own for own in here)  # by message: submitted by now, or elsewhere, or never
    processes = [list(lives) for _, lives in groupby(group.lives, attrgetter("process"))]
    sequences = list(map(sequence, processes))
    places = [0] * len(sequences)
    wanted: dict[int, list[int]] = {}  # message to the processes that wait for it
    found: list[tuple[Life, int]] = []
    ready = list(range(len(sequences)))
    while True:
        while ready:
            at = ready.pop()
            steps, place = sequences[at], places[at]
            for step in steps[place:] if place else steps:
                if step < 0:
                    known[~step] = 1
                    ready += wanted.pop(~step, ())
                elif not known[step]:
                    wanted.setdefault(step, []).append(at)
                    break
                place += 1
            places[at] = place
        if not wanted:
            return found
        stuck, message = min((at, message) for message, waiting in wanted.items() for at in waiting)
        found.append((life_at(processes[stuck], places[stuck]), message))
        wanted[message].remove(stuck)
        if not wanted[message]:
            del wanted[message]
        places[stuck] += 1
        ready.append(stuck)


def sequence(lives: list[Life]) -> list[int]:
    """The submits and deliveries of a process in local order; a submit is the complement of its message."""
    steps: list[int] = []
    for life in lives:
        start = 0
        for message, place in life.sent:
            steps += life.deliveries[start:place]
            steps.append(~message)
            start = place
        steps += life.deliveries[start:]
    return steps


def life_at(lives: list[Life], place: int) -> Life:
    """The life that a place in the sequence of a process belongs to."""
    for life in lives:
        place -= len(life.deliveries) + len(life.sent)
        if place < 0:
            return life
    raise AssertionError("a place beyond the end of the sequence")


def chain(group: GroupHistory, first: int, last: int, over_lives: bool = False) -> list[int]:
    """The shortest list of messages from one to another, each submitted after its sender had the one before.

    Empty where there is none. `over_lives` counts what earlier lives of a sender had, too.
    """
    done: dict[tuple[int, int], tuple[int, int]] = {}  # life to how many submits and deliveries were looked at
    return shortest_chain(first, last, lambda message: direct_past(group, message, done, over_lives))


def shortest_chain(first: int, last: int, past: Callable[[int], Iterable[int]]) -> list[int]:
    """The messages from one to another, each in the direct past of the next; empty where there is no such list."""
    after: dict[int, int] = {}  # message to the one that it was found in the past of
    left = deque([last])
    while left:
        message = left.popleft()
        for earlier in past(message):
            if earlier not in after:
                after[earlier] = message
                left.append(earlier)
                if earlier == first:
                    found = [first, after[first]]
                    while found[-1] != last:
                        found.append(after[found[-1]])
                    return found
    return []


def direct_past(
    group: GroupHistory, message: int, done: dict[tuple[int, int], tuple[int, int]], over_lives: bool
) -> list[int]:
    """What the sender had submitted or delivered when it submitted a message, as far as it was not looked at before."""
    source = group.submitted[message]
    if source is None or source.life.group is not group:
        return []
    found: list[int] = []
    for life in group.lives if over_lives else [source.life]:
        if life.process != source.life.process or life.incarnation > source.life.incarnation:
            continue
        own = life is source.life
        sent = source.place if own else len(life.sent)
        given = life.sent[sent][1] if own else len(life.deliveries)
        before_sent, before_given = done.get(life.key, (0, 0))
        found += life.deliveries[before_given:given]
        found += [one for one, _ in life.sent[before_sent:sent]]
        done[life.key] = max(sent, before_sent), max(given, before_given)
    return found


def chain_events(group: GroupHistory, messages: list[int]) -> tuple[EventKey, ...]:
    """The rows that show a chain: each message submitted, and delivered where the next one was submitted."""
    events: list[EventKey] = []
    for place, message in enumerate(messages):
        key = group.names[message]
        if place and group.names[messages[place - 1]][1] != key[1]:
            earlier = group.names[messages[place - 1]]
            events.append(EventKey(DELIVER, key[1], earlier, role="delivered before it answered"))
        events.append(EventKey(SUBMIT, key[1], key, role="submitted"))
    return tuple(dict.fromkeys(events))
