"""Each kind of workload: when it sends, how often, to whom; always the same for the same seed."""

from __future__ import annotations

from itertools import islice, pairwise
from random import Random
from statistics import mean, pstdev

import pytest

from isthmus.core.message import ALL, SiteId
from isthmus.core.units import NS_PER_MS
from isthmus.core.validation import BadValue
from isthmus.scenario.workload import NS_PER_S, Burst, OnOff, Periodic, Poisson, Recorded, Reply, Workload
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

TOPOLOGY = mesh(3, 2, Channel(Constant(1)), Channel(Constant(10)))
SITES = tuple(SiteId(number) for number in range(6))
EVENTS = ((0.0, 0, 10), (1.0, 1, 20), (2.0, 2, 30), (4.0, 0, 40))
KINDS: dict[str, Workload] = {
    "periodic": Periodic(rate_per_s=100),
    "poisson": Poisson(rate_per_s=100),
    "burst": Burst(period_ms=100, burst_count=10),
    "on-off": OnOff(rate_per_s=200, on_ms=50, off_ms=50),
}


def times(workload: Workload, seed: int = 1, count: int = 20_000) -> list[int]:
    return [time for time, _ in islice(workload.arrivals(Random(seed), 0, 1), count)]


def gaps(workload: Workload, seed: int = 1) -> list[int]:
    return [later - earlier for earlier, later in pairwise(times(workload, seed))]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_is_what_was_asked_for(kind: str) -> None:
    sent = times(KINDS[kind])
    assert len(sent) / sent[-1] * NS_PER_S == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides_and_times_never_go_back(kind: str) -> None:
    sent = times(KINDS[kind], count=2000)
    assert sent == times(KINDS[kind], count=2000)
    assert sent == sorted(sent) and sent[0] >= 0
    if kind != "burst":  # which is at the same times everywhere, whatever the seed
        assert sent != times(KINDS[kind], seed=2, count=2000)


@pytest.mark.parametrize("jitter", [0.02, 0.1])
def test_a_period_varies_by_its_jitter(jitter: float) -> None:
    found = gaps(Periodic(rate_per_s=100, jitter=jitter))
    assert mean(found) == pytest.approx(10 * NS_PER_MS, rel=0.01)
    assert pstdev(found) == pytest.approx(jitter * 10 * NS_PER_MS, rel=0.05)


def test_without_jitter_every_gap_is_the_period_and_the_start_is_anywhere_in_the_first() -> None:
    workload = Periodic(rate_per_s=100, jitter=0)
    assert {round(gap / NS_PER_MS, 3) for gap in gaps(workload)} == {10}
    starts = [times(workload, seed, 1)[0] / NS_PER_MS for seed in range(500)]
    assert 0 <= min(starts) < 1 and 9 < max(starts) < 10
    assert mean(starts) == pytest.approx(5, rel=0.1)


def test_poisson_gaps_are_exponential() -> None:
    found = gaps(Poisson(rate_per_s=100))
    assert pstdev(found) == pytest.approx(mean(found), rel=0.05)
    assert sum(gap > 10 * NS_PER_MS for gap in found) / len(found) == pytest.approx(0.3679, abs=0.02)


def test_a_burst_is_together_and_comes_every_period() -> None:
    sent = [time / NS_PER_MS for time in times(Burst(period_ms=50, burst_count=3, spacing_ms=2, start_ms=10), count=7)]
    assert sent == [10, 12, 14, 60, 62, 64, 110]
    assert set(times(Burst(period_ms=50, burst_count=4), count=4)) == {0}


def test_on_and_off_differ_from_poisson_by_their_silences() -> None:
    found = gaps(OnOff(rate_per_s=2000, on_ms=100, off_ms=100))
    silences = [gap for gap in found if gap > 10 * NS_PER_MS]  # out of reach for 2000 a second
    assert mean(silences) == pytest.approx(110 * NS_PER_MS, rel=0.1)
    assert len(found) / len(silences) == pytest.approx(200 / 0.9, rel=0.2)


@pytest.mark.parametrize("kind", KINDS)
def test_start_stop_and_count(kind: str) -> None:
    given = {name: getattr(KINDS[kind], name) for name in KINDS[kind].__struct_fields__}
    sent = times(type(KINDS[kind])(**given | {"start_ms": 500.0, "stop_ms": 1500.0}))
    assert sent and sent[0] >= 500 * NS_PER_MS and sent[-1] < 1500 * NS_PER_MS
    assert len(times(type(KINDS[kind])(**given | {"count": 7}))) == 7
    assert times(type(KINDS[kind])(**given | {"count": 0})) == []


def test_destinations_are_all_or_named_or_drawn() -> None:
    random = Random(1)
    assert Poisson(rate_per_s=1).destinations(TOPOLOGY, SITES, random) == ALL
    assert Poisson(rate_per_s=1, to=("c2", "c0-1")).destinations(TOPOLOGY, SITES, random) == (1, 4, 5)
    drawn = [Poisson(rate_per_s=1, to=2).destinations(TOPOLOGY, SITES, random) for _ in range(3000)]
    assert all(len(set(sites)) == 2 and list(sites) == sorted(sites) for sites in drawn)
    for site in range(6):
        assert sum(site in sites for sites in drawn) == pytest.approx(1000, rel=0.15)


