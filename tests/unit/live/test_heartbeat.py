"""A thread repeats heartbeats while the event loop says nothing: not before, and not for ever."""

from __future__ import annotations

import threading

import pytest
from tests.harness.recording import RecordingSite

from isthmus.core.layer import Stack
from isthmus.core.message import SiteId
from isthmus.core.validation import BadValue
from isthmus.live.net.framing import PACKET_HEAD_BYTES, split
from isthmus.live.node.heartbeat import LATE_PERIODS, HeartbeatRecorder, HeartbeatThread
from isthmus.live.node.plans import AgreedPlan
from isthmus.protocols.membership.suspicion import Heartbeat, Suspicion

PERIOD_NS = 20_000_000
MOST_NS = 1_000_000_000
BUSY, IDLE = SiteId(1), SiteId(2)


def test_only_what_is_late_is_repeated_and_not_for_ever() -> None:
    sent: list[tuple[SiteId, bytes]] = []
    pulse = HeartbeatThread(lambda target, datagram: sent.append((target, datagram)), PERIOD_NS, MOST_NS)
    pulse.tick(5 * PERIOD_NS)
    assert sent == []  # nothing was ever said
    pulse.note(BUSY, 0, b"one")
    pulse.note(IDLE, PERIOD_NS, b"two")
    late_ns = PERIOD_NS + round(LATE_PERIODS * PERIOD_NS)
    pulse.tick(late_ns)
    assert sent == []
    pulse.tick(late_ns + 1)
    assert sent == [(BUSY, b"one"), (IDLE, b"two")]
    pulse.note(BUSY, 5 * PERIOD_NS, b"more")
    pulse.tick(6 * PERIOD_NS)
    assert len(sent) == 2
    pulse.tick(5 * PERIOD_NS + MOST_NS)
    assert len(sent) == 2


def test_what_is_repeated_is_the_last_heartbeat_as_it_left() -> None:
    site = RecordingSite(SiteId(0))
    sent: dict[SiteId, bytes] = {}
    pulse = HeartbeatThread(sent.__setitem__, PERIOD_NS, MOST_NS)
    suspicion = Suspicion({SiteId(number): 0 for number in range(3)}, lambda _site, _suspected: None)
    site.attach(Stack(site.host, suspicion, HeartbeatRecorder(pulse, b"h" * PACKET_HEAD_BYTES)))
    site.run(lambda: suspicion.beat((BUSY, IDLE)))
    pulse.tick(MOST_NS - 1)
    assert sorted(sent) == [BUSY, IDLE]
    ((group, view_id, packet),) = split(sent[BUSY])
    assert (group, view_id) == (site.host.group, 0)
    assert site.host.stack.codec.decode(packet) == Heartbeat(0, ())


def test_it_goes_on_while_the_loop_does_nothing() -> None:
    repeated = threading.Event()
    pulse = HeartbeatThread(lambda _target, _datagram: repeated.set(), 1_000_000, 1 << 62)
    pulse.note(BUSY, 0, b"here")
    pulse.start()
    try:
        assert repeated.wait(60.0)
    finally:
        pulse.close()
    assert not pulse.thread.is_alive()


def test_a_wrong_time_is_refused() -> None:
    with pytest.raises(BadValue, match="blocked_s"):
        AgreedPlan(blocked_s=-1.0)
