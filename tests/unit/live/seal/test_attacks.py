"""Attacks on a site by all that was ever sent around it: nothing is taken or answered, and the true ones go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from tests.harness.sealed_network import START_NS, SealedNetwork, identities_of, keys_of

from isthmus.core.message import SiteId
from isthmus.live.net.framing import GREET, head
from isthmus.live.seal.keys import SealKeys, cluster_key
from isthmus.live.seal.machine import SealMachine

A, B, C = SiteId(0), SiteId(1), SiteId(2)
Datagram = tuple[SiteId, bytes]  # the site from whose address it comes, and what


class Attacker:
    """Has recorded all of a network's life, and sends what it likes to site B from any address."""

    def __init__(self, mode: str, seed: int) -> None:
        self.random = Random(f"{seed}/attacker")
        self.mode = mode
        net = self.net = SealedNetwork(seed, 3, self.keys(b"old"))
        self.talk(30)
        net.now_ns += 1
        net.restart(B)  # what was sent to its first life is of an old life now
        net.restart(A)
        self.talk(30)
        net.run(200)
        self.old_life = [(one, two, datagram) for one, two, datagram in net.wire]
        for step in ([b"old", b"new"], [b"new", b"old"], [b"new"]):
            for site, name in net.names.items():
                net.machines[site].reload(self.keys(*step)(name), net.now_ns)
                net.flush(site)
                self.talk(2)
            net.run(500)
        self.old_key = net.wire[len(self.old_life) :]
        before = len(net.wire)
        self.talk(60)
        net.run(1_000)
        self.recent = net.wire[before:]
        self.impostors = [self.impostor(number) for number in range(4)]

    def keys(self, *secrets: bytes) -> Callable[[str], SealKeys]:
        if self.mode == "identity":
            return identities_of(["s0", "s1", "s2"], *secrets).__getitem__
        return lambda _: keys_of(*secrets)

    def talk(self, rounds: int) -> None:
        for number in range(rounds):
            for source in (A, B, C):
                for target in (A, B, C):
                    if source != target:
                        self.net.send(source, target, b"%d" % number)
            self.net.run(15)

    def impostor(self, number: int) -> SealMachine:
        """A machine that passes for A: with another cluster key, or with an identity of its own."""
        if self.mode == "identity":
            public = identities_of(["s1", "s2"], b"new")["s1"].sites
            cluster = (cluster_key(b"new".ljust(32, b"."), "", "identity"),)
            keys = SealKeys(cluster, b"%d" % number * 32, public)
        else:
            keys = keys_of(b"guess %d" % number)
        made = SealMachine(A, self.net.names, keys, self.random.randbytes, lambda *_: None)
        made.begin_life(self.net.lives[A] + number, 77, self.net.now_ns)  # later than any that B has seen
        return made

    # Each kind of attack draws one datagram

    def replay(self) -> Datagram:
        source, _, datagram = self.random.choice([one for one in self.recent if one[1] == B])
        return source, datagram

    def recorded(self, among: list[tuple[SiteId, SiteId, bytes]]) -> tuple[SiteId, SiteId, bytes]:
        return self.random.choice(among)

    def flip(self) -> Datagram:
        source, _, datagram = self.recorded(self.recent)
        place = self.random.randrange(len(datagram))
        return source, datagram[:place] + bytes([datagram[place] ^ 1 << self.random.randrange(8)]) + datagram[
            place + 1 :
        ]

    def splice(self) -> Datagram:
        (source, _, one), (_, _, two) = self.recorded(self.recent), self.recorded(self.recent)
        cut = self.random.randrange(1, min(len(one), len(two)))
        return source, two if one == two else one[:cut] + two[cut:]

    def reflection(self) -> Datagram:
        _, _, datagram = self.random.choice([one for one in self.recent if one[0] == B])
        return self.random.choice([A, C]), datagram

    def truncation(self) -> Datagram:
        source, _, datagram = self.recorded(self.recent)
        cut = self.random.randrange(len(datagram))
        return source, datagram[:cut] if self.random.random() < 0.8 else datagram + self.random.randbytes(cut or 1)

    def of_old_life(self) -> Datagram:
        source, _, datagram = self.recorded(self.old_life)
        return source, datagram

    def of_old_key(self) -> Datagram:
        source, _, datagram = self.recorded(self.old_key)
        return source, datagram

    def wrong_site(self) -> Datagram:
        source, target, datagram = self.recorded(self.recent)
        if target == B:
            return (C if source == A else A), datagram
        return source if source != B else A, datagram

    def impersonation(self) -> Datagram:
        machine = self.random.choice(self.impostors)
        machine.peers[B].begin()
        machine.pending.clear()
        machine.seal(B, head(A, machine.life, 77) + b"lie", self.net.now_ns + self.random.randrange(1 << 30))
        out, machine.out = machine.out, []
        assert out[0][1][3] == GREET
        return A, out[0][1]

    KINDS = (replay, flip, splice, reflection, truncation, of_old_life, of_old_key, wrong_site, impersonation)

    def attack(self, count: int) -> Counter[str]:
        """Send so many datagrams; what was taken, or was answered, by kind."""
        victim, taken = self.net.machines[B], Counter[str]()
        victim.out.clear()
        for number in range(count):
            kind = self.KINDS[number % len(self.KINDS)]
            if kind is Attacker.impersonation and number % 1_000 > 9 * 6:  # dear to make; the others take their place
                kind = Attacker.flip
            source, datagram = kind(self)
            if source == B:
                source = A
            opened = victim.open(source, datagram, self.net.now_ns)
            if opened is not None or victim.out:
                taken[kind.__name__] += 1
                victim.out.clear()
        return taken