def test_destinations_are_drawn_among_the_members_of_the_group() -> None:
    random, members = Random(1), (SiteId(1), SiteId(3), SiteId(4))
    drawn = {Poisson(rate_per_s=1, to=2).destinations(TOPOLOGY, members, random) for _ in range(200)}
    assert drawn == {(1, 3), (1, 4), (3, 4)}
    assert Poisson(rate_per_s=1, to=5).destinations(TOPOLOGY, members, random) == members


def test_destinations_are_drawn_among_some_of_the_members() -> None:
    workload = Poisson(rate_per_s=1, to=2, among=("c1", "c2-0"))
    members = SITES[1:5]
    drawn = {workload.destinations(TOPOLOGY, members, Random(seed)) for seed in range(50)}
    assert drawn == {(2, 3), (2, 4), (3, 4)}


def test_senders_are_all_or_named() -> None:
    assert Poisson(rate_per_s=1).senders(TOPOLOGY) == (0, 1, 2, 3, 4, 5)
    assert Poisson(rate_per_s=1, sites=("c1", "c0-0", "c1-0")).senders(TOPOLOGY) == (0, 2, 3)
    members = (SiteId(1), SiteId(3), SiteId(4))
    assert Poisson(rate_per_s=1).senders(TOPOLOGY, members) == members


def test_recorded_senders_are_dealt_out_in_turn_and_time_is_compressed() -> None:
    workload = Recorded(events=EVENTS, compression=10, start_ms=5)
    two = [[(time / NS_PER_MS, size) for time, size in workload.arrivals(Random(1), place, 2)] for place in (0, 1)]
    assert two == [[(5, 10), (205, 30), (405, 40)], [(105, 20)]]
    one = [time / NS_PER_MS for time, _ in workload.arrivals(Random(1), 0, 1)]
    assert one == [5, 105, 205, 405]


def test_recorded_stops_and_counts() -> None:
    def sizes(**more: float) -> list[int]:
        return [size for _, size in Recorded(events=EVENTS, **more).arrivals(Random(1), 0, 2)]  # type: ignore[arg-type]

    assert sizes(stop_ms=4000) == [10, 30]
    assert sizes(count=1) == [10]


def test_a_reply_sends_nothing_by_itself() -> None:
    assert list(Reply().arrivals(Random(1), 0, 1)) == []


WRONG = [
    (lambda: Periodic(rate_per_s=0), "rate_per_s"),
    (lambda: Periodic(rate_per_s=1, jitter=-0.1), "jitter"),
    (lambda: Periodic(rate_per_s=1, jitter=float("nan")), "jitter"),
    (lambda: Poisson(rate_per_s=float("inf")), "rate_per_s"),
    (lambda: Poisson(rate_per_s=1e-300), "rate_per_s"),  # the first gap would be infinite
    (lambda: Poisson(rate_per_s=1e300), "rate_per_s"),  # time would stand still
    (lambda: Burst(period_ms=0, burst_count=1), "period_ms"),
    (lambda: Burst(period_ms=1, burst_count=0), "burst_count"),
    (lambda: Burst(period_ms=1, burst_count=10**400), "burst_count"),  # too large for a float
    (lambda: Burst(period_ms=10, burst_count=3, spacing_ms=6), "spacing_ms"),
    (lambda: OnOff(rate_per_s=1, on_ms=0, off_ms=1), "on_ms"),
    (lambda: OnOff(rate_per_s=1, on_ms=0.01, off_ms=1), "on_ms"),  # a message in a hundred thousand times on
    (lambda: OnOff(rate_per_s=1, on_ms=10, off_ms=-1), "off_ms"),
    (lambda: Reply(probability=1.5), "probability"),
    (lambda: Reply(depth=256), "depth"),
    (lambda: Reply(delay_ms=float("inf")), "delay_ms"),
    (lambda: Recorded(), "file"),
    (lambda: Recorded(file="x.csv", compression=0), "compression"),
    (lambda: Recorded(events=((1.0, 0, 1), (0.5, 0, 1))), "events[1]"),
    (lambda: Recorded(events=((float("nan"), 0, 1),)), "events[0]"),
    (lambda: Recorded(events=((0.0, -1, 1),)), "events[0]"),
    (lambda: Recorded(events=((0.0, 0, -1),)), "events[0]"),
    (lambda: Poisson(rate_per_s=1, payload_bytes=-1), "payload_bytes"),
    (lambda: Poisson(rate_per_s=1, payload_bytes=10**10), "payload_bytes"),
    (lambda: Poisson(rate_per_s=1, start_ms=-1), "start_ms"),
    (lambda: Poisson(rate_per_s=1, start_ms=5, stop_ms=5), "stop_ms"),
    (lambda: Poisson(rate_per_s=1, stop_ms=float("nan")), "stop_ms"),
    (lambda: Poisson(rate_per_s=1, count=-1), "count"),
    (lambda: Poisson(rate_per_s=1, to=0), "to"),
    (lambda: Poisson(rate_per_s=1, to=()), "to"),
    (lambda: Poisson(rate_per_s=1, to="c0"), "to"),
]


@pytest.mark.parametrize(("make", "key"), WRONG)
def test_what_a_workload_cannot_mean_is_refused(make, key: str) -> None:
    with pytest.raises(BadValue) as refused:
        make()
    assert refused.value.key == key
