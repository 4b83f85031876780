"""The failure detector's rules, one by one."""

from __future__ import annotations

import pytest
from tests.claims.test_suspicion import HERE, MS, THERE, Watcher
from tests.harness.recording import RecordingSite

from isthmus.core.errors import RemoteError
from isthmus.core.layer import Stack
from isthmus.core.message import SiteId
from isthmus.protocols.membership.suspicion import CHECK, LAN, WAN, Heartbeat, SilenceProbe, Suspicion, Timing


@pytest.mark.parametrize(
    ("timing", "gap_ms", "expected_ms"),
    [
        (LAN, 210, 450),  # the floor
        (LAN, 402, 450),
        (LAN, 610, 710),  # 1.25 (P - h) + h, as silent sites are probed
        (LAN, 2000, 1200),  # the ceiling
        (WAN, 200, 1000),
        (WAN, 800, 1200),
        (WAN, 10_000, 4000),
    ],
)
def test_timeout(timing: Timing, gap_ms: int, expected_ms: int) -> None:
    assert timing.timeout_ns(gap_ms * MS) == expected_ms * MS


def test_silence_is_suspected_and_any_packet_revokes_it() -> None:
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    watcher.run_to(459 * MS)
    assert watcher.told == []
    watcher.run_to(460 * MS)
    assert watcher.told == [(460 * MS, True)]
    watcher.heard_at = 500 * MS  # a packet of some group, not a heartbeat
    watcher.run_to(700 * MS)
    assert [suspected for _, suspected in watcher.told] == [True, False]


def test_the_longest_gap_between_heartbeats_counts_for_two_windows() -> None:
    watcher = Watcher(near=True)
    for at_ms in (0, 210, 660):
        watcher.hear(at_ms * MS)
    peer = watcher.suspicion.peers[THERE]
    assert peer.timeout_ns() == 510 * MS
    watcher.suspicion.turn(600_000 * MS)
    assert peer.timeout_ns() == 510 * MS
    watcher.suspicion.turn(1_200_000 * MS)
    assert peer.timeout_ns() == 450 * MS


def test_a_silent_site_is_probed_and_answers_at_once() -> None:
    """From 260 ms on, every 30 ms, until it is suspected; a site that is probed answers with a heartbeat."""
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    watcher.sent.clear()
    watcher.run_to(600 * MS)
    probes = [at_ns for at_ns, message in watcher.sent if message == SilenceProbe()]
    assert probes == [at_ms * MS for at_ms in range(270, 460, 30)]
    watcher.hear(610 * MS)
    watcher.sent.clear()
    watcher.stack.receive(THERE, SilenceProbe())
    assert watcher.sent == [(610 * MS, Heartbeat(0))]
    with pytest.raises(RemoteError):
        watcher.suspicion.on_probe(SiteId(9), SilenceProbe())


def test_after_a_pause_of_our_own_packets_are_read_first() -> None:
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    watcher.now_ns = 2_000 * MS  # the process was stopped; timers that were due come late
    watcher.suspicion.timer(2)
    assert watcher.told == []
    watcher.heard_at = watcher.now_ns
    watcher.run_to(2_100 * MS)
    assert watcher.told == []


def test_a_site_that_all_its_neighbours_suspect_is_given_up() -> None:
    watcher = Watcher(near=False)
    suspicion = watcher.suspicion
    neighbour = SiteId(2)
    suspicion.watched = suspicion.cluster_of = {HERE: 0, THERE: 1, neighbour: 1}
    suspicion.start()
    suspicion.on_heartbeat(THERE, Heartbeat(0))
    suspicion.on_heartbeat(neighbour, Heartbeat(0, (THERE,)))
    assert suspicion.is_suspected(THERE)
    suspicion.on_heartbeat(neighbour, Heartbeat(0))
    assert not suspicion.is_suspected(THERE)


