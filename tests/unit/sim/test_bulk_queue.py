"""Bulk messages wait at their sender: what is sent after megabytes of them does not wait behind them."""

from __future__ import annotations

from random import Random

from isthmus.core.message import BULK_WINDOW_BYTES, GroupId, SiteId
from isthmus.protocols.membership.suspicion import Heartbeat
from isthmus.protocols.membership.wire import Frames
from isthmus.sim.network.delays import DelayNetwork
from isthmus.sim.scheduler import Scheduler
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NS_PER_BYTE = 800  # at 10 Mbit/s
PIECE_BYTES = 16_384
COUNT = 100


def test_a_heartbeat_waits_for_one_window_of_bulk_messages_at_most() -> None:
    scheduler = Scheduler()
    channel = Channel(Constant(20), bandwidth_mbps=10)
    network = DelayNetwork(mesh(2, 1, channel, channel), scheduler, Random(1))
    arrivals: list[tuple[str, int]] = []
    network.attach(
        SiteId(1), GroupId(0), lambda _, message: arrivals.append((type(message).__name__, scheduler.now_ns))
    )
    for number in range(COUNT):
        network.send((SiteId(0), 0), GroupId(0), (SiteId(1),), Frames(0, number, ()), PIECE_BYTES)
    network.send((SiteId(0), 0), GroupId(0), (SiteId(1),), Heartbeat(0), 50)
    scheduler.run(10**12, 10**6)
    (beat_ns,) = [at_ns for name, at_ns in arrivals if name == "Heartbeat"]
    assert beat_ns <= 20_000_000 + (BULK_WINDOW_BYTES + PIECE_BYTES + 50) * NS_PER_BYTE
    assert len(arrivals) == COUNT + 1
    assert arrivals[-1][1] == 20_000_000 + (COUNT * PIECE_BYTES + 50) * NS_PER_BYTE  # and the link is never idle
