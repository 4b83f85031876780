"""One policy of sizes: what a packet weighs is its encoded message and all heads, or what its type declares."""

from __future__ import annotations

from random import Random

import pytest
from tests.harness.golden import StackRig
from tests.harness.recording import RecordingSite

from isthmus.core.layer import Handler, Layer, Stack, View
from isthmus.core.message import (
    HEAD_BYTES,
    MESSAGE_HEAD_BYTES,
    PACKET_HEAD_BYTES,
    Cast,
    Message,
    SiteId,
    packet_bytes,
    size_of,
)
from isthmus.protocols.transport.reliable.frames import Ack, Data
from isthmus.sim.network.delays import DelayNetwork
from isthmus.sim.scheduler import Scheduler
from isthmus.sim.site import Meter, SimPort, SimSite
from isthmus.topology.delay import Constant
from isthmus.topology.model import Channel
from isthmus.topology.shapes import mesh
from isthmus.trace.log import SiteLog
from isthmus.trace.schema import CONTROL, PAYLOAD, Row

HERE, THERE = SiteId(0), SiteId(1)
CODEC = StackRig("fifo", RecordingSite(HERE).host, {}, lambda _line: None).stack.codec


class Vector(Message, frozen=True, gc=False, array_like=True, tag=220):
    """A timestamp of four bytes a member, as a paper counts it, whatever the codec makes of it."""

    clocks: tuple[int, ...]

    def declared_bytes(self) -> int:
        return 4 * len(self.clocks)


class Owner(Layer):
    """Owns two wire types, one with a declared size."""

    def handlers(self) -> dict[type[Message], Handler]:
        return {Vector: lambda _source, _message: None, Cast: lambda _source, _message: None}

    def resume(self) -> None: ...


def test_heads_are_part_of_the_size() -> None:
    assert HEAD_BYTES == PACKET_HEAD_BYTES + MESSAGE_HEAD_BYTES == 24 + 8
    assert packet_bytes(Ack((1,)), 5) == HEAD_BYTES + 5


@pytest.mark.parametrize("payload", [0, 1, 100, 5000])
def test_a_message_weighs_what_it_encodes_to(payload: int) -> None:
    data = Data(1, Cast(HERE, 1, bytes(payload)))
    encoded = len(CODEC.encode(data))
    assert size_of(CODEC, data) == packet_bytes(data, encoded) == HEAD_BYTES + encoded
    assert encoded > payload == data.payload_bytes()


@pytest.mark.parametrize("members", [0, 3, 1000])
def test_a_declared_size_counts_heads_included(members: int) -> None:
    vector = Vector((2**60,) * members)
    assert packet_bytes(vector, 12345) == size_of(CODEC, vector) == 4 * members


def metered() -> tuple[SimPort, Meter, list[Row]]:
    scheduler, rows, meter = Scheduler(), [], Meter(decodes=False)
    network = DelayNetwork(mesh(2, 1, Channel(Constant(1)), Channel(Constant(1))), scheduler, Random(0))
    site = SimSite(HERE, 0, Random(0), scheduler, network, SiteLog(HERE, rows), None, meter, wire_log=True)
    port = site.port()
    port.attach(Stack(port, Owner()))
    port.run(lambda: port.install(View(1, (HERE, THERE))))
    port.run(port.resume)
    return port, meter, rows


@pytest.mark.parametrize("message", [Cast(HERE, 1, b"x" * 50), Vector((1, 2, 3)), Vector(())])
def test_the_simulator_counts_by_that_policy_and_so_does_its_trace(message: Message) -> None:
    port, meter, rows = metered()
    port.run(lambda: port.send((HERE, THERE), message))
    size, payload = size_of(port.stack.codec, message), message.payload_bytes()
    assert (meter.payload_bytes, meter.control_bytes) == (payload, size - payload), "the copy to oneself is free"
    assert [(row[PAYLOAD], row[CONTROL]) for row in rows] == [(payload, size - payload)]
