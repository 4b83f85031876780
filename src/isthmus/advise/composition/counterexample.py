"""Counterexamples to a guarantee: executions of a composition that the trace's own checks find at fault.

The calculus names a late copy and the chain that passes it, which `play` executes; or a node at which two receivers
come to disagree, or ways that form a cycle: then executions are drawn until one is at fault. Whatever is found is
judged by judge/oracle.py over the domain, end to end. Datagrams are refuted by a message that never arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from isthmus.advise.composition.abstract_run import AbstractRun, Postponed, ScriptedMessage
from isthmus.judge.oracle import Oracle
from isthmus.judge.verdict import Verdict
from isthmus.protocols.routing.calculus.model import DomainScope
from isthmus.protocols.routing.calculus.orientation import Conflict, comparable_parts, disagreement
from isthmus.protocols.routing.calculus.overtaking import PROCESS, Overtaking, overtaking
from isthmus.protocols.routing.calculus.walks import WalkNetwork
from isthmus.trace.domain import Domain
from isthmus.trace.schema import Row

NAME = "domain"
TRIES = 400  # executions drawn for one conflict
MESSAGES_MAX = 6  # in a drawn execution
PROCESSES_MAX = 3  # of a group that take part: the sender, one that answers, and one that lacks something


class Found(NamedTuple):
    """An execution, and the verdict that it earns; no verdict: a message was lost."""

    rows: tuple[Row, ...]
    verdict: Verdict | None
    missing: tuple[tuple[int, int], ...] = ()  # groups and processes that never deliver it
    reordered: Found | None = None  # of datagrams, too: an execution in which two messages change places


def judge_domain(network: WalkNetwork, rows: Iterable[Row], scope: DomainScope, property_name: str) -> Verdict:
    """Return the verdict of the trace's check for all groups that the walks visit, end to end."""
    groups = sorted({group for walk in network.walks for group in (walk.source, *walk.to)})
    oracle = Oracle(rows, [Domain(NAME, tuple(groups), scope)])
    return next(one for one in oracle.scoped([property_name]) if one.domain == NAME)


def is_fault(verdict: Verdict) -> bool:
    return verdict.status == "violated"


def counterexample(network: WalkNetwork, scope: DomainScope, part: str, random: Random) -> Found | None:
    """An execution that breaks fifo, causal or total order, where the calculus refuses it; None: none was found."""
    network = network._replace(sizes=tuple(min(size, PROCESSES_MAX) for size in network.sizes))
    if any(network.lossy[copy.node] for walk in network.walks for copy in walk.copies):
        found = loss(network, random)
        return None if found is None else found._replace(reordered=reordering(network, scope, random))
    if part == "total":
        conflict = disagreement(network)
        if conflict is not None:
            return draw_disagreement(network, scope, conflict, random)
    else:
        late = overtaking(network, relays=part == "causal")
        if late is not None:
            rows = play(network, late, random)
            verdict = judge_domain(network, rows, scope, part)
            return Found(tuple(rows), verdict) if is_fault(verdict) else None
    return draw_any(network, scope, part, random)


def draw_any(network: WalkNetwork, scope: DomainScope, part: str, random: Random) -> Found | None:
    """Draw executions of all classes: for what is refused because ways form a cycle, with no other reason."""
    for _ in range(TRIES):
        rows = AbstractRun(network, drawn_script(network, random, random.randint(2, MESSAGES_MAX)), random).play()
        verdict = judge_domain(network, rows, scope, part)
        if is_fault(verdict):
            return Found(tuple(rows), verdict)
    return None