def test_one_neighbour_that_hears_a_site_is_enough_to_keep_it() -> None:
    watcher = Watcher(near=False)
    suspicion, first, second = watcher.suspicion, SiteId(2), SiteId(3)
    suspicion.watched = suspicion.cluster_of = {HERE: 0, THERE: 1, first: 1, second: 1}
    suspicion.start()
    suspicion.on_heartbeat(THERE, Heartbeat(0))
    suspicion.on_heartbeat(first, Heartbeat(0, (THERE,)))
    suspicion.on_heartbeat(second, Heartbeat(0))
    assert not suspicion.is_suspected(THERE)
    suspicion.on_heartbeat(second, Heartbeat(0, (THERE,)))
    assert suspicion.is_suspected(THERE)


def test_the_time_between_two_lives_is_no_gap_between_heartbeats() -> None:
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    watcher.now_ns = watcher.heard_at = 5_000 * MS
    watcher.suspicion.on_heartbeat(THERE, Heartbeat(9))
    assert watcher.suspicion.peers[THERE].timeout_ns() == LAN.timeout_ns(0)


def test_late_words_of_an_earlier_life_and_strangers_change_nothing() -> None:
    watcher = Watcher(near=True)
    watcher.suspicion.on_heartbeat(THERE, Heartbeat(3, (HERE,)))
    watcher.suspicion.on_heartbeat(THERE, Heartbeat(2))
    with pytest.raises(RemoteError):
        watcher.suspicion.on_heartbeat(SiteId(9), Heartbeat(0, (HERE,)))
    assert watcher.suspicion.suspects_us(THERE)
    assert not watcher.suspicion.suspects_us(SiteId(9))


def test_what_was_learnt_of_a_link_outlives_a_life() -> None:
    before = Watcher(near=True)
    before.suspicion.peers[THERE].gap_ns = 700 * MS
    after = Watcher(near=True)
    after.suspicion.inherit(before.suspicion)
    peer = after.suspicion.peers[THERE]
    assert peer.timeout_ns() == before.suspicion.peers[THERE].timeout_ns() > LAN.timeout_ns(0)
    assert not peer.suspected and peer.incarnation == -1


def test_after_a_pause_of_our_own_nobody_is_suspected_while_packets_are_read() -> None:
    """The first packets that are read are of one site: the other has not been silent, it has not been read yet."""
    told: list[tuple[SiteId, bool]] = []
    site, third = RecordingSite(HERE), SiteId(2)
    suspicion = Suspicion({HERE: 0, THERE: 0, third: 0}, lambda *word: told.append(word))
    site.attach(Stack(site.host, suspicion))
    for other in (THERE, third):
        site.receive(other, 0, Heartbeat(1))
    site.now_ns = 2_000 * MS  # it was stopped
    site.run(lambda: suspicion.timer(CHECK))
    for _ in range(3):
        site.now_ns += 5 * MS
        site.receive(THERE, 0, Heartbeat(1))
    assert told == []
    site.advance(30 * MS)
    assert told == [(third, True)]  # and was silent after all


def test_refusals_that_somebody_forges_suspect_nobody_who_answers() -> None:
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    for at_ms in range(20, 400, 3):
        watcher.run_to(at_ms * MS)
        watcher.suspicion.refused(THERE)
        if at_ms % 2:
            watcher.hear((at_ms + 1) * MS)  # the answer to a probe
    assert watcher.told == []


def test_a_dead_site_whose_port_refuses_is_suspected_once() -> None:
    """Refusals that came further apart than two periods began anew: trusted, and suspected again by the answer."""
    watcher = Watcher(near=True)
    watcher.hear(10 * MS)
    for at_ms in (12, 13, 90, 91, 200, 310, 311):
        watcher.run_to(at_ms * MS)
        watcher.suspicion.refused(THERE)
    assert watcher.told == [(62 * MS, True)]  # and not before the probe of 12 ms was to be answered
    watcher.hear(320 * MS)
    assert [suspected for _, suspected in watcher.told] == [True, False]
    watcher.run_to(322 * MS)
    watcher.suspicion.refused(THERE)
    assert len(watcher.told) == 2  # one refusal is a hint
