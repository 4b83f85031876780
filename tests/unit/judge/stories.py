"""Traces written as stories: a few words a row, for tests that plant one mistake at a time."""

from __future__ import annotations

from isthmus.core.layer import Kind
from isthmus.judge.oracle import Oracle
from isthmus.judge.verdict import Verdict
from isthmus.trace.schema import NONE, TIME_NS, Gauge, Recording, Row


class Story:
    """Builds rows; each process numbers its own."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.locals: dict[int, int] = {}

    def add(
        self,
        process: int,
        kind: Kind,
        message: tuple[int, int] = (NONE, NONE),
        to: tuple[int, ...] | None = None,
        payload_bytes: int = 0,
        value: int = 0,
        group: int = 0,
        origin: int | None = None,
        gauge: int = 0,
    ) -> Story:
        """Add a row; a message is of the group where the row happens, unless another origin is named."""
        born = NONE if message[0] == NONE else group if origin is None else origin
        local = self.locals[process] = self.locals.get(process, -1) + 1
        time_ns = 1000 * len(self.rows)
        self.rows.append(
            (0, process, local, time_ns, kind, born, *message, group, 0, to, payload_bytes, 0, value, gauge)
        )
        return self

    def submit(self, sender: int, *numbers: int, to: tuple[int, ...] | None = None, group: int = 0) -> Story:
        for number in numbers:
            self.add(sender, Kind.SUBMIT, (sender, number), to, 10, group=group)
        return self

    def deliver(
        self,
        process: int,
        *messages: tuple[int, int],
        payload_bytes: int = 10,
        group: int = 0,
        origin: int | None = None,
    ) -> Story:
        for message in messages:
            self.add(process, Kind.DELIVER, message, None, payload_bytes, group=group, origin=origin)
        return self

    def clock(self, process: int, time_ns: int, reading_ns: int, error_ns: int | None = None) -> Story:
        """A reading of a clock at a true time, and the error that it publishes with it."""
        told = () if error_ns is None else ((Kind.GAUGE, error_ns, Gauge.CLOCK_BOUND_NS),)
        for kind, value, gauge in ((Kind.CLOCK, reading_ns, 0), *told):
            self.add(process, kind, value=value, gauge=gauge)
            self.rows[-1] = (*self.rows[-1][:TIME_NS], time_ns, *self.rows[-1][TIME_NS + 1 :])  # type: ignore[assignment]
        return self

    def tentative(self, process: int, *messages: tuple[int, int]) -> Story:
        for message in messages:
            self.add(process, Kind.TENTATIVE, message)
        return self

    def view(
        self,
        number: int,
        *members: int,
        at: tuple[int, ...] | None = None,
        group: int = 0,
        weights: tuple[int, ...] = (),
    ) -> Story:
        gauge = len(members) if weights else 0
        for process in members if at is None else at:
            self.add(process, Kind.VIEW, to=(*members, *weights), value=number, group=group, gauge=gauge)
        return self

    def crash(self, process: int) -> Story:
        return self.add(process, Kind.CRASH)

    def recover(self, process: int, incarnation: int = 1) -> Story:
        return self.add(process, Kind.RECOVER, value=incarnation)

    def verdict(self, name: str) -> Verdict:
        return Oracle(self.rows).verdicts([name])[0]

    def status(self, name: str) -> str:
        return self.verdict(name).status


def quiet_run() -> Story:
    """Three processes, two views, four messages, a good guess: everything holds and is seen to hold."""
    story = Story().view(1, 1, 2, 3).submit(1, 1, 2).submit(2, 1).tentative(2, (2, 1), (1, 1))
    for process in (1, 2, 3):
        story.deliver(process, (1, 1), (2, 1), (1, 2))
    story.view(2, 1, 2, 3).submit(3, 1)
    for process in (1, 2, 3):
        story.deliver(process, (3, 1))
    return story


def answers() -> Story:
    """1:1 answers 2:1, and 2:1 answers 1:1."""
    return Story().deliver(1, (2, 1)).submit(1, 1).deliver(2, (1, 1)).submit(2, 1).deliver(1, (1, 1)).deliver(2, (2, 1))


def recorded(end: Recording | None) -> Story:
    """A run whose recording began, and perhaps ended or was cut short; process 2 lacks a delivery."""
    story = Story()
    for process in (1, 2):
        story.add(process, Kind.RECORD, value=Recording.BEGUN)
    story.view(1, 1, 2).submit(1, 1, 2).deliver(1, (1, 1), (1, 2)).deliver(2, (1, 1))
    for process in (1, 2) if end is not None else ():
        story.add(process, Kind.RECORD, value=end or 0)
    return story
