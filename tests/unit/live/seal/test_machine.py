"""Sessions between sites on a simulated network: crashes, restarts, reordering, rotation."""

from __future__ import annotations

from functools import partial

import pytest
from tests.harness.sealed_network import SealedNetwork, identities_of, keys_of

from isthmus.core.message import SiteId
from isthmus.live.net.framing import ANSWER, GREET, SEALED
from isthmus.live.seal.machine import HELD_MAX, RENEWING_NS, SealPhase
from isthmus.live.seal.session import RENEW_NS
from isthmus.live.seal.wire import ANSWER_BYTES, GREET_BYTES, OVERHEAD_BYTES

A, B, C = SiteId(0), SiteId(1), SiteId(2)


def kinds(net: SealedNetwork) -> list[int]:
    return [datagram[3] for _, _, datagram in net.wire]


@pytest.mark.parametrize("mode", ["key", "identity"])
def test_two_sites_greet_answer_and_seal(mode: str) -> None:
    keys = identities_of(["s0", "s1"], b"first")
    net = SealedNetwork(1, 2, keys.__getitem__ if mode == "identity" else lambda _: keys_of(b"first"))
    for number in range(3):
        net.send(A, B, b"text %d" % number)
    net.run(90)
    assert sorted(net.texts(B)) == [b"text 0", b"text 1", b"text 2"]
    assert {life for _, life, _ in net.heard[B]} == {net.lives[A]}
    assert kinds(net) == [GREET, ANSWER, *[SEALED] * 5]
    sizes = [len(datagram) for _, _, datagram in net.wire]
    handshake = [GREET_BYTES, ANSWER_BYTES[mode == "identity"], OVERHEAD_BYTES, OVERHEAD_BYTES]
    assert sorted(sizes) == sorted([*handshake, *[6 + OVERHEAD_BYTES] * 3])
    net.send(B, A, b"back")
    net.run(90)
    assert net.texts(A) == [b"back"] and len(net.wire) == 8


def test_both_greet_at_once_and_both_sessions_open() -> None:
    net = SealedNetwork(2, 2)
    net.send(A, B, b"a")
    net.send(B, A, b"b")
    net.run(90)
    for number in range(20):
        net.send(A, B, b"a%d" % number)
        net.send(B, A, b"b%d" % number)
    net.run(90)
    assert len(net.texts(A)) == len(net.texts(B)) == 21
    assert all(not any(machine.dropped.values()) for machine in net.machines.values())
    assert [len(net.machines[one].peers[other].confirmed) for one, other in ((A, B), (B, A))] == [2, 2]


@pytest.mark.parametrize("delay_ms", [60, 80, 150, 400, 700])
@pytest.mark.parametrize("seed", range(6))
def test_both_ends_of_a_long_link_keep_the_sessions_in_use(seed: int, delay_ms: float) -> None:
    """With places for three sessions, each end had ended the one that the other sealed with, from 60 ms on."""
    network = SealedNetwork(seed, 2, delay_ms=(delay_ms, 1.05 * delay_ms))
    for number in range(100):
        for source, target in ((0, 1), (1, 0)):
            offset_ms = 50 * number + 20 * source * seed
            network.at(offset_ms, partial(network.send, SiteId(source), SiteId(target), b"x"))
    network.run(10_000)
    for site in (0, 1):
        assert network.machines[SiteId(site)].dropped["unknown"] <= 8  # answers and confirmations of a retired greeting
        assert len(network.texts(SiteId(site))) == 100


@pytest.mark.parametrize("deaf", [(0,), (1,), (0, 1)])
def test_an_end_that_sends_and_hears_nothing_greets_anew(deaf: tuple[int, ...]) -> None:
    network = SealedNetwork(3, 2, delay_ms=(80, 84))
    for number in range(200):
        for source, target in ((0, 1), (1, 0)):
            network.at(50 * number, partial(network.send, SiteId(source), SiteId(target), b"x"))
    network.run(3_000)
    ended = {index for site in deaf for index in network.machines[SiteId(site)].sessions}
    network.filter = lambda _source, target, datagram: target not in deaf or datagram[4:8] not in ended
    network.run(3_000)
    before = [len(network.texts(SiteId(site))) for site in (0, 1)]
    network.run(1_000)
    assert all(len(network.texts(SiteId(site))) >= before[site] + 19 for site in (0, 1))


def test_rare_datagrams_that_are_answered_renew_nothing() -> None:
    net = SealedNetwork(4, 2)
    for number in range(10):
        net.at(5_000 * number, partial(net.send, A, B, b"asked"))
        net.at(5_000 * number + 500, partial(net.send, B, A, b"answered"))
    net.run(1_000)
    greetings = kinds(net).count(GREET)
    net.run(60_000)
    assert kinds(net).count(GREET) == greetings and net.texts(A) == [b"answered"] * 10


def test_what_is_held_is_bounded_and_the_oldest_go() -> None:
    net = SealedNetwork(3, 2)
    net.filter = lambda *_: False
    for number in range(HELD_MAX + 10):
        net.send(A, B, b"%d" % number)
    net.run(1000)
    net.filter = lambda *_: True
    net.run(1000)
    assert sorted(net.texts(B)) == sorted(b"%d" % number for number in range(10, HELD_MAX + 10))