def play(network: WalkNetwork, found: Overtaking, random: Random) -> list[Row]:
    """The execution that an overtaking describes: the late message, then the chain."""
    late, walk = found.late, network.walks[found.late.walk]
    lacking = 0 if late.at_sender else network.sizes[found.receiver] - 1
    script = [ScriptedMessage(late.walk, 0)]
    for link in found.chain:
        group = network.walks[link.walk].source
        if link.by_sender and link.after < 0:
            script.append(ScriptedMessage(link.walk, 0, following=0))
            continue
        process = 0 if link.by_sender else colleague(network, group, walk.source, found)
        script.append(ScriptedMessage(link.walk, process, after=link.after + 1))
    member: int | tuple[int, int] | None = late.taker
    if late.at_all:
        member = None
    elif late.taker == PROCESS:
        member = (found.receiver, lacking)
    return AbstractRun(network, script, random, [Postponed(0, late.copy, member)]).play()


def colleague(network: WalkNetwork, group: int, source: int, found: Overtaking) -> int:
    """A process of a group that may act in a chain: not the sender, nor the one that lacks the message."""
    taken = {0} if group == source else set()
    if group == found.receiver and found.late.taker == PROCESS and not found.late.at_all:
        taken.add(0 if found.late.at_sender else network.sizes[group] - 1)
    return next((place for place in range(network.sizes[group]) if place not in taken), 0)


def draw_disagreement(network: WalkNetwork, scope: DomainScope, conflict: Conflict, random: Random) -> Found | None:
    """Draw executions of the classes at fault, then of all that can be compared with them."""
    part = next(one for one in comparable_parts(network) if all(walk in one for walk in conflict.walks))
    for attempt in range(TRIES):
        walks = list(conflict.walks)
        if attempt >= TRIES // 4:
            near = [walk for walk in part if shares(network, walk, walks)] or list(part)
            walks += [random.choice(near) for _ in range(random.randint(1, 3))]
        script = [sending(network, random.choice(walks), random) for _ in range(MESSAGES_MAX - len(walks))]
        script += [sending(network, walk, random) for walk in walks]
        random.shuffle(script)
        rows = AbstractRun(network, script, random).play()
        verdict = judge_domain(network, rows, scope, "total")
        if is_fault(verdict):
            return Found(tuple(rows), verdict)
    return None


def shares(network: WalkNetwork, walk: int, others: Sequence[int]) -> bool:
    to = set(network.walks[walk].to)
    return any(to & set(network.walks[other].to) for other in others)


def sending(network: WalkNetwork, walk: int, random: Random) -> ScriptedMessage:
    return ScriptedMessage(walk, random.randrange(network.sizes[network.walks[walk].source]))


def loss(network: WalkNetwork, random: Random) -> Found | None:
    """Datagrams: an execution in which a message never arrives."""
    passing = [
        number for number, walk in enumerate(network.walks) if any(network.lossy[copy.node] for copy in walk.copies)
    ]
    for _ in range(TRIES):
        run = AbstractRun(network, [ScriptedMessage(random.choice(passing), 0)], random)
        rows = run.play()
        if run.undelivered:
            return Found(tuple(rows), None, tuple(run.undelivered))
    return None


def reordering(network: WalkNetwork, scope: DomainScope, random: Random) -> Found | None:
    """Datagrams: an execution in which nothing that matters is lost, but one sender's messages change places."""
    found = overtaking(network, relays=False)
    for _ in range(TRIES if found is not None else 0):
        assert found is not None
        rows = play(network, found, random)
        verdict = judge_domain(network, rows, scope, "fifo")
        if is_fault(verdict):
            return Found(tuple(rows), verdict)
    return None


def drawn_script(network: WalkNetwork, random: Random, count: int) -> list[ScriptedMessage]:
    """Messages of any classes; most are answers to one that their sender delivers first."""
    script: list[ScriptedMessage] = []
    for number in range(count):
        answered = random.randrange(number) if number and random.random() < 0.6 else -1
        if answered >= 0:
            to = set(network.walks[script[answered].walk].to)
            answers = [at for at, walk in enumerate(network.walks) if walk.source in to]
            if answers:
                script.append(sending(network, random.choice(answers), random)._replace(after=answered))
                continue
        script.append(sending(network, random.randrange(len(network.walks)), random))
    return script
