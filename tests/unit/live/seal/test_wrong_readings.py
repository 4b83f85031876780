"""Readings that look right: each does harm that is counted here, and the machine as it is does none."""

from __future__ import annotations

import pytest
from tests.harness.sealed_network import SealedNetwork, keys_of
from tests.planted.sealed import FirstKeyOnly, KeysOfLives, MarkedFirst, OneTable, SendsUnconfirmed
from tests.unit.live.seal.test_machine import rotate

from isthmus.core.message import SiteId
from isthmus.live.net.framing import ANSWER, GREET, SEALED, head
from isthmus.live.seal import machine, session
from isthmus.live.seal.machine import SealMachine
from isthmus.live.seal.session import ReplayWindow
from isthmus.live.seal.wire import start

A, B, C = SiteId(0), SiteId(1), SiteId(2)
Machine = type[SealMachine]


def replays_taken(kind: Machine) -> int:
    """Of a hundred datagrams to a site, replayed to its next life."""
    net = SealedNetwork(1, 2, machine=kind)
    for number in range(100):
        net.send(A, B, b"%d" % number)
        net.run(1)
    net.run(200)
    assert len(net.texts(B)) == 100
    recorded = [datagram for source, target, datagram in net.wire if target == B]
    net.now_ns += 1
    net.restart(B)
    return sum(net.receive(A, B, datagram) for datagram in recorded)


def test_keys_without_a_handshake_let_the_next_life_take_replays() -> None:
    assert replays_taken(SealMachine) == 0
    assert replays_taken(KeysOfLives) == 100


def delivered_after_a_forgery() -> int:
    """Of eighteen datagrams, after one forgery with a high counter."""
    net = SealedNetwork(2, 2)
    net.send(A, B, b"first")
    net.run(200)
    (index,) = {datagram[4:8] for _, target, datagram in net.wire if target == B and datagram[3] == SEALED}
    forged = start(SEALED, int.from_bytes(index, "big"), (1 << 40).to_bytes(8, "big")) + bytes(64)
    assert not net.receive(A, B, forged)
    for number in range(18):
        net.send(A, B, b"%d" % number)
    net.run(200)
    return len(net.texts(B)) - 1


def test_a_window_that_is_marked_before_the_tag_shuts_out_all_that_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert delivered_after_a_forgery() == 18
    monkeypatch.setattr(machine, "Session", MarkedFirst)
    assert delivered_after_a_forgery() == 0


def delivered_after_a_replayed_greeting(kind: Machine) -> int:
    """Of eighteen datagrams of a site that was started again, to which an old greeting was replayed."""
    net = SealedNetwork(3, 2, machine=kind)
    net.send(A, B, b"first")
    net.run(200)
    (greeting,) = [datagram for _, _, datagram in net.wire if datagram[3] == GREET]
    net.now_ns += 1
    net.restart(B)
    net.receive(A, B, greeting)
    for number in range(18):
        net.send(B, A, b"%d" % number)
    net.run(500)
    return len(net.texts(A))


def test_an_answerer_that_sends_before_it_is_confirmed_talks_to_nobody() -> None:
    assert delivered_after_a_replayed_greeting(SealMachine) == 18
    assert delivered_after_a_replayed_greeting(SendsUnconfirmed) == 0


def lost_while_answers_are(kind: Machine) -> int:
    """Of 120 datagrams by a good session, while greetings for a newer one come and their answers do not arrive."""
    net = SealedNetwork(4, 2, machine=kind)
    net.send(A, B, b"first")
    net.run(200)
    net.filter = lambda _source, _target, datagram: datagram[3] != ANSWER
    net.machines[A].become_renewing(net.machines[A].peers[B], net.now_ns)
    net.flush(A)
    for number in range(120):
        net.send(A, B, b"%d" % number)
        net.run(20)
    return 121 - len(net.texts(B))


def test_unconfirmed_sessions_have_places_of_their_own() -> None:
    assert lost_while_answers_are(SealMachine) == 0
    assert lost_while_answers_are(OneTable) > 50


def read_by_another() -> int:
    """Of fifty messages of A to B, when all that passes between them is led to C, which has the same key."""
    net = SealedNetwork(5, 3)
    for number in range(50):
        clear = head(A, net.lives[A], 0) + b"%d" % number
        for datagram in (net.machines[A].seal(B, clear, net.now_ns),):
            if datagram:
                net.receive(A, C, datagram)
        for _ in range(3):
            out, net.machines[A].out = net.machines[A].out, []
            for _, datagram in out:
                opened = net.machines[C].open(A, datagram, net.now_ns)
                net.heard[C] += [(A, 0, opened[1])] if opened else []
            out, net.machines[C].out = net.machines[C].out, []
            for _, datagram in out:
                net.machines[A].open(B, datagram, net.now_ns)
        net.run(100)
    return len(net.texts(C))


def test_a_prologue_without_the_sites_has_another_read_what_was_not_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_by_another() == 0
    monkeypatch.setattr(machine, "prologue", lambda clear, _answerer: machine.PROLOGUE + clear)
    assert read_by_another() == 50


def test_what_is_repeated_is_sealed_anew() -> None:
    net = SealedNetwork(6, 2)
    net.send(A, B, b"first")
    net.run(200)
    beat = head(A, net.lives[A], 0) + b"beat"
    anew = [net.machines[A].seal_now(B, beat) for _ in range(20)]
    assert sum(net.receive(A, B, datagram) for datagram in anew) == 20
    assert sum(net.receive(A, B, datagram) for datagram in [net.machines[A].seal_now(B, beat)] * 20) == 1


def arrived_after_a_restart_within_two_steps(kind: Machine, seed: int) -> int:
    """Of twenty datagrams of a site that begins anew with [new, old], to one that still has [old]."""
    net = SealedNetwork(seed, 2, lambda _: keys_of(b"old"), machine=kind)
    net.machines[A].reload(keys_of(b"new", b"old"), net.now_ns)
    net.restart(A)
    for number in range(20):
        net.send(A, B, b"%d" % number)
        net.run(50)
    net.run(2_000)
    return len(net.texts(B))


@pytest.mark.parametrize("seed", range(3))
def test_where_only_the_first_key_greets_a_restart_within_two_steps_is_never_heard(seed: int) -> None:
    assert arrived_after_a_restart_within_two_steps(SealMachine, seed) == 20
    assert arrived_after_a_restart_within_two_steps(FirstKeyOnly, seed) == 0


def dropped_by_jitter(window: int) -> int:
    """Of 50,000 true datagrams, each up to a thousand places late, with a window of a size."""
    net = SealedNetwork(8, 2)
    order = sorted(range(50_000), key=lambda number: number + net.random.uniform(0, 1_000))
    old, session.WINDOW = session.WINDOW, window
    try:
        seen, taken = ReplayWindow(), 0
        for number in order:
            if seen.is_new(number):
                taken += 1
                seen.mark(number)
            assert not seen.is_new(number)
    finally:
        session.WINDOW = old
    return len(order) - taken


def test_a_window_is_wider_than_the_jitter() -> None:
    assert dropped_by_jitter(session.WINDOW) == 0
    assert dropped_by_jitter(64) > 25_000


@pytest.mark.parametrize("seed", range(3))
def test_one_step_of_rotation_is_too_few(seed: int) -> None:
    steps = {1: [[b"new"]], 3: [[b"old", b"new"], [b"new", b"old"], [b"new"]]}
    lost = {
        count: rotate(SealedNetwork(seed, 3, lambda _: keys_of(b"old")), given)[1] for count, given in steps.items()
    }
    assert lost[3] == 0 < lost[1]
