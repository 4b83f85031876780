"""Measures: tiny traces with known answers, then simulated ones beside what the simulator's own summary says."""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from isthmus.core.layer import Kind
from isthmus.measure.summary import RunSummary
from isthmus.pipeline.engine import formats
from isthmus.pipeline.measure import gauges, latency, load, membership, optimism, seeds, throughput
from isthmus.scenario.faults import Crash, Recover
from isthmus.scenario.model import Membership, Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import SimRun
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.arrow import SCHEMA
from isthmus.trace.schema import Gauge
from isthmus.trace.writer import to_batch

MS = 1_000_000


class Story:
    """A trace by hand; times in ms."""

    def __init__(self):
        self.rows = []
        self.locals = {}

    def row(self, kind, process, at, message=(-1, -1), to=None, run=0, payload=0, control=0, value=0):
        local = self.locals[run, process] = self.locals.get((run, process), -1) + 1
        self.rows.append(
            (
                run,
                process,
                local,
                int(at * MS),
                kind,
                min(0, message[0]),
                *message,
                0,
                1,
                to,
                payload,
                control,
                value,
                0,
            )
        )
        return self

    def submit(self, sender, number, at, to=None, run=0):
        return self.row(Kind.SUBMIT, sender, at, (sender, number), to, run)

    def deliver(self, process, message, at, run=0):
        return self.row(Kind.DELIVER, process, at, message, run=run)

    def tentative(self, process, message, at, run=0):
        return self.row(Kind.TENTATIVE, process, at, message, run=run)

    def frame(self, spark):
        return frame(spark, self.rows)


def frame(spark, rows):
    return spark.createDataFrame(pa.Table.from_batches([to_batch(rows)], SCHEMA))


def one(found):
    (row,) = found.collect()
    return row.asDict()


def two_messages():
    """1:1 takes 10 and 30 ms, 2:1 takes 20 and 20; 2:2 goes to 2 alone and takes 5."""
    story = Story().submit(1, 1, 0).submit(2, 1, 100).submit(2, 2, 200, (2,))
    story.deliver(1, (1, 1), 10).deliver(2, (1, 1), 30)
    story.deliver(1, (2, 1), 120).deliver(2, (2, 1), 120).deliver(2, (2, 2), 205)
    return story


def test_the_latency_of_a_message_is_that_of_its_last_delivery(spark):
    trace = two_messages().frame(spark)
    found = one(latency.message_latency(trace))
    assert found["latency_mean_ms"] == pytest.approx((30 + 20 + 5) / 3)
    assert (found["messages"], found["undelivered"], found["latency_p50_ms"], found["latency_max_ms"]) == (3, 0, 20, 30)
    each = one(latency.delivery_latency(trace))
    assert (each["deliveries"], each["latency_mean_ms"]) == (5, pytest.approx((10 + 30 + 20 + 20 + 5) / 5))
    by = {row["sender"]: row["latency_mean_ms"] for row in latency.message_latency(trace, ["sender"]).collect()}
    assert by == {1: 30, 2: 12.5}
    at = {row["process"]: row["latency_mean_ms"] for row in latency.delivery_latency(trace, ["process"]).collect()}
    assert at == {1: 15, 2: pytest.approx(55 / 3)}


def test_warm_up_leaves_out_messages_that_were_submitted_before(spark):
    trace = two_messages().frame(spark)
    assert one(latency.message_latency(trace, warm_up_ms=100))["latency_mean_ms"] == 12.5
    assert one(latency.delivery_latency(trace, warm_up_ms=100))["deliveries"] == 3
    assert latency.message_latency(trace, warm_up_ms=500).collect() == []


def test_a_message_that_somebody_lacks_has_no_latency_and_is_counted(spark):
    story = two_messages().submit(1, 2, 300).deliver(1, (1, 2), 310)
    found = one(latency.message_latency(story.frame(spark)))
    assert (found["messages"], found["undelivered"]) == (4, 1)
    assert found["latency_mean_ms"] == pytest.approx(55 / 3)
    story.row(Kind.CRASH, 2, 400)  # now it owes nothing
    found = one(latency.message_latency(story.frame(spark)))
    assert (found["undelivered"], found["latency_mean_ms"]) == (0, pytest.approx((30 + 20 + 5 + 10) / 4))
    story = two_messages().submit(1, 2, 300).row(Kind.CRASH, 1, 301)  # it died with its sender
    assert one(latency.message_latency(story.frame(spark)))["undelivered"] == 0


