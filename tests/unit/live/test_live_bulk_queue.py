"""Bulk datagrams wait before the socket: what is sent after megabytes of them does not wait behind them."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest
from tests.harness.ports import free_ports
from tests.unit.live.test_live_site import Fixture

from isthmus.core.message import BULK_WINDOW_BYTES, SiteId
from isthmus.live.net import bulk
from isthmus.live.net.bulk import BulkQueue
from isthmus.live.net.emulation import Emulation
from isthmus.live.net.sockets import Socket
from isthmus.protocols.membership.suspicion import Heartbeat
from isthmus.protocols.membership.wire import StatePiece
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh

NEAR, FAR = SiteId(1), SiteId(2)
PIECE_BYTES = 16_384


def test_a_slow_target_delays_no_other_and_targets_take_turns() -> None:
    sent: list[tuple[SiteId, bytes]] = []
    waits = {NEAR: 1_000_000_000, FAR: 1_000_000_000}

    async def program() -> None:
        queue = BulkQueue(asyncio.get_running_loop(), lambda *one: sent.append(one), lambda target, _: waits[target])
        for number in range(3):
            queue.put(NEAR, b"%d" % number)
            queue.put(FAR, b"%d" % number)
        assert not sent and queue.count == 6
        waits[NEAR] = 0
        queue.release()
        assert sent == [(NEAR, b"0"), (NEAR, b"1"), (NEAR, b"2")] and queue.alarm.handle is not None
        queue.put(NEAR, b"3")
        assert sent.pop() == (NEAR, b"3")
        waits[NEAR], sent[:] = 1, []
        for number in range(3):
            queue.put(NEAR, b"%d" % number)
        waits[NEAR] = waits[FAR] = 0
        queue.release()
        assert [target for target, _ in sent] == [FAR, NEAR] * 3 and not queue.waiting and not queue.count

    asyncio.run(program())


def test_what_is_beyond_the_bound_is_dropped_and_an_ended_life_sends_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "QUEUED_MAX", 2)

    async def program() -> None:
        queue = BulkQueue(asyncio.get_running_loop(), lambda *_: None, lambda *_: 10**9)
        for _ in range(3):
            queue.put(NEAR, b"x")
        assert (queue.count, queue.dropped_count) == (2, 1)
        queue.clear()
        assert not queue.waiting and not queue.count and queue.alarm.handle is None

    asyncio.run(program())


def test_what_follows_bulk_on_a_slow_link_waits_for_one_window_at_most() -> None:
    """Asked for on an emulated link of 20 Mbit/s: a megabyte takes 0.4 s there, a window 26 ms."""
    channel = Channel(Constant(0.0), bandwidth_mbps=20.0)
    network = mesh(2, 1, channel, channel)
    ports = free_ports([site.name for site in network.sites])

    async def program() -> None:
        end = Socket(("127.0.0.1", ports["c0-0"]))
        emulation = Emulation.over(network, SiteId(0), Random(1))
        end.open({NEAR: ("127.0.0.1", ports["c1-0"])}, emulation, lambda *_: None, lambda *_: None, lambda: None)
        for _ in range(64):
            end.bulk.put(NEAR, bytes(PIECE_BYTES))
        assert end.bulk.count >= 64 - BULK_WINDOW_BYTES // PIECE_BYTES - 2
        end.send(NEAR, b"heartbeat")
        ahead_ns = max(at_ns for at_ns, *_ in end.held) - time.monotonic_ns()
        assert ahead_ns <= (BULK_WINDOW_BYTES + PIECE_BYTES + 9) * 8_000 / 20
        end.close()
        assert not end.bulk.count

    asyncio.run(program())


def test_a_site_gives_bulk_messages_to_the_queue_and_all_others_to_the_socket() -> None:
    fixture = Fixture()
    sent: list[str] = []
    fixture.site.outlet = lambda *_: sent.append("socket")
    fixture.site.bulk_outlet = lambda *_: sent.append("queue")
    fixture.port.send((FAR,), StatePiece(0, 1, 0, b"", 0, 1, b"x"))
    fixture.port.send((FAR,), Heartbeat(0))
    fixture.site.finish()
    assert sent == ["socket", "queue"], "and what is urgent goes first"
