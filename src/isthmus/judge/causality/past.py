"""The causal past of every delivery, for a block of receivers: what q should have delivered before.

Deliveries of each life are numbered from 1. Behind every event and message stands a vector with an entry for each life
q of the block: the greatest number that q gave to anything in the past that is addressed to q. A message takes its
sender's vector; a delivery raises that of its life. An entry for q above the number that q gives to a message is a
message that should have come before it. What q owes and never delivers counts as if it came last of all that it should
have preceded. A carried message has no past here, but is in that of what follows its deliveries.

    code      number << 20 for a delivery; a message that is never delivered adds an index, so that it can be named
    step      an event in the sequence of a life: a message, or its complement where the life submits it
    block     the lives whose deliveries are judged; those of all others only hand the past on

A life whose next delivery has not been submitted yet waits (Kahn). On a circle of answers the first life goes on with
as much of the past as is known, and the pass is repeated until nothing is added, within bounds; beyond them the group
is not judged. Invariant: the result depends neither on the order in which lives are taken nor on the blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isthmus.judge.causality.compiled import compiled
from isthmus.judge.causality.precedence import shortest_chain

CODE_BITS = 20
CODE_INDEX = (1 << CODE_BITS) - 1  # the bits of a code that are 0 for a delivery
ABSENT, UNKNOWN, CARRIED = -1, -2, -3  # instead of a place among the flights: to be submitted, never, elsewhere
DONE, FLIGHTS_FULL, GUESSES_FULL = 0, 1, 2  # why a pass stops
READY, FREE, GUESSED = 0, 1, 2  # counts that a pass keeps
COMPILED_STEPS = 100_000  # fewer are taken faster than a compiler starts
FLIGHTS, GUESSES = 256, 16  # room at first
GUESSES_MAX = 1 << 16  # messages on circles
ROUNDS_MAX = 64  # passes over a group with circles
CIRCLES = "messages answer one another in more circles than are followed (integrity tells of the first)"
Steps = NDArray[np.int32]
Vector = NDArray[np.int64]


class Owed(NamedTuple):
    """Messages that lives of the block never deliver: the column of the life, the message, the code."""

    columns: Vector
    messages: Vector
    codes: Vector


class EarlyDelivery(NamedTuple):
    """The first delivery of a life ahead of its past, and how many there are."""

    slot: int
    number: int  # of the delivery, at the life
    message: int
    due: int  # the code of what should have come before
    times: int


class BlockResult(NamedTuple):
    """What a block shows: its lives that break causal order, by slot; or that circles leave it open."""

    early: list[EarlyDelivery]
    open: bool


def advance(
    state: Any, steps: Any, place: Any, end: Any, lives: Any, flights: Any, free: Any, flight: Any, left: Any,
    to_start: Any, to_column: Any, to_code: Any, column: Any, number: Any, ready: Any, first_waiting: Any,
    next_waiting: Any, guess: Any, guesses: Any, learnt: Any, count: Any, found: Any, due: Any,
) -> int:  # fmt: skip
    """Take steps until all are taken, or there is no room for a flight or a guess."""
    while True:
        while state[READY] > 0:
            state[READY] -= 1
            slot = ready[state[READY]]
            at, last, own = place[slot], end[slot], lives[slot]
            while at < last:
                step = steps[at]
                if step < 0:
                    message = ~step
                    if left[message] > 0 and state[FREE] == 0:
                        place[slot] = at
                        ready[state[READY]] = slot
                        state[READY] += 1
                        return FLIGHTS_FULL
                    for k in range(to_start[message], to_start[message + 1]):
                        own[to_column[k]] = max(own[to_column[k]], to_code[k])
                    if left[message] > 0:
                        state[FREE] -= 1
                        flight[message] = free[state[FREE]]
                        flights[flight[message]] = own
                    if guess[message] >= 0:
                        learnt[guess[message]] = own
                    other = first_waiting[message]
                    while other >= 0:
                        ready[state[READY]] = other
                        state[READY] += 1
                        other = next_waiting[other]
                    first_waiting[message] = -1
                else:
                    message = step
                    where = flight[message]
                    if where == ABSENT and guess[message] < 0:
                        next_waiting[slot] = first_waiting[message]
                        first_waiting[message] = slot
                        break
                    number[slot] += 1
                    left[message] -= 1
                    if where == CARRIED:
                        for k in range(to_start[message], to_start[message + 1]):
                            own[to_column[k]] = max(own[to_column[k]], to_code[k])
                    elif where != UNKNOWN:
                        past = flights[where] if where >= 0 else guesses[guess[message]]
                        mine = column[slot]
                        if mine >= 0 and past[mine] > number[slot] << CODE_BITS:
                            # Equal is the message itself, which is in its own past where there is a circle.
                            if count[mine] == 0:
                                found[mine] = number[slot]
                                due[mine] = past[mine]
                            count[mine] += 1
                        own[:] = np.maximum(own, past)
                        if where >= 0 and left[message] == 0:
                            free[state[FREE]] = where
                            state[FREE] += 1
                at += 1
            place[slot] = at
        stuck = -1
        for slot in range(len(place)):
            if place[slot] < end[slot]:
                stuck = slot
                break
        if stuck < 0:
            return DONE
        message = steps[place[stuck]]
        if state[GUESSED] == len(guesses):
            return GUESSES_FULL
        guess[message] = state[GUESSED]
        state[GUESSED] += 1
        other = first_waiting[message]
        while other >= 0:
            ready[state[READY]] = other
            state[READY] += 1
            other = next_waiting[other]
        first_waiting[message] = -1


def judge(
    sequences: Sequence[Steps], sources: NDArray[np.int8], block: range, owed: Owed, circles_max: int = GUESSES_MAX
) -> BlockResult:
    """Judge the deliveries of a block; `sequences` are of all lives, `sources` say what each message is at first."""
    steps = np.concatenate([*sequences, np.zeros(0, np.int32)])
    fast = len(steps) >= COMPILED_STEPS
    given = given_codes(sequences, len(sources), block, owed)
    left = np.bincount(steps[steps >= 0], minlength=len(sources))
    known = np.zeros((0, len(block)), np.int64)
    chosen = np.full(len(sources), ABSENT, np.int32)
    for _ in range(ROUNDS_MAX):
        one_pass = Pass(sequences, steps, sources, block, given, left, chosen, known, fast)
        if not one_pass.run(circles_max):
            break
        learnt = one_pass.learnt[: int(one_pass.state[GUESSED])]
        if learnt.shape == known.shape and np.array_equal(learnt, known):
            return BlockResult(one_pass.early_deliveries(sequences, block), False)
        known, chosen = learnt, np.asarray(one_pass.guess, np.int32)
    return BlockResult([], True)


def given_codes(sequences: Sequence[Steps], messages: int, block: range, owed: Owed) -> tuple[Vector, Vector, Vector]:
    """What the lives of a block made of each message: where its codes start, and columns and codes by message."""
    own = [(sequences[slot][sequences[slot] >= 0]) for slot in block]
    named = np.concatenate([*own, owed.messages]).astype(np.int64)
    columns = np.concatenate([*(np.full(len(one), at, np.int64) for at, one in enumerate(own)), owed.columns])
    codes = np.concatenate([*(np.arange(1, len(one) + 1, dtype=np.int64) << CODE_BITS for one in own), owed.codes])
    order = np.argsort(named, kind="stable")
    starts = np.zeros(messages + 1, np.int64)
    np.cumsum(np.bincount(named, minlength=messages), out=starts[1:])
    return starts, columns[order], codes[order]


class Pass:
    """One pass over a group; its arrays are lists, which plain Python indexes faster, where it is not compiled."""

    def __init__(
        self, sequences: Sequence[Steps], steps: Steps, sources: NDArray[np.int8], block: range,
        given: tuple[Vector, Vector, Vector], left: Vector, guess: Steps, known: Vector, fast: bool,
    ) -> None:  # fmt: skip
        slots, width = len(sequences), len(block)
        end = np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
        column = np.full(slots, -1, np.int64)
        column[block.start : block.stop] = np.arange(width)
        self.fast = fast
        self.steps = self.form(steps)
        self.end = self.form(end)
        self.place = self.form(end - [len(sequence) for sequence in sequences])
        self.column = self.form(column)
        self.number = self.form(np.zeros(slots, np.int64))
        self.ready = self.form(np.arange(slots, dtype=np.int64)[::-1].copy())
        self.waiting = self.form(np.full(len(sources), -1, np.int32)), self.form(np.full(slots, -1, np.int32))
        self.given = tuple(map(self.form, given))
        self.left = self.form(left.copy())
        self.flight = self.form(sources.astype(np.int32))
        self.guess = self.form(guess.copy())
        self.lives = np.zeros((slots, width), np.int64)
        self.flights = np.zeros((FLIGHTS, width), np.int64)
        self.free = self.form(np.arange(FLIGHTS, dtype=np.int64))
        room = max(GUESSES, len(known))
        self.guesses = np.zeros((room, width), np.int64)
        self.guesses[: len(known)] = known
        self.learnt = self.guesses.copy()
        self.state = self.form(np.array([slots, FLIGHTS, len(known)], np.int64))
        self.count, self.found, self.due = (self.form(np.zeros(width, np.int64)) for _ in range(3))

    def form(self, array: NDArray[Any]) -> Any:
        return array if self.fast else array.tolist()

    def run(self, circles_max: int) -> bool:
        """Take all steps; false if more messages are on circles than there may be."""
        take: Any = compiled(advance) if self.fast else advance
        while True:
            why = take(
                self.state, self.steps, self.place, self.end, self.lives, self.flights, self.free, self.flight,
                self.left, *self.given, self.column, self.number, self.ready, *self.waiting, self.guess,
                self.guesses, self.learnt, self.count, self.found, self.due,
            )  # fmt: skip
            if why == DONE:
                return True
            if why == FLIGHTS_FULL:
                self.make_room()
            elif len(self.guesses) >= circles_max:
                return False
            else:
                more = np.zeros_like(self.guesses)
                self.guesses, self.learnt = (np.concatenate([kept, more]) for kept in (self.guesses, self.learnt))

    def make_room(self) -> None:
        """Twice the room for messages on their way."""
        room = len(self.flights)
        self.flights = np.concatenate([self.flights, np.zeros_like(self.flights)])
        free = np.zeros(2 * room, np.int64)
        free[:room] = np.arange(room, 2 * room)  # none of the others is free
        self.free = self.form(free)
        self.state[FREE] = room

    def early_deliveries(self, sequences: Sequence[Steps], block: range) -> list[EarlyDelivery]:
        found: list[EarlyDelivery] = []
        for at, slot in enumerate(block):
            if self.count[at]:
                number = int(self.found[at])
                deliveries = sequences[slot][sequences[slot] >= 0]
                message = int(deliveries[number - 1])
                found.append(EarlyDelivery(slot, number, message, int(self.due[at]), int(self.count[at])))
        return found


def chain(sequences: Sequence[Steps], first: int, last: int) -> list[int]:
    """The shortest list of messages from one to another, each submitted after its sender had the one before."""
    submitted: dict[int, tuple[int, int]] = {}  # message to slot and place of its submit
    for slot, sequence in enumerate(sequences):
        for at in np.flatnonzero(sequence < 0).tolist():
            submitted[int(~sequence[at])] = slot, at
    done = [0] * len(sequences)  # by slot: how many steps were looked at

    def past(message: int) -> list[int]:
        if message not in submitted:
            return []
        slot, at = submitted[message]
        steps = sequences[slot][done[slot] : at]
        done[slot] = max(done[slot], at)
        found: list[int] = [*steps[steps >= 0].tolist(), *(~steps[steps < 0]).tolist()]
        return found

    return shortest_chain(first, last, past)
