"""A simulated site and its ports: timers, crashes, messages to oneself, turns, clocks, sizes, groups."""

from __future__ import annotations

from random import Random

from isthmus.core.layer import Handler, Kind, Layer, Stack, View
from isthmus.core.message import ONLY_GROUP, Cast, GroupId, Message, SiteId, size_of
from isthmus.sim.clocks.clock import SiteClock
from isthmus.sim.network.delays import DelayNetwork
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import Meter, SimPort, SimSite
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import CONTROL, KIND, PAYLOAD, TIME_NS, VALUE, Row

MS = 1_000_000
HERE, THERE = SiteId(0), SiteId(1)


class Probe(Layer):
    """Notes when its timers fire, by its own clock and by true time, and what it receives."""

    __slots__ = ("fired", "on_timer", "received")

    def __init__(self) -> None:
        self.fired: list[tuple[int, int]] = []
        self.received: list[tuple[SiteId, Cast, int]] = []
        self.on_timer = lambda key: None

    def handlers(self) -> dict[type[Message], Handler]:
        return {Cast: lambda source, cast: self.received.append((source, cast, self.host.now_ns))}

    def resume(self) -> None: ...

    def timer(self, key: int) -> None:
        self.fired.append((key, self.host.now_ns))
        self.on_timer(key)


class Bench:
    """Two sites with a probe each, ten milliseconds apart, in view 1 of one group."""

    def __init__(self, clock: SiteClock | None = None, meter: Meter | None = None, wire_log: bool = False) -> None:
        self.scheduler = Scheduler()
        self.network = DelayNetwork(mesh(2, 1, Channel(Constant(1)), Channel(Constant(10))), self.scheduler, Random(1))
        self.rows: list[Row] = []
        self.sites: list[SimSite] = []
        self.ports: list[SimPort] = []
        self.probes: list[Probe] = []
        for site in (HERE, THERE):
            self.boot(site, clock if site == HERE else None, meter, wire_log)

    def boot(
        self, site: SiteId, clock: SiteClock | None = None, meter: Meter | None = None, wire: bool = False
    ) -> None:
        log = SiteLog(site, self.rows)
        made = SimSite(site, 0, Random(1), self.scheduler, self.network, log, clock, meter, wire)
        self.sites.append(made)
        self.probes.append(self.join(made, ONLY_GROUP))

    def join(self, site: SimSite, group: GroupId) -> Probe:
        """Give a site a port, in view 1."""
        port, probe = site.port(group), Probe()
        port.attach(Stack(port, probe))
        port.run(lambda: port.install(View(1, (HERE, THERE))))
        port.run(port.resume)
        self.ports.append(port)
        return probe

    def run(self, until_ms: float) -> None:
        assert self.scheduler.run(round(until_ms * MS), 10_000)

    def arm(self, key: int, delay_ms: float) -> None:
        self.ports[0].set_timer(self.probes[0], key, round(delay_ms * MS))


def test_a_timer_fires_once_when_due() -> None:
    bench = Bench()
    bench.arm(3, 5)
    bench.arm(4, 2)
    bench.run(100)
    assert bench.probes[0].fired == [(4, 2 * MS), (3, 5 * MS)]


def test_setting_a_timer_again_moves_it_and_cancelling_removes_it() -> None:
    bench = Bench()
    for delay_ms in (5, 20, 10):
        bench.arm(1, delay_ms)
    bench.arm(2, 5)
    bench.ports[0].cancel_timer(bench.probes[0], 2)
    bench.ports[0].cancel_timer(bench.probes[0], 9)  # which is not set
    bench.run(100)
    assert bench.probes[0].fired == [(1, 10 * MS)]


def test_a_timer_set_twice_for_the_same_instant_fires_once() -> None:
    bench = Bench()
    bench.arm(1, 5)
    bench.ports[0].cancel_timer(bench.probes[0], 1)
    bench.arm(1, 5)
    bench.arm(1, 5)
    bench.run(100)
    assert bench.probes[0].fired == [(1, 5 * MS)]