def test_runs_stay_apart(spark):
    story = two_messages().submit(1, 1, 0, run=7).deliver(1, (1, 1), 4, run=7).deliver(2, (1, 1), 8, run=7)
    found = {row["run"]: row["latency_mean_ms"] for row in latency.message_latency(story.frame(spark)).collect()}
    assert found == {0: pytest.approx(55 / 3), 7: 8}


HITS = [  # tentative log, final log; hit, hit of the pair, of either of it, late share
    ([1, 2, 3, 4], [1, 2, 3, 4], (1, 1, 1, 0)),
    ([2, 1, 3, 4], [1, 2, 3, 4], (0.5, 1, 1, 0)),  # a pair equal as a set
    ([1, 3, 2, 4], [1, 2, 3, 4], (0.5, 0, 1, 0)),  # one of each pair in common
    ([3, 4, 1, 2], [1, 2, 3, 4], (0, 0, 0, 0)),
    ([2, 3, 1], [1, 2, 3], (0, 0, 1, 0)),  # the third has no partner
    ([2, 3], [1, 2, 3], (0, 0, 1, 1 / 3)),  # 1 is never tentative: it enters the log when it is final
]


def test_hit_ratios_compare_places_of_two_logs(spark):
    story = Story()
    for run, (tentative, final, _) in enumerate(HITS):
        for number in final:
            story.submit(0, number, 0, run=run)
        for place, number in enumerate(tentative):
            story.tentative(1, (0, number), 10 + place, run=run)
        for place, number in enumerate(final):
            story.deliver(1, (0, number), 100 + place, run=run)
    found = optimism.hit_ratios(story.frame(spark)).orderBy("run").collect()
    told = [(row["hit"], row["hit_pair"], row["hit_either"], row["late_share"]) for row in found]
    assert told == [pytest.approx(expected) for _, _, expected in HITS]


def test_a_late_message_takes_its_place_by_the_local_order_also_at_the_same_time(spark):
    story = Story().submit(0, 1, 0).submit(0, 2, 0)
    story.deliver(1, (0, 1), 10).tentative(1, (0, 2), 10).deliver(1, (0, 2), 20)
    found = one(optimism.hit_ratios(story.frame(spark)))
    assert (found["hit"], found["late_share"]) == (1, 0.5)


def test_windows_and_tentative_latency(spark):
    story = Story().submit(0, 1, 0).submit(0, 2, 0)
    story.tentative(1, (0, 1), 10).deliver(1, (0, 1), 50).deliver(1, (0, 2), 60).tentative(1, (0, 2), 70)
    found = one(optimism.optimistic(story.frame(spark), ["process"]))
    assert (found["tentative_mean_ms"], found["window_mean_ms"], found["latency_mean_ms"]) == (35, 20, 55)
    assert (found["late_share"], found["process"]) == (0.5, 1)


def test_queue_is_what_was_submitted_and_is_not_everywhere(spark):
    # [0, 10) one message, [10, 20) two, [20, 40) one; then none until the last, which takes no time.
    story = Story().submit(1, 1, 0).submit(1, 2, 10).submit(1, 3, 100)
    story.deliver(1, (1, 1), 20).deliver(1, (1, 2), 40).deliver(1, (1, 3), 100)
    found = one(throughput.queue(story.frame(spark)))
    assert (found["queue_mean"], found["queue_max"]) == (pytest.approx(50 / 100), 2)
    lost = Story().submit(1, 1, 0).submit(1, 2, 50).deliver(1, (1, 2), 100)
    found = one(throughput.queue(lost.frame(spark)))
    assert (found["queue_mean"], found["queue_max"]) == (pytest.approx(1.5), 2)


def test_throughput_is_over_the_span_of_the_messages(spark):
    found = one(throughput.throughput(two_messages().frame(spark)))
    assert found["messages_per_s"] == pytest.approx(3 / 0.205)
    assert found["deliveries_per_s"] == pytest.approx(5 / 0.205)


def test_load_of_links_and_senders(spark):
    story = Story()
    story.row(Kind.SEND, 1, 0, payload=100, control=10, value=2).row(Kind.RECEIVE, 2, 5, payload=100, value=1)
    story.row(Kind.RECEIVE, 3, 5, payload=100, value=1).row(Kind.RECEIVE, 2, 1005, payload=50, control=1, value=1)
    links = {
        (row["source"], row["target"]): (row["packets"], row["payload_bytes"], row["control_bytes"], row["bytes_per_s"])
        for row in load.link_load(story.frame(spark)).collect()
    }
    assert links == {
        (1, 2): (2, 150, 1, pytest.approx(151 / 1.005)),
        (1, 3): (1, 100, 0, pytest.approx(100 / 1.005)),
    }
    sent = one(load.sent_bytes(story.frame(spark)))
    assert (sent["copies"], sent["payload_bytes"], sent["control_bytes"]) == (2, 200, 20)


