"""Executions of a composition in which every protocol keeps no more than the order that it declares.

In real stacks the runs that break a guarantee are rare, so a node is played by an adversary: what a member submits may
reach the others at any time and in any order that the node's semantics allow. Each thing that can happen next has a
random weight, drawn once; the lightest goes first, so that some copies are late for the whole run. A copy can also be
made late on purpose, to play a given counterexample.

Invariants: a node delivers a copy to each member once. A router forwards for each output in the order in which it
took. Submits that wait for a delivery come after it at the same process. The rows are those of a trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from random import Random
from typing import NamedTuple

import msgspec

from isthmus.core.layer import Kind
from isthmus.protocols.routing.calculus.walks import SENDER, Walk, WalkNetwork
from isthmus.trace.schema import NONE, Row

SUBMIT, DELIVER = int(Kind.SUBMIT), int(Kind.DELIVER)
LATE = 1e9  # added to the weight of what is late on purpose
LOSS = 0.3  # of datagrams, to each member


class ScriptedMessage(NamedTuple):
    """A message of a script: its class, the process that submits it, and what that process must have delivered."""

    walk: int
    process: int  # place in its group
    after: int = -1  # the message that the process delivers first, by its place in the script; -1: none
    following: int = -1  # the message that the process submits first


class Postponed(NamedTuple):
    """A copy that is late on purpose, at one member or (None) at all; processes are (group, place)."""

    message: int
    copy: int
    member: int | tuple[int, int] | None


Party = int | tuple[int, int]  # a router, or a process by its group and its place there


class Injection(msgspec.Struct, eq=False):
    """A copy that was submitted to a node."""

    message: int
    copy: int
    injector: Party
    bit: int
    depends: int  # the injections that a member takes first, as bits


class AbstractRun:
    """One execution of a script of messages."""

    def __init__(
        self, network: WalkNetwork, script: Sequence[ScriptedMessage], random: Random, late: Collection[Postponed] = ()
    ) -> None:
        self._network = network
        self._walks: tuple[Walk, ...] = network.walks
        self._script = script
        self._random = random
        self._late = {(one.message, one.copy, one.member) for one in late}
        self._heap: list[tuple[float, int, str, int, object]] = []  # weight, tie, what, node or message, the rest
        self._counter = 0
        self._nodes: dict[int, list[Injection]] = {}  # by node, in the order of submission
        self._next: dict[int, list[int]] = {}  # by node that is total: the places, as injections
        self._taken: dict[tuple[int, Party], int] = {}  # what a member has taken in a node, as bits
        self._waiting: dict[tuple[int, Party], list[int]] = {}  # what it may not take yet
        self._outgoing: dict[tuple[int, int], list[tuple[int, int]]] = {}  # router and node: copies to submit
        self._held: dict[tuple[int, int], list[int]] = {}  # what a sender's filter holds
        self._delivered: dict[tuple[int, int], list[int]] = {}  # by process
        self._sent: dict[int, int] = {}  # message to its number, by the order of submits
        self._local: dict[tuple[int, int], int] = {}
        self._members = members_of(network)
        self.rows: list[Row] = []

    def play(self) -> list[Row]:
        for number, sending in enumerate(self._script):
            if sending.after < 0 and sending.following < 0:
                self._push("submit", number, None)
        while self._heap:
            _, _, what, at, rest = heapq.heappop(self._heap)
            if what == "submit":
                self._submit(at)
            elif what == "take":
                self._take(at, *rest)  # type: ignore[misc]
            elif what == "place":
                self._place(at, rest)  # type: ignore[arg-type]
            else:
                self._forward(at, rest)  # type: ignore[arg-type]
        return self.rows

    @property
    def undelivered(self) -> list[tuple[int, int]]:
        """Groups and processes that never delivered a message for them."""
        return [
            (group, process_number(self._network, (group, place)))
            for number, sending in enumerate(self._script)
            if number in self._sent
            for group in self._walks[sending.walk].to
            for place in range(self._network.sizes[group])
            if number not in self._delivered.get((group, place), ())
        ]

    def _push(self, what: str, at: int, rest: object, late: bool = False) -> None:
        self._counter += 1
        weight = self._random.random() + (LATE if late else 0)
        heapq.heappush(self._heap, (weight, self._counter, what, at, rest))

    def _submit(self, number: int) -> None:
        """A process submits; its filter may hold the message back."""
        sending = self._script[number]
        walk = self._walks[sending.walk]
        process = (walk.source, sending.process)
        self._sent[number] = len(self._sent)
        self._row(process, SUBMIT, number, walk.source)
        held = self._held.setdefault(process, [])
        if walk.holds or held:
            held.append(number)
            self._release(process)
        else:
            self._inject(walk.source, number, 0, process)
        for later, other in enumerate(self._script):
            if other.following == number:
                self._push("submit", later, None)

    def _release(self, process: tuple[int, int]) -> None:
        """Send what the filter holds and may go, in order; what is outstanding with a higher X holds all after it."""
        held = self._held.get(process, [])
        while held:
            number = held[0]
            walk = self._walks[self._script[number].walk]
            if any(self._outstanding(other, process, walk) for other in self._sent if other != number):
                return
            held.pop(0)
            self._inject(walk.source, number, 0, process)

    def _outstanding(self, number: int, process: tuple[int, int], later: Walk) -> bool:
        """Whether a message of a process with a higher ordering node has not come back to it."""
        sending = self._script[number]
        walk = self._walks[sending.walk]
        if (walk.source, sending.process) != process or not walk.holds or walk.domain != later.domain:
            return False
        if walk.level >= later.level or number in self._held.get(process, ()):
            return False
        bits = self._taken.get((walk.source, process), 0)
        return not any(
            one.message == number and one.copy == walk.own and bits >> one.bit & 1
            for one in self._nodes.get(walk.source, ())
        )

    def _inject(self, node: int, message: int, copy: int, injector: Party) -> None:
        """Submit a copy to a node; its dependencies follow from the node's order."""
        keeps = self._network.keeps[node]
        injections = self._nodes.setdefault(node, [])
        bit = len(injections)
        own = 0
        for earlier in injections:
            if earlier.injector == injector and self._ranked(earlier.message, message):
                own |= 1 << earlier.bit
        depends = own if keeps.fifo else 0
        if keeps.causal and not keeps.total:
            depends |= self._ranks(node, self._taken.get((node, injector), 0), message)
        injections.append(Injection(message, copy, injector, bit, depends))
        if keeps.total:
            late = (message, copy, None) in self._late
            self._push("place", node, bit, late)
            return
        prompt = self._network.prompt[node]
        if prompt:
            self._take(node, injector, bit)
        for member in self._members[node]:
            if member != injector or not prompt:
                if self._network.lossy[node] and self._random.random() < LOSS:
                    continue
                self._offer(node, member, bit)

    def _ranks(self, node: int, bits: int, message: int) -> int:
        """Of some injections, those whose order with a message the node keeps: all, unless there are priorities."""
        kept = 0
        for one in self._nodes[node]:
            if bits >> one.bit & 1 and self._ranked(one.message, message):
                kept |= 1 << one.bit
        return kept

    def _ranked(self, one: int, other: int) -> bool:
        """Whether the order of two messages is kept: priorities tell those inside a group from those between."""
        first, second = self._walks[self._script[one].walk], self._walks[self._script[other].walk]
        return not (first.sheltered and second.sheltered) or first.is_intra == second.is_intra

    def _offer(self, node: int, member: Party, bit: int) -> None:
        """Let a member take a copy some time; it may have to wait for others."""
        one = self._nodes[node][bit]
        late = (one.message, one.copy, member) in self._late or (one.message, one.copy, None) in self._late
        self._push("take", node, (member, bit), late)

    def _place(self, node: int, bit: int) -> None:
        """Give a copy the next place in a node's total order, once those that must precede it have theirs."""
        order = self._next.setdefault(node, [])
        placed = sum(1 << one for one in order)
        injections = self._nodes[node]
        if injections[bit].depends & ~placed:
            self._waiting.setdefault((node, -1), []).append(bit)
            return
        ready = [bit]
        while ready:
            one = ready.pop(0)
            injections[one].depends = self._ranks(node, sum(1 << earlier for earlier in order), injections[one].message)
            order.append(one)
            placed |= 1 << one
            for member in self._members[node]:
                self._offer(node, member, one)
            waiting = self._waiting.get((node, -1), [])
            free = [other for other in waiting if not injections[other].depends & ~placed]
            self._waiting[node, -1] = [other for other in waiting if other not in free]
            ready += free

    def _take(self, node: int, member: Party, bit: int) -> None:
        """A member takes a copy, or waits for what must precede it, and then takes what waited for this one."""
        one = self._nodes[node][bit]
        taken = self._taken.get((node, member), 0)
        if one.depends & ~taken:
            self._waiting.setdefault((node, member), []).append(bit)
            return
        self._taken[node, member] = taken | 1 << bit
        walk = self._walks[self._script[one.message].walk]
        if isinstance(member, int):
            for number, copy in enumerate(walk.copies):
                if copy.before == one.copy and copy.router == member:
                    self._outgoing.setdefault((member, copy.node), []).append((one.message, number))
                    self._push("forward", member, copy.node)
        else:
            if walk.copies[one.copy].for_application:
                self._deliver(member, one.message)
            if self._held.get(member):
                self._release(member)
        for other in self._waiting.pop((node, member), []):
            self._take(node, member, other)

    def _forward(self, router: int, node: int) -> None:
        """A router submits the first of what it has for one output."""
        message, copy = self._outgoing[router, node].pop(0)
        self._inject(node, message, copy, router)

    def _deliver(self, process: tuple[int, int], message: int) -> None:
        self._row(process, DELIVER, message, process[0])
        self._delivered.setdefault(process, []).append(message)
        for number, sending in enumerate(self._script):
            own = (self._walks[sending.walk].source, sending.process)
            if own == process and sending.after == message:
                self._push("submit", number, None)

    def _row(self, process: tuple[int, int], kind: int, message: int, group: int) -> None:
        local = self._local[process] = self._local.get(process, -1) + 1
        sending = self._script[message]
        source = self._walks[sending.walk].source
        sender = process_number(self._network, (source, sending.process))
        name = (source, sender, self._sent[message])
        at = process_number(self._network, process)
        self.rows.append((0, at, local, len(self.rows), kind, *name, group, NONE, None, 1, 0, 0, 0))


def process_number(network: WalkNetwork, process: tuple[int, int]) -> int:
    """Processes are numbered group by group."""
    return sum(network.sizes[: process[0]]) + process[1]


def members_of(network: WalkNetwork) -> dict[int, list[Party]]:
    """The processes of each node, and the routers that some walk takes through it."""
    found: dict[int, dict[Party, None]] = {
        node: {(node, place): None for place in range(size)} for node, size in enumerate(network.sizes)
    }
    for walk in network.walks:
        for copy in walk.copies:
            if copy.router != SENDER:
                found[copy.node].setdefault(copy.router)
                found[walk.copies[copy.before].node].setdefault(copy.router)
    return {node: list(members) for node, members in found.items()}
