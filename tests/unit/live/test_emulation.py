"""The emulated network: delays, order, loss, repetition, bandwidth."""

from __future__ import annotations

from random import Random

from isthmus.core.message import SiteId
from isthmus.live.net.emulation import Emulation, LinkFault
from isthmus.topology.delay import Constant, Uniform
from isthmus.topology.model import Channel, Passage
from isthmus.topology.shapes import star

MS = 1_000_000


def test_delays_add_up_along_the_way() -> None:
    network = star(3, 1, Channel(Constant(1.0)), Channel(Constant(20.0)))
    emulation = Emulation.over(network, SiteId(1), Random(0))
    assert emulation.arrivals(SiteId(0), 5, 100) == [5 + 20 * MS]
    assert emulation.arrivals(SiteId(2), 5, 100) == [5 + 40 * MS]


def test_faults_of_a_link_lose_and_delay_until_they_end() -> None:
    network = star(3, 1, Channel(Constant(1.0)), Channel(Constant(20.0)))
    emulation = Emulation.over(network, SiteId(1), Random(0))
    emulation.disturb({SiteId(0): LinkFault(factor=2.0, add_ns=5 * MS), SiteId(2): LinkFault(loss=1.0)})
    assert emulation.arrivals(SiteId(0), 0, 100) == [45 * MS]
    assert emulation.arrivals(SiteId(2), 0, 100) == []
    emulation.disturb({SiteId(2): LinkFault(loss=0.3)})
    assert emulation.arrivals(SiteId(0), 50 * MS, 100) == [70 * MS]
    lost = sum(not emulation.arrivals(SiteId(2), 0, 100) for _ in range(10_000))
    assert abs(lost / 10_000 - 0.3) < 0.02
    bare = Emulation.bare([SiteId(0)], Random(0))
    assert bare.arrivals(SiteId(0), 7, 100) == [7]


def test_order_is_kept_where_all_channels_keep_it() -> None:
    for fifo in (True, False):
        path = Passage((Channel(Uniform(0.0, 10.0), fifo=fifo),), Random(1))
        arrivals = [path.arrivals(now, 1)[0] for now in range(100)]
        assert (arrivals == sorted(arrivals)) is fifo


def test_loss_and_repetition_are_as_frequent_as_said() -> None:
    path = Passage((Channel(Constant(1.0), loss=0.2), Channel(Constant(1.0), duplicate=0.3)), Random(2))
    counts = [len(path.arrivals(0, 1)) for _ in range(10_000)]
    assert abs(counts.count(0) / 10_000 - 0.2) < 0.02
    assert abs(counts.count(2) / 10_000 - 0.8 * 0.3) < 0.02


def test_packets_queue_for_a_narrow_channel() -> None:
    path = Passage((Channel(Constant(1.0), bandwidth_mbps=8.0),), Random(0))  # 1 byte a microsecond
    assert [path.arrivals(0, 1000)[0] for _ in range(3)] == [2 * MS, 3 * MS, 4 * MS]
