"""Each way to break a property, planted in a history that keeps them all: exactly the checks that should, find it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from histories import frame, statuses
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession
from tests.unit.judge.stories import Story

from isthmus.core.errors import InputError
from isthmus.core.layer import Kind
from isthmus.judge.oracle import PROPERTIES
from isthmus.pipeline.check import verdicts as on_spark
from isthmus.trace.domain import DOMAIN_PROPERTIES, Domain
from isthmus.trace.schema import DESTINATIONS, KIND, LOCAL, NUMBER, PAYLOAD, PROCESS, SENDER, VALUE, Gauge, Row

check = partial(on_spark.check, run_rows_max=0)  # by tables that all tasks share, however short a run is
pytestmark = pytest.mark.full  # minutes of Spark

TENTATIVE, DELIVER, REVOKE, SUBMIT, VIEW = Kind.TENTATIVE, Kind.DELIVER, Kind.REVOKE, Kind.SUBMIT, Kind.VIEW
ORDER = {"total", "uniform-total", "fifo-total"}
BOUNDS = {"clock-precision": 1_000, "clock-accuracy": 2_000}
Change = Callable[[list[Row]], list[Row]]


def good() -> Story:
    """Two views, a message to some, an answer, tentative deliveries, clocks: everything holds."""
    story = Story().view(1, 1, 2, 3).submit(1, 1).submit(2, 1).submit(1, 2)
    for process in (1, 2, 3):
        tell(story, process, (1, 1), (2, 1), (1, 2))
    story.submit(3, 1, to=(1, 2))
    for process in (1, 2):
        tell(story, process, (3, 1))
    story.view(2, 1, 2, 3).submit(1, 3).submit(2, 2)
    for process in (1, 2, 3):
        tell(story, process, (1, 3), (2, 2))
    story.submit(3, 2)  # after it delivered all
    for process in (1, 2, 3):
        tell(story, process, (3, 2))
        local = story.locals[process] = story.locals[process] + 1
        story.rows.append(
            (0, process, local, 10**6, Kind.CLOCK, -1, -1, -1, 0, 2, None, 0, 0, 10**6 + 300 * process, 0)
        )
    return story


def tell(story: Story, process: int, *messages: tuple[int, int]) -> None:
    for message in messages:
        story.add(process, TENTATIVE, message, payload_bytes=10)
        story.deliver(process, message)


def at(rows: list[Row], process: int, kind: int, *message: int) -> int:
    """The index of a row."""
    return next(
        index
        for index, row in enumerate(rows)
        if (row[PROCESS], row[KIND]) == (process, kind) and (not message or (row[SENDER], row[NUMBER]) == message)
    )


def put(row: Row, place: int, value: object) -> Row:
    return (*row[:place], value, *row[place + 1 :])  # type: ignore[return-value]


def drop(process: int, *message: int) -> Change:
    return lambda rows: [row for index, row in enumerate(rows) if index != at(rows, process, DELIVER, *message)]


def swap(process: int, one: tuple[int, int], other: tuple[int, int]) -> Change:
    """Final deliveries trade places; the tentative ones stay."""

    def change(rows: list[Row]) -> list[Row]:
        a, b = at(rows, process, DELIVER, *one), at(rows, process, DELIVER, *other)
        rows[a], rows[b] = put(rows[a], LOCAL, rows[b][LOCAL]), put(rows[b], LOCAL, rows[a][LOCAL])
        return rows

    return change


def add(process: int, kind: Kind, message: tuple[int, int], payload_bytes: int = 10) -> Change:
    """One more row at the end of a process."""
    end = 1 << 20
    return lambda rows: [*rows, (0, process, end, 10**7, kind, 0, *message, 0, 2, None, payload_bytes, 0, 0, 0)]


def alter(process: int, kind: Kind, place: int, value: object, *message: int, last: bool = False) -> Change:
    def change(rows: list[Row]) -> list[Row]:
        if last:
            index = max(i for i, row in enumerate(rows) if (row[PROCESS], row[KIND]) == (process, kind))
        else:
            index = at(rows, process, kind, *message)
        rows[index] = put(rows[index], place, value)
        return rows

    return change


def move_behind_view(process: int, *message: int) -> Change:
    """The delivery that closes view 1 comes after the VIEW row of view 2."""

    def change(rows: list[Row]) -> list[Row]:
        view = max(i for i, row in enumerate(rows) if (row[PROCESS], row[KIND]) == (process, VIEW))
        index = at(rows, process, DELIVER, *message)
        rows[view], rows[index] = put(rows[view], LOCAL, rows[index][LOCAL]), put(rows[index], LOCAL, rows[view][LOCAL])
        return rows

    return change


PLANTED: dict[str, tuple[Change, set[str]]] = {
    "nothing": (lambda rows: rows, set()),
    "the last of a sender is never delivered": (drop(2, 3, 2), {"agreement", "uniform-agreement", "validity", "final"}),
    "what an answer answers is never delivered": (
        drop(1, 2, 2),
        {"agreement", "uniform-agreement", "validity", "causal", "final"},
    ),
    "an earlier one is never delivered": (
        drop(3, 1, 1),
        {"agreement", "uniform-agreement", "validity", "fifo", "causal", "fifo-total", "final"},
    ),
    "two of one sender trade places": (swap(3, (1, 1), (1, 2)), {"fifo", "causal", "final", *ORDER}),
    "two that know nothing of one another trade places": (swap(3, (1, 3), (2, 2)), {"final", *ORDER}),
    "an answer comes before what it answers": (swap(1, (2, 2), (3, 2)), {"causal", "final", *ORDER}),
    "delivered twice": (add(2, DELIVER, (1, 3)), {"integrity"}),
    "delivered where it is not addressed to": (alter(3, SUBMIT, DESTINATIONS, (1,), 3, 1), {"integrity"}),
    "never submitted": (add(2, DELIVER, (2, 9)), {"integrity"}),
    "other bytes": (alter(2, DELIVER, PAYLOAD, 9, 1, 1), {"integrity"}),
    "submitted twice": (add(1, SUBMIT, (1, 3)), {"integrity"}),
    "one view late": (move_behind_view(3, 1, 2), {"agreement", "uniform-agreement", "sending-view"}),
    "members in another order": (alter(3, VIEW, DESTINATIONS, (3, 2, 1), last=True), {"views"}),
    "a view number goes back": (alter(3, VIEW, VALUE, 0, last=True), {"views", "sending-view"}),
    "tentative after final": (add(1, TENTATIVE, (3, 2)), {"final"}),
    "revoked and final": (add(1, REVOKE, (3, 2)), {"final"}),
    "a clock that is off": (alter(1, Kind.CLOCK, VALUE, 10**6 - 1_500, last=True), {"clock-precision"}),
    "all clocks off": (
        lambda rows: [put(row, VALUE, row[VALUE] + 5_000) if row[KIND] == Kind.CLOCK else row for row in rows],
        {"clock-accuracy"},
    ),
}


@pytest.fixture(scope="module")
def verdicts(spark: SparkSession) -> dict[str, dict[str, SparkRow]]:
    runs = [change(good().rows) for change, _ in PLANTED.values()]
    found: dict[str, dict[str, SparkRow]] = {name: {} for name in PLANTED}
    names = list(PLANTED)
    for row in check(frame(spark, runs), PROPERTIES, BOUNDS).collect():
        found[names[row["run"]]][row["property"]] = row
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_exactly_the_right_checks_find_it(verdicts, name):
    broken = {key for key, row in verdicts[name].items() if row["status"] == "violated"}
    assert broken == PLANTED[name][1], {key: verdicts[name][key]["witness"] for key in broken}
    assert set(verdicts[name]) == set(PROPERTIES)


@pytest.mark.parametrize("name", PLANTED)
def test_witnesses_are_sentences_with_events(verdicts, name):
    for row in verdicts[name].values():
        if row["status"] == "violated":
            assert row["violation_count"] > 0 and "process" in row["witness"] and row["witness_events"]
            assert all(event["role"] for event in row["witness_events"])
        elif row["status"] == "valid":
            assert (row["witness"], row["violation_count"], row["witness_events"]) == ("", 0, [])
            assert row["evidence_count"] > 0


def test_a_property_is_judged_in_the_runs_that_ask_for_it_and_no_others(spark, verdicts):
    """Property n of every third run, from run n on: all that is asked of them is judged as if all were asked of all."""
    names = list(PLANTED)
    asked = {
        prop: [range(run, run + 1) for run in range(place % 3, len(names), 3)] for place, prop in enumerate(PROPERTIES)
    }
    runs = [change(good().rows) for change, _ in PLANTED.values()]
    found = check(frame(spark, runs), asked, BOUNDS).collect()
    expected = [verdicts[names[span.start]][prop] for prop, spans in asked.items() for span in spans]
    assert {(row["run"], row["property"]): row for row in found} == {
        (row["run"], row["property"]): row for row in expected
    }


def test_all_is_seen_to_hold(verdicts):
    assert {row["status"] for row in verdicts["nothing"].values()} == {"valid"}


def other_histories() -> dict[str, tuple[list[Row], dict[tuple[int | str, str], str]]]:
    """Histories of their own, with some of the verdicts that they must get."""
    a, b, c = (1, 1), (2, 1), (3, 1)
    crashed = Story().view(1, 1, 2, 3).submit(1, 1).submit(2, 1).deliver(1, a, b).deliver(2, a, b).deliver(3, b, a)
    three = Story().submit(*a).submit(*b).submit(*c).deliver(4, a, b).deliver(5, b, c).deliver(6, c, a)
    hidden = Story().submit(1, 1, to=(2, 9)).deliver(2, a).submit(2, 1, to=(3,)).deliver(3, b).submit(3, 1, to=(9,))
    rivals = Story().view(1, 1, 2, 3, 4).view(2, 1, 2, 3, at=(1, 2)).view(3, 2, 3, 4, at=(3, 4))
    heirs = Story().view(1, 1, 2, 3, 4).view(2, 1, 2, 3, at=(1, 2, 3)).view(3, 1, 2, 3, 4)
    groups = Story().submit(*a).submit(*b, group=1)
    groups.deliver(1, a).deliver(1, b, group=1).deliver(2, b, group=1).deliver(2, a)
    twice = Story().submit(*a).add(2, TENTATIVE, a).add(2, TENTATIVE, a).deliver(2, a)
    return {
        "a crashed one differs": (
            crashed.crash(3).view(2, 1, 2).rows,
            {(0, "uniform-total"): "violated", (0, "total"): "valid", (0, "fifo"): "unknown"},
        ),
        "a cycle of three": (three.rows, {(0, "total"): "violated", (0, "fifo"): "unknown"}),
        "through one who is not addressed": (
            hidden.deliver(9, c, a).rows,
            {(0, "causal"): "violated", (0, "fifo"): "unknown"},
        ),
        "two primaries": (rivals.rows, {(0, "primary"): "violated"}),
        "one primary": (heirs.rows, {(0, "primary"): "valid", (0, "views"): "valid"}),
        "founded apart": (
            Story().view(1, 1, 2).view(2, 3, 4).rows,
            {(0, "primary"): "violated", (0, "views"): "valid"},
        ),
        "across groups": (
            groups.rows,
            {(0, "total"): "unknown", (1, "total"): "unknown", ("both", "total"): "violated"},
        ),
        "tentative twice": (twice.rows, {(0, "final"): "violated", (0, "integrity"): "valid"}),
        "nothing but packets": (Story().add(1, Kind.RECEIVE).rows, {(0, name): "unknown" for name in PROPERTIES}),
        "half, with the first member": (
            Story().view(1, 1, 2, 3, 4).view(2, 1, 2, at=(1, 2)).view(3, 3, 4, at=(3, 4)).view(4, 1, at=(1,)).rows,
            {(0, "primary"): "valid"},
        ),
        "few members of great weight": (
            Story().view(1, 1, 2, 3, at=(1,), weights=(3, 1, 1)).view(2, 4, 5).rows,
            {(0, "primary"): "violated"},
        ),
        "few members of no weight": (
            Story().view(1, 1, 2, 3, at=(1,)).view(2, 4, 5).rows,
            {(0, "primary"): "valid"},
        ),
        "a crashed one has more": (
            Story()
            .view(1, 1, 2, 3)
            .submit(*c)
            .submit(*a)
            .deliver(1, a)
            .deliver(2, a)
            .deliver(3, a, c)
            .crash(3)
            .view(2, 1, 2)
            .rows,
            {(0, "uniform-agreement"): "violated", (0, "agreement"): "valid"},
        ),
        "a crashed one has less": (
            Story().view(1, 1, 2, 3).submit(*a).deliver(1, a).deliver(2, a).crash(3).view(2, 1, 2).rows,
            {(0, "uniform-agreement"): "valid", (0, "agreement"): "valid"},
        ),
        "held back into the next view": (
            Story()
            .view(1, 1, 2)
            .submit(*a)
            .view(2, 1, 2)
            .add(1, Kind.GAUGE, a, value=2, gauge=Gauge.SENT_VIEW)
            .deliver(1, a)
            .deliver(2, a)
            .rows,
            {(0, "sending-view"): "valid"},
        ),
        "late by a view": (
            Story().view(1, 1, 2).submit(*a).view(2, 1, 2).deliver(1, a).deliver(2, a).rows,
            {(0, "sending-view"): "violated"},
        ),
        "one process alone": (Story().submit(*a).rows, {(0, "validity"): "violated", (0, "integrity"): "unknown"}),
    }


def carried_histories() -> dict[str, tuple[list[Row], dict[tuple[int | str, str], str]]]:
    """Messages that routers carry between groups, with some of the verdicts of groups and domains."""
    a, b = (1, 1), (1, 2)
    sound = Story().submit(1, 1, 2).deliver(1, a, b).deliver(2, a, b)
    sound.add(2, SUBMIT, a, group=1, origin=0).deliver(3, a, b, group=1, origin=0).deliver(4, a, b, group=1, origin=0)
    twice = Story().submit(*a).deliver(1, a).deliver(2, a, group=1, origin=0).deliver(2, a, group=2, origin=0)
    late = Story().submit(1, 1, 2, group=5).deliver(1, a, b, group=5)
    late.deliver(2, b, group=0, origin=5).deliver(2, a, group=1, origin=5)
    answer = Story().submit(*a).deliver(1, a).deliver(3, a, group=1, origin=0).submit(3, 1, group=1)
    answer.deliver(5, (3, 1), group=1).deliver(5, a)
    local = Story().submit(*a).submit(2, 1, 2).deliver(1, a).deliver(3, a, group=1, origin=0).deliver(1, (2, 2), (2, 1))
    stray = Story().submit(1, 1, to=(1, 2)).deliver(3, a, group=1, origin=0)
    return {
        "carried": (sound.rows, {(place, "integrity"): "valid" for place in (0, 1, "both", "between")}),
        "carried in order": (sound.rows, {(place, "total"): "valid" for place in (0, 1, "both")}),
        "twice by two routers": (
            twice.rows,
            {("three", "integrity"): "violated"} | {(place, "integrity"): "valid" for place in (0, 1, 2, "both")},
        ),
        "late by another way": (
            late.rows,
            {("both", "fifo"): "violated", (0, "fifo"): "unknown", (1, "fifo"): "unknown", (5, "fifo"): "valid"},
        ),
        "the answer first": (answer.rows, {("both", "causal"): "violated", (1, "causal"): "unknown"}),
        "in one group only": (
            local.rows,
            {("both", "fifo"): "violated", (0, "fifo"): "violated", ("between", "fifo"): "unknown"},
        ),
        "destinations are of the origin group": (stray.rows, {(1, "integrity"): "valid"}),
        "never submitted": (
            Story().deliver(3, a, group=1, origin=0).rows,
            {(1, "integrity"): "violated", ("both", "integrity"): "violated"},
        ),
    }


def test_other_histories(spark):
    made = other_histories() | carried_histories()
    domains = [Domain("both", (0, 1)), Domain("between", (0, 1), "inter"), Domain("three", (0, 1, 2))]
    found = statuses(check(frame(spark, [rows for rows, _ in made.values()]), PROPERTIES, domains=domains))
    for run, (name, (_, expected)) in enumerate(made.items()):
        for (group, prop), status in expected.items():
            assert found[run, group, prop] == status, (name, prop)
    assert {prop for _, group, prop in found if group == "both"} == {*DOMAIN_PROPERTIES, "fifo-total"}


def test_no_rows_no_verdicts(spark):
    assert check(frame(spark, []), PROPERTIES).collect() == []


def test_unknown_names_are_refused(spark):
    with pytest.raises(InputError, match="'totl'; expected one of integrity"):
        check(frame(spark, []), ["totl"])
    with pytest.raises(InputError, match="'total'; expected one of clock-precision"):
        check(frame(spark, []), ["total"], {"total": 1})
