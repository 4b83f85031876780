"""Runs of two groups between which a courier carries messages: their scenarios, and their judge.

To judge a group by itself, a courier counts as the sender of what it forwards into the group, with its next number: all
that it submits there is one sequence with all the guarantees of the stack.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from random import Random

import msgspec

from isthmus.core.layer import Kind
from isthmus.fuzz.judge import FuzzResult, judge_run
from isthmus.fuzz.networks import random_workloads
from isthmus.fuzz.scenarios import is_borne, random_scenario, random_stack
from isthmus.fuzz.watch import WatchedRun
from isthmus.judge.judgement import Judgement, promised
from isthmus.judge.oracle import Oracle
from isthmus.scenario.model import GroupSpec, Scenario
from isthmus.trace.schema import GROUP, KIND, NUMBER, ORIGIN, PROCESS, SENDER, MessageKey, Row

EVERYWHERE = (Kind.CRASH, Kind.RECOVER)  # rows about a site as a whole
SHIFT = 20  # a forwarded message is numbered below the next own one, whose number is shifted by this


def rows_of_group(rows: Iterable[Row], group: int) -> list[Row]:
    """Return the rows of a group, in order, with forwarded messages renamed to their couriers."""
    mine = [row for row in rows if row[GROUP] == group or row[KIND] in EVERYWHERE]
    if all(row[ORIGIN] in (group, -1) for row in mine):
        return mine
    names: dict[MessageKey, tuple[int, int]] = {}
    last: dict[int, int] = {}  # process to the number of its last submit
    for row in mine:
        if row[KIND] == Kind.SUBMIT:
            own = row[ORIGIN] == group
            number = row[NUMBER] << SHIFT if own else last.get(row[PROCESS], 0) + 1
            last[row[PROCESS]] = number
            names.setdefault(key_of(row), (row[PROCESS], number))
    return [renamed(row, group, names) for row in mine]


def renamed(row: Row, group: int, names: dict[MessageKey, tuple[int, int]]) -> Row:
    """Return a row with its message renamed for the group; a message that was never submitted there keeps its name."""
    if row[ORIGIN] == -1:
        return row
    unknown = (row[SENDER], row[NUMBER] << SHIFT)
    return (*row[:ORIGIN], group, *names.get(key_of(row), unknown), *row[GROUP:])


def key_of(row: Row) -> MessageKey:
    return row[ORIGIN], row[SENDER], row[NUMBER]


def strangers(rows: Iterable[Row]) -> list[str]:
    """Report deliveries of messages that their author never submitted in the group of origin."""
    submitted: set[MessageKey] = set()
    delivered: dict[MessageKey, Row] = {}
    for row in rows:
        key = key_of(row)
        if row[KIND] == Kind.SUBMIT and row[GROUP] == row[ORIGIN] and row[PROCESS] == row[SENDER]:
            submitted.add(key)
        elif row[KIND] == Kind.DELIVER:
            delivered.setdefault(key, row)
    return [
        f"process {row[PROCESS]} delivered {sender}:{number} of group {origin} in group {row[GROUP]}: never submitted"
        for (origin, sender, number), row in delivered.items()
        if (origin, sender, number) not in submitted
    ]


def judge_bridged(run: WatchedRun, rows: list[Row]) -> FuzzResult:
    """Execute a run that writes into rows, and judge each of its groups by itself."""
    found = judge_run(run, rows)
    if found.result.error:
        return found
    verdicts = [Oracle(rows_of_group(rows, one.id)).in_group(one.id, promised(run.scenario, one)) for one in run.groups]
    assert found.result.judgement is not None
    judgement: Judgement = msgspec.structs.replace(
        found.result.judgement, verdicts=tuple(chain.from_iterable(verdicts))
    )
    result = msgspec.structs.replace(found.result, judgement=judgement)
    return FuzzResult(result, (*found.found, *strangers(rows)))


def bridged_scenario(first: str, second: str, seed: int) -> Scenario:
    """Return two groups with stacks, traffic and views of their own, which share one site, some, or all.

    The first site of the second group is in both.
    """
    plain = random_scenario(first, seed)
    random = Random(f"bridged/{first}/{second}/{seed}")
    names = [site.name for site in plain.topology.sites]
    random.shuffle(names)
    bridge = random.randrange(1, len(names)) if len(names) > 2 else len(names)
    members = {
        "first": names[:bridge] if random.random() < 0.7 and bridge > 1 else names,
        "second": names[bridge - 1 :] if bridge < len(names) else names,
    }
    direct = plain.stack.transport == "direct" and is_borne(plain, second)
    stack = random_stack(second, names, random, direct)
    traffic = [
        msgspec.structs.replace(workload, group=group)
        for group, sites in members.items()
        for workload in random_workloads(random, sites, plain.duration_ms)
    ]
    return msgspec.structs.replace(
        plain,
        name=f"bridged-{first}-{second}-{seed}",
        membership=msgspec.structs.replace(plain.membership, majority=False),
        groups=(
            GroupSpec(name="first", sites=tuple(members["first"])),
            GroupSpec(name="second", sites=tuple(members["second"]), stack=stack),
        ),
        workloads=tuple(traffic),
    )