@pytest.mark.parametrize("seed", range(4))
def test_a_new_life_greets_anew_and_nothing_of_the_old_one_opens(seed: int) -> None:
    net = SealedNetwork(seed, 2)
    net.send(A, B, b"before")
    net.run(100)
    old = [(source, datagram) for source, target, datagram in net.wire if target == B]
    net.now_ns += 10**9
    net.restart(B)
    for source, datagram in old:
        net.receive(source, B, datagram)
    net.run(200)
    assert net.texts(B) == [b"before"]
    net.send(B, A, b"again")
    net.run(100)
    net.send(A, B, b"to the new life")
    net.run(100)
    assert net.texts(B) == [b"before", b"to the new life"]
    assert net.heard[A][-1] == (B, net.lives[B], b"again")
    assert len(net.machines[A].peers[B].confirmed) == 1  # that of the earlier life has ended


@pytest.mark.parametrize("seed", range(10))
def test_loss_duplicates_and_restarts_in_between(seed: int) -> None:
    """Whatever is read was sent once by a life of its sender, and once it is quiet all is read."""
    net = SealedNetwork(seed, 3, loss=0.2, duplicate=0.2)
    sent = 0
    for _ in range(40):
        source, target = net.random.sample([A, B, C], 2)
        for _ in range(5):
            net.send(source, target, b"%d" % sent)
            sent += 1
        if net.random.random() < 0.1:
            net.now_ns += 1
            site = net.random.choice([A, B, C])
            net.restart(site)
            for other in [one for one in (A, B, C) if one != site]:
                net.send(site, other, b"hello %d %d" % (other, net.lives[site]))  # as every life of a site does
        net.run(net.random.uniform(0, 60))
    net.run(5_000)
    for site in (A, B, C):
        assert len(set(net.texts(site))) == len(net.texts(site))
    net.loss = 0
    for source in (A, B, C):
        for target in (A, B, C):
            if source != target:
                net.send(source, target, b"from %d to %d" % (source, target))
    net.run(5_000)
    for source in (A, B, C):
        for target in (A, B, C):
            if source != target:
                assert (source, net.lives[source], b"from %d to %d" % (source, target)) in net.heard[target]


def test_a_session_is_renewed_by_its_greeter_once_its_time_is_over() -> None:
    net = SealedNetwork(4, 2)
    net.send(A, B, b"first")
    net.run(100)
    before = net.machines[A].sessions.keys() - {b""}
    net.run(RENEW_NS / 1e6)
    assert kinds(net).count(GREET) == 2 and net.machines[A].sessions.keys() != before
    net.send(B, A, b"second")
    net.run(100)
    assert net.texts(A) == [b"second"]
    assert net.machines[A].peers[B].phase is SealPhase.OPEN


def test_a_worn_session_is_renewed_while_it_is_used() -> None:
    net = SealedNetwork(5, 2)
    net.send(A, B, b"first")
    net.run(100)
    net.machines[A].peers[B].confirmed[-1].worn = True
    net.send(A, B, b"second")
    net.run(100)
    net.send(A, B, b"third")
    net.run(100)
    assert net.texts(B) == [b"first", b"second", b"third"] and kinds(net).count(GREET) == 2


def rotate(net: SealedNetwork, steps: list[list[bytes]]) -> tuple[int, int]:
    """Give all sites the keys of each step, at times of their own, under traffic; return how much was sent and lost."""
    sent = 0
    sites = list(net.names)

    def traffic(rounds: int) -> None:
        nonlocal sent
        for _ in range(rounds):
            for source in sites:
                for target in sites:
                    if source != target:
                        net.send(source, target, b"%d %d %d" % (source, target, sent))
                        sent += 1
            net.run(25)

    traffic(4)
    for step in steps:
        for site in net.random.sample(sites, len(sites)):
            machine = net.machines[site]
            machine.reload(keys_of(*step), net.now_ns)
            net.flush(site)
            traffic(net.random.randrange(1, 8))
        traffic(12)
    net.run(3_000)
    return sent, sent - sum(map(len, net.heard.values()))


THREE = [[b"old", b"new"], [b"new", b"old"], [b"new"]]


@pytest.mark.parametrize("seed", [*range(10), 94])
def test_rotation_in_three_steps_loses_nothing(seed: int) -> None:
    """Seed 94: two new sessions at once ended the eldest, by which a datagram was on its way."""
    net = SealedNetwork(seed, 3, lambda _: keys_of(b"old"))
    sent, lost = rotate(net, THREE)
    assert lost == 0 and sent > 100
    new = keys_of(b"new").cluster[0].id.hex()
    for machine in net.machines.values():
        assert {one.key for one in machine.status(net.now_ns)} == {new}


@pytest.mark.parametrize("seed", range(5))
def test_rotation_in_one_step_loses_datagrams(seed: int) -> None:
    """What the three steps are for: sites that have changed and those that have not do not understand each other."""
    net = SealedNetwork(seed, 3, lambda _: keys_of(b"old"))
    _, lost = rotate(net, [[b"new"]])
    assert lost > 0


@pytest.mark.parametrize("seed", range(6))
def test_a_restart_within_a_rotation_greets_with_the_next_key(seed: int) -> None:
    net = SealedNetwork(seed, 2, lambda _: keys_of(b"old"))
    net.machines[A].reload(keys_of(b"new", b"old"), net.now_ns)  # two steps instead of three
    net.restart(A)
    net.send(A, B, b"text")
    net.run(400)
    assert net.texts(B) == [b"text"]


def test_a_session_of_another_key_than_the_first_is_renewed_slowly_without_ping_pong() -> None:
    net = SealedNetwork(7, 2, lambda _: keys_of(b"old"))
    net.machines[A].reload(keys_of(b"old", b"new"), net.now_ns)
    net.machines[B].reload(keys_of(b"new", b"old"), net.now_ns)
    net.send(A, B, b"a")
    net.send(B, A, b"b")
    net.run(RENEWING_NS / 1e6 * 5)
    assert kinds(net).count(GREET) <= 10
    assert net.texts(A) == [b"b"] and net.texts(B) == [b"a"]