def test_a_timer_may_set_itself_again_and_the_past_means_now() -> None:
    bench = Bench()
    probe = bench.probes[0]
    again = {1: lambda: bench.arm(1 if len(probe.fired) < 3 else 2, 5), 2: lambda: bench.arm(3, -1)}
    probe.on_timer = lambda key: again.get(key, lambda: None)()
    bench.arm(1, 5)
    bench.run(100)
    assert [(key, at // MS) for key, at in probe.fired] == [(1, 5), (1, 10), (1, 15), (2, 20), (3, 20)]


def test_timers_run_by_the_drifting_clock() -> None:
    bench = Bench(SiteClock(100 * MS, 0.25))
    bench.arm(1, 50)
    bench.run(39)
    assert not bench.probes[0].fired
    bench.run(40)  # 50 ms of a clock that is a quarter too fast
    assert bench.probes[0].fired == [(1, 150 * MS)]


def test_a_jump_moves_the_calendar_and_neither_timer_nor_monotonic_clock() -> None:
    bench = Bench(SiteClock(0, 0.0, bound_ns=3 * MS))
    bench.arm(1, 50)
    bench.run(10)
    port, clock = bench.ports[0], bench.sites[0].clock
    assert clock is not None and port.clock()[:2] == (10 * MS, 3 * MS)
    clock.jump_ns -= 500 * MS
    assert port.clock()[:2] == (-490 * MS, None), "and no bound is known any more"
    bench.run(50)
    assert bench.probes[0].fired == [(1, 50 * MS)]


def test_a_right_clock_has_no_error() -> None:
    bench = Bench()
    bench.run(10)
    assert bench.ports[0].clock()[:2] == (10 * MS, 0)


def test_a_message_to_oneself_is_an_event_of_its_own() -> None:
    bench = Bench()
    bench.ports[0].send((HERE, THERE), Cast(HERE, 1))
    assert bench.probes[0].received == [], "not within the event that sends it"
    bench.run(0)
    assert [(source, at) for source, _, at in bench.probes[0].received] == [(HERE, 0)]
    assert bench.probes[1].received == []
    bench.run(10)
    assert [(source, at) for source, _, at in bench.probes[1].received] == [(HERE, 10 * MS)]


def test_a_crash_drops_timers_and_packets_and_what_was_sent_arrives() -> None:
    bench = Bench()
    bench.arm(1, 50)
    bench.ports[1].send((HERE,), Cast(THERE, 1))
    bench.ports[0].send((THERE,), Cast(HERE, 1))
    bench.sites[0].crash()
    bench.run(100)
    assert bench.probes[0].fired == [] and bench.probes[0].received == []
    assert len(bench.probes[1].received) == 1


def test_a_packet_under_way_does_not_reach_the_next_incarnation() -> None:
    bench = Bench()
    bench.ports[1].send((HERE,), Cast(THERE, 1))
    bench.run(5)
    bench.sites[0].crash()
    bench.boot(HERE)
    bench.ports[1].send((HERE,), Cast(THERE, 2))
    bench.run(100)
    assert bench.probes[0].received == []
    assert [cast.number for _, cast, _ in bench.probes[2].received] == [2]


def test_sizes_are_counted_for_copies_that_leave() -> None:
    meter = Meter(decodes=False)
    bench = Bench(meter=meter)
    cast = Cast(HERE, 1, b"x" * 50)
    bench.ports[0].send((HERE, THERE), cast)
    bench.ports[0].send((HERE,), cast)
    assert meter.payload_bytes == 50
    assert meter.control_bytes == size_of(bench.ports[0].stack.codec, cast) - 50 > 0
    bench.run(10)
    assert bench.probes[1].received[0][1] is cast


def test_through_the_codec_an_equal_message_arrives() -> None:
    bench = Bench(meter=Meter(decodes=True))
    cast = Cast(HERE, 1, b"abc", (THERE,))
    bench.ports[0].send((THERE,), cast)
    bench.run(10)
    arrived = bench.probes[1].received[0][1]
    assert arrived == cast and arrived is not cast


def test_a_wire_trace_has_true_times_and_sizes() -> None:
    bench = Bench(SiteClock(77 * MS, 0.0), Meter(decodes=False), wire_log=True)
    bench.ports[0].send((HERE, THERE), Cast(HERE, 1, b"abc"))
    bench.run(10)
    assert [(row[KIND], row[TIME_NS] // MS) for row in bench.rows] == [(Kind.SEND, 0), (Kind.RECEIVE, 10)]
    sent, received = bench.rows
    assert sent[VALUE] == 2 and sent[PAYLOAD] == 3 and sent[CONTROL] > 0, "to two sites"
    assert received[VALUE] == HERE and received[CONTROL] == sent[CONTROL]


def test_a_site_knows_when_it_last_heard_from_each_peer() -> None:
    bench = Bench(SiteClock(100 * MS, 0.0))
    assert bench.ports[0].heard_ns(THERE) is None
    bench.ports[1].send((HERE,), Cast(THERE, 1))
    bench.run(30)
    assert bench.ports[0].heard_ns(THERE) == 110 * MS, "by its own clock"
    other = bench.sites[0].port(GroupId(1))
    assert other.heard_ns(THERE) == 110 * MS, "in whatever group it was"


def test_groups_share_the_site_and_nothing_else() -> None:
    bench, second = Bench(), GroupId(1)
    probes = [bench.join(site, second) for site in bench.sites]
    bench.ports[0].send((THERE,), Cast(HERE, 1))
    bench.sites[0].ports[second].send((THERE,), Cast(HERE, 2))
    bench.sites[0].ports[second].set_timer(probes[0], 4, 5 * MS)
    bench.run(20)
    assert [cast.number for _, cast, _ in bench.probes[1].received] == [1]
    assert [cast.number for _, cast, _ in probes[1].received] == [2]
    assert probes[0].fired == [(4, 5 * MS)] and bench.probes[0].fired == []
    assert [port.next_number() for port in bench.sites[0].ports.values()] == [1, 1]
    bench.sites[1].crash()
    bench.ports[0].send((THERE,), Cast(HERE, 3))
    bench.sites[0].ports[second].send((THERE,), Cast(HERE, 4))
    bench.run(50)
    assert len(bench.probes[1].received) == len(probes[1].received) == 1, "a crash takes all ports"


def test_what_is_sent_carries_the_installed_view() -> None:
    """Site 0 has installed view 2; site 1 has not, takes nothing of it, and finds it there when it has."""
    bench = Bench()
    port, other = bench.ports
    port.run(lambda: port.install(View(2, (HERE, THERE))))
    port.run(port.resume)
    port.run(lambda: port.send((THERE,), Cast(HERE, 1)))
    other.run(lambda: other.send((HERE,), Cast(THERE, 1)))
    bench.run(20)
    assert bench.probes[0].received == [], "of view 1, which is over here"
    assert bench.probes[1].received == [] and len(other.early) == 1
    other.run(lambda: other.install(View(2, (HERE, THERE))))
    other.run(other.resume)
    assert [(source, at) for source, _, at in bench.probes[1].received] == [(HERE, 20 * MS)]


def test_a_turn_ends_with_its_event_or_some_time_after_the_first() -> None:
    class Gathering(Probe):
        """Asks for the end of the turn with each message."""

        def handlers(self) -> dict[type[Message], Handler]:
            return {Cast: self.on_cast}

        def on_cast(self, source: SiteId, cast: Cast) -> None:
            self.received.append((source, cast, self.host.now_ns))
            self.host.turn_due = True

        def end_turn(self) -> None:
            self.fired.append((len(self.received), self.host.now_ns))

    def ends(turn_ms: float) -> list[tuple[int, int]]:
        bench = Bench()
        site = bench.sites[1]
        site.turn_ns = round(turn_ms * MS)
        port, probe = site.port(ONLY_GROUP), Gathering()
        port.attach(Stack(port, probe))
        port.run(lambda: port.install(View(1, (HERE, THERE))))
        port.run(port.resume)
        probe.fired.clear()
        for at_ms in (0, 1, 2, 9):
            bench.scheduler.at(at_ms * MS, lambda *_: bench.ports[0].send((THERE,), Cast(HERE, 1)))
        bench.run(50)
        return [(count, at // MS) for count, at in probe.fired]

    assert ends(0) == [(1, 10), (2, 11), (3, 12), (4, 19)]
    assert ends(5) == [(3, 15), (4, 24)]