def survives(mode: str, seed: int, count: int) -> None:
    attacker = Attacker(mode, seed)
    net = attacker.net
    assert attacker.attack(count) == Counter()
    assert sum(net.machines[B].dropped.values()) >= count
    before = len(net.texts(B))
    attacker.talk(10)
    net.run(1_000)
    assert len(net.texts(B)) == before + 20  # by the same sessions, or by new ones


@pytest.mark.parametrize("mode", ["key", "identity"])
def test_of_ten_thousand_attacks_none_is_taken(mode: str) -> None:
    survives(mode, 1, 5_000)


@pytest.mark.full
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", ["key", "identity"])
def test_of_a_million_attacks_none_is_taken(mode: str, seed: int) -> None:
    survives(mode, seed, 250_000)


def test_a_member_can_pass_for_another_without_identities_and_not_with_them() -> None:
    """What the two modes promise, no more: who has the cluster key greets as any site."""
    for mode, wanted in (("key", 5), ("identity", 0)):
        heard = 0
        for seed in range(5):
            names = ["s0", "s1", "s2"]
            by_name = identities_of(names, b"first") if mode == "identity" else dict.fromkeys(names, keys_of(b"first"))
            net = SealedNetwork(seed, 3, by_name.__getitem__)
            liar = SealMachine(A, net.names, by_name["s2"], net.random.randbytes, lambda *_: None)
            liar.begin_life(START_NS + 5, 77, net.now_ns)
            liar.seal(B, head(A, liar.life, 77) + b"lie", net.now_ns)
            for _ in range(3):
                for _, datagram in liar.out:
                    net.heard[B] += [(A, 0, b"lie")] * (net.machines[B].open(A, datagram, net.now_ns) is not None)
                liar.out.clear()
                for _, datagram in net.machines[B].out:
                    liar.open(B, datagram, net.now_ns)
                net.machines[B].out.clear()
            heard += len(net.texts(B))
        assert heard == wanted


def test_greetings_are_answered_at_a_bounded_rate() -> None:
    """Whoever has the key cannot have a site compute without end."""
    net = SealedNetwork(9, 2)
    machine, victim = net.machines[A], net.machines[B]
    answered = 0
    for number in range(200):
        machine.peers[B].begin()
        machine.pending.clear()
        machine.seal(B, head(A, machine.life, 77), net.now_ns + number)
        victim.open(A, machine.out.pop()[1], net.now_ns)
        answered += len(victim.out)
        victim.out.clear()
    assert answered == 20 and victim.dropped["limited"] == 180


def test_a_life_of_the_future_does_not_shut_out_the_true_ones() -> None:
    net = SealedNetwork(10, 2)
    net.lives[A] += 3 * 86_400 * 10**9
    net.machines[A].begin_life(net.lives[A], 77, net.now_ns)
    net.send(A, B, b"from the future")
    net.run(500)
    assert net.texts(B) == [] and "claims to have started in the future" in net.troubles[0][2]
    net.restart(A)
    net.send(A, B, b"true")
    net.run(1_000)
    assert net.texts(B) == [b"true"]