def test_views_roles_and_seeds(spark):
    story = Story().row(Kind.ROLE, 1, 0, value=1).row(Kind.ROLE, 1, 5, value=2).row(Kind.ROLE, 2, 0, value=2)
    story.row(Kind.ROLE, 2, 7, value=2)  # told again
    for process in (1, 2):
        story.row(Kind.VIEW, process, 0, to=(1, 2, 3), value=1)
    story.row(Kind.CRASH, 3, 100)
    story.row(Kind.VIEW, 1, 150, to=(1, 2), value=2).row(Kind.VIEW, 2, 170, to=(1, 2), value=2)
    story.row(Kind.RECOVER, 3, 300).row(Kind.CRASH, 2, 310)
    story.row(Kind.VIEW, 1, 360, to=(1, 3), value=3).row(Kind.VIEW, 3, 365, to=(1, 3), value=3)
    story.row(Kind.CRASH, 1, 900)
    found = membership.view_installs(story.frame(spark)).orderBy("changed_ms").collect()
    assert [(row["process"], row["change"], row["view"], row["first_ms"], row["last_ms"]) for row in found] == [
        (3, "crash", 2, 50, 70),
        (3, "recover", 3, 60, 65),
        (2, "crash", 3, 50, 55),
        (1, "crash", None, None, None),
    ]
    roles = one(membership.role_changes(story.frame(spark)))
    assert (roles["role_changes"], roles["role_changes_max"]) == (1, 1)
    values = [("a", 1.0), ("a", 2.0), ("a", 3.0), ("a", None), ("b", 5.0), ("b", 6.0)]
    table = spark.createDataFrame(values, "p string, v double")
    rows = {row["p"]: row for row in seeds.over_seeds(table, ["p"], ["v"]).collect()}
    assert (rows["a"]["v"], rows["a"]["runs"]) == (2, 4)
    assert rows["a"]["v_half"] == pytest.approx(
        4.30265 / 3**0.5, rel=1e-5
    )  # two degrees of freedom: a null is no value
    assert (rows["b"]["v"], rows["b"]["v_half"]) == (5.5, None)  # two runs are too few


def simulated(spark, **more):
    channel = Channel(Constant(20.0))
    scenario = Scenario(
        topology=mesh(2, 3, channel, channel),
        stack=StackSpec(name="token-site"),
        workloads=(Poisson(rate_per_s=20), Poisson(rate_per_s=5, to=2)),
        duration_ms=4_000,
        trace="wire",
        **more,
    )
    rows = []
    run = SimRun(scenario, rows)
    return run, run.execute(), frame(spark, rows)


def random_latencies(seed):
    """Three processes of two groups, at times of their own: crashes, returns, duplicates, strays, carried messages."""
    random = Random(f"latency/{seed}")
    members = {0: (0, 1, 2), 1: (1, 2)}
    story, down, sent = [], set(), []
    times = iter(sorted(random.sample(range(1, 10_000), 200)))
    locals_ = [0, 0, 0]

    def row(kind, process, message=(-1, -1, -1), group=0, to=None):
        locals_[process] += 1
        where = (0, process, locals_[process], next(times) * MS, int(kind))
        story.append((*where, *message, group, 1, to, 0, 0, 0, 0))

    for group, processes in members.items():
        for process in processes:
            row(Kind.VIEW, process, group=group, to=processes)
    for number in range(80):
        what, process = random.random(), random.randrange(3)
        group = random.choice([group for group, processes in members.items() if process in processes])
        if what < 0.06 and process not in down:
            down.add(process)
            row(Kind.CRASH, process)
        elif process in down:
            if what < 0.4:
                down.discard(process)
                row(Kind.RECOVER, process)
                for group, processes in members.items():
                    if process in processes and random.random() < 0.8:
                        row(Kind.VIEW, process, group=group, to=processes)
        elif what < 0.4:
            pool = members[group] if random.random() < 0.7 else range(3)  # some are elsewhere
            to = tuple(random.sample(pool, random.randint(1, len(pool))))
            sent.append((group, process, number))
            row(Kind.SUBMIT, process, sent[-1], group, random.choice([None, to]))
        elif sent:
            message = random.choice(sent[-4:])
            where = group if random.random() < 0.1 or process not in members[message[0]] else message[0]
            row(Kind.DELIVER, process, message, where)
    return story


