"""Histories for the checks: many runs as one DataFrame, and random ones, most of them with a mistake or two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.unit.judge.stories import Story

from isthmus.core.layer import Kind
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.domain import Domain
from isthmus.trace.schema import KIND, LOCAL, ORIGIN, TIME_NS, Row

DELIVER = Kind.DELIVER
MISTAKES = ("none", "drop", "swap", "twice", "astray", "unsent", "bytes", "again", "view", "members", "unflushed")


def frame(spark: SparkSession, runs: Sequence[Iterable[Row]]) -> DataFrame:
    """The rows of several runs, numbered from 0."""
    rows = [(number, *row[1:]) for number, run in enumerate(runs) for row in run]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return spark.createDataFrame(pa.table(arrays, schema=SCHEMA))


def statuses(verdicts: DataFrame) -> dict[tuple[int, int | str, str], str]:
    """(run, group or name of the domain, property) to its status."""
    return {(row["run"], row["domain"] or row["group"], row["property"]): row["status"] for row in verdicts.collect()}


def random_rows(seed: int, mistakes: Sequence[str] = MISTAKES) -> list[Row]:
    """A small run: views or none, crashes and recoveries, subsets, replies; and a mistake of one kind."""
    return RandomStory(Random(f"history/{seed}"), mistakes).tell()


def guessed(rows: list[Row], random: Random) -> list[Row]:
    """The same run with tentative deliveries before most final ones; in half of the runs some are out of place."""
    mistake = random.choice(["", "", "", "again", "after", "revoked"])
    told: list[Row] = []
    for row in rows:
        place = 4 * row[LOCAL]  # room for rows before and after
        told.append((*row[:LOCAL], place + 1, *row[TIME_NS:]))
        if row[KIND] != DELIVER or random.random() < 0.2:
            continue
        wrong = random.random() < 0.1
        steps = [(place + 2 if wrong and mistake == "after" else place, Kind.TENTATIVE)]
        if wrong and mistake in ("again", "revoked"):
            steps.append((place + 2, Kind.TENTATIVE if mistake == "again" else Kind.REVOKE))
        told += [(*row[:LOCAL], local, row[TIME_NS], int(kind), *row[ORIGIN:]) for local, kind in steps]
    return told


class RandomStory:
    """Messages go into the queues of their addressees in one order; processes take from the head, or make mistakes."""

    def __init__(self, random: Random, mistakes: Sequence[str]) -> None:
        self.random = random
        self.story = Story()
        self.mistake = random.choice(mistakes)
        self.rate = random.choice([0.05, 0.2])
        self.processes = list(range(1, random.randint(3, 5)))
        self.up = list(self.processes)
        self.numbers = dict.fromkeys(self.processes, 0)
        self.lives = dict.fromkeys(self.processes, 0)
        self.queues: dict[int, list[tuple[int, int]]] = {}
        self.private = random.random() < 0.4  # queues in an order of their own: no total order

    def tell(self) -> list[Row]:
        dynamic = self.random.random() < 0.6
        phases = self.random.randint(1, 4) if dynamic else 1
        for number in range(1, phases + 1):
            members = [process for process in self.up if self.random.random() < 0.9] or self.up
            if dynamic:
                self.install(number, tuple(members))
            self.queues = {process: [] for process in members}
            for _ in range(self.random.randint(2, 14)):
                self.act(members)
            self.close(members)
            if dynamic or self.random.random() < 0.3:
                self.change()
        return self.story.rows

    def install(self, number: int, members: tuple[int, ...]) -> None:
        for process in members:
            told = number - 1 if self.wrong("view") and number > 1 else number
            said = tuple(reversed(members)) if self.wrong("members") else members
            self.story.view(told, *said, at=(process,))

    def wrong(self, mistake: str) -> bool:
        return self.mistake == mistake and self.random.random() < self.rate

    def act(self, members: list[int]) -> None:
        process = self.random.choice(members)
        if process not in self.up:
            return
        if self.random.random() < 0.4:
            self.submit(process, members)
        elif self.random.random() < 0.03:
            self.crash(process)
        elif self.queues[process]:
            self.take(process)

    def submit(self, process: int, members: list[int]) -> None:
        self.numbers[process] += 1
        message = (process, self.numbers[process])
        some = tuple(member for member in members if self.random.random() < 0.6)
        to = some if some and self.random.random() < 0.4 else None
        self.story.submit(*message, to=to)
        if self.wrong("again"):
            self.story.submit(*message, to=to)
        for member in to or members:
            queue = self.queues[member]
            queue.insert(self.random.randint(0, len(queue)) if self.private else len(queue), message)

    def take(self, process: int) -> None:
        queue = self.queues[process]
        at = self.random.randrange(len(queue)) if self.wrong("swap") else 0
        message = queue.pop(at)
        if self.wrong("drop"):
            return
        if self.wrong("unsent"):
            message = (message[0], message[1] + 50)
        self.story.deliver(process, message, payload_bytes=9 if self.wrong("bytes") else 10)
        if self.wrong("twice"):
            self.story.deliver(process, message)
        if self.wrong("astray"):
            self.story.deliver(self.random.choice(self.up), message)

    def close(self, members: list[int]) -> None:
        for process in self.random.sample(members, len(members)):
            while process in self.up and self.queues[process] and not self.wrong("unflushed"):
                self.take(process)

    def crash(self, process: int) -> None:
        if len(self.up) > 2:
            self.up.remove(process)
            self.story.crash(process)

    def change(self) -> None:
        what = self.random.random()
        if what < 0.3:
            self.crash(self.random.choice(self.up))
        elif what < 0.7 and len(self.up) < len(self.processes):
            back = self.random.choice([process for process in self.processes if process not in self.up])
            self.lives[back] += 1
            self.numbers[back] = self.lives[back] << 32
            self.story.recover(back, self.lives[back])
            self.up.append(back)
        elif what < 0.75:
            one, other = self.random.sample(self.processes, 2)
            self.story.add(one, Kind.SUSPECT, value=other)


GROUPS = {0: (1, 2, 3), 1: (3, 4, 5), 2: (1, 5)}
DOMAINS = (Domain("all", (0, 1, 2)), Domain("inter", (0, 1, 2), "inter"), Domain("two", (1, 2)))
GROUP_MISTAKES = ("none", "none", "drop", "swap", "twice", "unsent", "bytes", "again", "astray")


def random_groups(seed: int, mistakes: Sequence[str] = GROUP_MISTAKES) -> list[Row]:
    """A small run of several groups that share processes; some messages are carried from one to another."""
    return GroupStory(Random(f"groups/{seed}"), mistakes).tell()


class GroupStory:
    """Each process takes from the queue of one of its groups; in orderly runs, from the one with the oldest message."""

    def __init__(self, random: Random, mistakes: Sequence[str]) -> None:
        self.random = random
        self.story = Story()
        self.mistake = random.choice(mistakes)
        self.rate = random.choice([0.05, 0.2])
        self.orderly = random.random() < 0.5
        self.carries = random.choice([0.0, 0.3, 0.8])
        self.numbers: Counter[tuple[int, int]] = Counter()
        self.count = 0  # of messages put into queues
        self.queues: dict[tuple[int, int], list[tuple[int, tuple[int, int, int]]]] = {}
        self.down: set[int] = set()

    def wrong(self, mistake: str) -> bool:
        return self.mistake == mistake and self.random.random() < self.rate

    def tell(self) -> list[Row]:
        for group, members in GROUPS.items():
            for process in members:
                self.queues[group, process] = []
            if self.random.random() < 0.5:
                self.story.view(1, *members, group=group)
        for _ in range(self.random.randint(5, 40)):
            if self.random.random() < 0.35:
                self.submit()
            else:
                self.take()
            if self.random.random() < 0.01:
                self.crash()
        while any(queue for (_, process), queue in self.queues.items() if process not in self.down):
            self.take()
        return self.story.rows

    def crash(self) -> None:
        process = self.random.choice([3, 4])
        if process not in self.down:
            self.down.add(process)
            self.story.crash(process)

    def submit(self) -> None:
        group = self.random.choice(list(GROUPS))
        sender = self.random.choice(GROUPS[group])
        if sender in self.down:
            return
        self.numbers[group, sender] += 1
        message = (group, sender, self.numbers[group, sender])
        some = tuple(member for member in GROUPS[group] if self.random.random() < 0.7)
        to = some if some and self.random.random() < 0.3 else None
        for _ in range(2 if self.wrong("again") else 1):
            self.story.submit(*message[1:], to=to, group=group)
        self.enter(group, message, to or GROUPS[group])
        if self.random.random() < self.carries:
            for other in GROUPS:
                if other != group and self.random.random() < 0.7:
                    self.enter(other, message, GROUPS[other])

    def enter(self, group: int, message: tuple[int, int, int], members: Sequence[int]) -> None:
        self.count += 1
        for member in members:
            queue = self.queues[group, member]
            at = len(queue) if self.orderly or self.random.random() < 0.8 else self.random.randint(0, len(queue))
            queue.insert(at, (self.count, message))

    def take(self) -> None:
        ready = [key for key, queue in self.queues.items() if queue and key[1] not in self.down]
        if not ready:
            return
        process = self.random.choice(ready)[1]
        own = [key for key in ready if key[1] == process]
        oldest = min(own, key=lambda key: self.queues[key][0][0])
        group, _ = place = oldest if self.orderly else self.random.choice(own)
        queue = self.queues[place]
        _, message = queue.pop(self.random.randrange(len(queue)) if self.wrong("swap") else 0)
        if self.wrong("drop"):
            return
        origin, *name = message
        if self.wrong("unsent"):
            name[1] += 50
        size = 9 if self.wrong("bytes") else 10
        for _ in range(2 if self.wrong("twice") else 1):
            self.story.deliver(process, (name[0], name[1]), payload_bytes=size, group=group, origin=origin)
        if self.wrong("astray"):
            self.story.deliver(self.random.choice([1, 2, 5]), (name[0], name[1]), group=group, origin=origin)