def test_both_definitions_of_latency_agree_on_random_traces(spark):
    """The meter that takes rows one by one, and the tables over DataFrames: every message, delivery and debt."""
    stories = [random_latencies(seed) for seed in range(120)]
    trace = frame(spark, [(run, *row[1:]) for run, story in enumerate(stories) for row in story])
    by_run = {run: [] for run in range(len(stories))}
    for row in latency.message_table(trace).collect():
        by_run[row["run"]].append(row)
    delivered = Counter()
    for row in latency.owed_deliveries(trace).collect():
        delivered[row["run"], row["latency_ns"]] += 1
    settled = missing = 0
    for run, story in enumerate(stories):
        meter = Kept({0: (0, 1, 2), 1: (1, 2)})
        for row in story:
            meter.append(row)
        table = {(row["origin"], row["sender"], row["number"]): row for row in by_run[run]}
        assert {key: row["latency_ns"] for key, row in table.items() if row["latency_ns"] is not None} == meter.found
        assert sum(row["missing"] for row in table.values()) == meter.undelivered_count()
        assert sum(count for (at, _), count in delivered.items() if at == run) == meter.delivered.count
        assert max((at_ns for at, at_ns in delivered if at == run), default=0) == meter.delivered.maximum
        settled, missing = settled + len(meter.found), missing + meter.undelivered_count()
    assert settled > 200 and missing > 200


class Kept(RunSummary):
    """A summary that keeps the latency of each message."""

    def __init__(self, groups):
        super().__init__(groups, on_message=self.keep)
        self.found = {}

    def keep(self, key, latency_ns):
        self.found[key] = latency_ns


def test_gauges_are_summed_up_by_name(spark):
    story = Story()
    for value, gauge in ((4, 4), (8, 4), (100, 6), (7, 99)):
        story.row(Kind.GAUGE, 1, 0, value=value)
        story.rows[-1] = (*story.rows[-1][:-1], gauge)
    found = {
        row["gauge"]: (row["rows"], row["mean"], row["max"]) for row in gauges.gauges(story.frame(spark)).collect()
    }
    assert found == {"hops": (2, 6, 8), "queue_length": (1, 100, 100), "99": (1, 7, 7)}
    assert gauges.gauges(story.frame(spark), Gauge.HOPS, by=["process"]).count() == 1


def test_measures_have_the_columns_that_are_declared(spark):
    trace = two_messages().frame(spark)
    for name, measure in {
        "message_latency": latency.message_latency,
        "delivery_latency": latency.delivery_latency,
        "optimistic": optimism.optimistic,
        "throughput": throughput.throughput,
        "queue": throughput.queue,
        "sent_bytes": load.sent_bytes,
        "link_load": load.link_load,
        "gauges": gauges.gauges,
        "view_installs": membership.view_installs,
        "role_changes": membership.role_changes,
    }.items():
        assert measure(trace).columns == ["run", *formats.MEASURES[name]]


def test_measures_agree_with_the_summary_of_a_simulated_run(spark):
    run, summary, trace = simulated(spark, wire="sized")
    found = one(latency.message_latency(trace))
    assert found["messages"] == summary.submitted_count == summary.per_message.count
    assert found["latency_mean_ms"] == pytest.approx(summary.per_message.mean() / MS)
    assert found["latency_max_ms"] == summary.per_message.maximum / MS
    assert found["latency_p90_ms"] == pytest.approx(summary.per_message.percentile(90) / MS, rel=0.01)
    assert found["undelivered"] == summary.undelivered_count() == 0
    each = one(latency.delivery_latency(trace))
    assert each["deliveries"] == summary.delivered.count
    assert each["latency_mean_ms"] == pytest.approx(summary.delivered.mean() / MS)
    assert each["latency_p99_ms"] == pytest.approx(summary.delivered.percentile(99) / MS, rel=0.01)
    loads = load.link_load(trace).collect()
    assert sum(row["control_bytes"] for row in loads) == run.meter.control_bytes > 0
    packets = sum(row["packets"] for row in loads)
    to_itself = sum(row["copies"] for row in load.sent_bytes(trace).collect()) - packets
    assert packets + to_itself == run.network.packet_count


def test_measures_agree_with_the_summary_of_a_run_with_a_crash(spark):
    faults = (Crash(at_ms=1_000, site="c1-2"), Recover(at_ms=2_000, site="c1-2"))
    _, summary, trace = simulated(spark, faults=faults, membership=Membership(detection_ms=300))
    found = one(latency.message_latency(trace))
    assert found["undelivered"] == summary.undelivered_count() == 0
    installs = membership.view_installs(trace).orderBy("changed_ms").collect()
    assert [row["view"] for row in installs] == [2, 3]
    assert all(300 <= row["first_ms"] <= row["last_ms"] <= 341 for row in installs)
