"""Seal machines on a simulated network: delays, loss, duplicates, restarts and reloads, all drawn by one seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from random import Random

from isthmus.core.message import PACKET_HEAD_BYTES, SiteId
from isthmus.live.net.framing import head
from isthmus.live.seal.keys import SealKeys, cluster_key
from isthmus.live.seal.machine import SealMachine
from isthmus.live.seal.noise import public_of

TOKEN = 77
NS_PER_MS = 1_000_000
START_NS = 10**15


def keys_of(*secrets: bytes) -> SealKeys:
    """The keys of a site in the mode `key`."""
    return SealKeys(tuple(cluster_key(secret.ljust(32, b".")) for secret in secrets))


def identities_of(names: Sequence[str], *secrets: bytes) -> dict[str, SealKeys]:
    """The keys of sites in the mode `identity`, by name."""
    private = {name: name.encode().ljust(32, b"*") for name in names}
    public = {name: public_of(key) for name, key in private.items()}
    cluster = tuple(cluster_key(secret.ljust(32, b"."), "", "identity") for secret in secrets)
    return {name: SealKeys(cluster, private[name], public) for name in names}


class SealedNetwork:
    """Sites with their machines, what each has read, and the datagrams between them."""

    def __init__(
        self,
        seed: int,
        count: int,
        keys: Callable[[str], SealKeys] = lambda _: keys_of(b"first"),
        machine: type[SealMachine] = SealMachine,
        delay_ms: tuple[float, float] = (0.2, 20.0),
        loss: float = 0.0,
        duplicate: float = 0.0,
    ) -> None:
        self.random = Random(seed)
        self.names = {SiteId(number): f"s{number}" for number in range(count)}
        self.delay_ms, self.loss, self.duplicate = delay_ms, loss, duplicate
        self.now_ns = START_NS
        self.events: list[tuple[int, int, Callable[[], object]]] = []
        self.number = 0
        self.lives: dict[SiteId, int] = {}
        self.heard: dict[SiteId, list[tuple[int, int, bytes]]] = {site: [] for site in self.names}  # site, life, text
        self.wire: list[tuple[SiteId, SiteId, bytes]] = []  # all that was sent: from, to, datagram
        self.troubles: list[tuple[SiteId, SiteId, str]] = []
        self.filter: Callable[[SiteId, SiteId, bytes], bool] = lambda _source, _target, _datagram: True
        self.machines: dict[SiteId, SealMachine] = {}
        for site, name in self.names.items():
            self.machines[site] = machine(site, self.names, keys(name), self.random.randbytes, self.noter(site))
            self.restart(site)

    def noter(self, site: SiteId) -> Callable[[SiteId, str], None]:
        return lambda other, text: self.troubles.append((site, other, text))

    def restart(self, site: SiteId) -> None:
        """Begin a life of a site, as after a crash: nothing of the machine's is left but its keys."""
        old = self.machines[site]
        made = type(old)(site, self.names, old.keys, self.random.randbytes, old.on_trouble)
        self.machines[site] = made
        self.lives[site] = self.now_ns + site
        made.begin_life(self.lives[site], TOKEN, self.now_ns)

    def at(self, delay_ms: float, action: Callable[[], object]) -> None:
        self.number += 1
        heappush(self.events, (self.now_ns + round(delay_ms * NS_PER_MS), self.number, action))

    def send(self, source: SiteId, target: SiteId, text: bytes) -> None:
        machine = self.machines[source]
        sealed = machine.seal(target, head(source, self.lives[source], TOKEN) + text, self.now_ns)
        if sealed:
            self.put(source, target, sealed)
        self.flush(source)

    def flush(self, site: SiteId) -> None:
        machine = self.machines[site]
        out, machine.out = machine.out, []
        for target, datagram in out:
            self.put(site, target, datagram)
        due_ns = machine.deadline_ns()
        if due_ns is not None:
            self.at((due_ns - self.now_ns) / NS_PER_MS, lambda: self.tick(site))

    def tick(self, site: SiteId) -> None:
        before = self.machines[site].deadline_ns()
        if before is not None and before <= self.now_ns:
            self.machines[site].tick(self.now_ns)
            self.flush(site)

    def put(self, source: SiteId, target: SiteId, datagram: bytes) -> None:
        """Have a datagram arrive after a while, perhaps twice, perhaps not."""
        self.wire.append((source, target, datagram))
        if not self.filter(source, target, datagram) or self.random.random() < self.loss:
            return
        for _ in range(2 if self.random.random() < self.duplicate else 1):
            self.at(self.random.uniform(*self.delay_ms), lambda: self.receive(source, target, datagram))

    def receive(self, source: SiteId, target: SiteId, datagram: bytes) -> bool:
        """Hand a datagram to a site, as if from the address of another; return whether it was taken."""
        opened = self.machines[target].open(source, datagram, self.now_ns)
        self.flush(target)
        if opened is None:
            return False
        beginning, text = opened
        assert len(beginning) == PACKET_HEAD_BYTES
        self.heard[target].append((source, int.from_bytes(beginning[8:16], "big"), text))
        return True

    def run(self, ms: float) -> None:
        """Let time pass."""
        end_ns = self.now_ns + round(ms * NS_PER_MS)
        while self.events and self.events[0][0] <= end_ns:
            at_ns, _, action = heappop(self.events)
            self.now_ns = max(self.now_ns, at_ns)
            action()
        self.now_ns = end_ns

    def texts(self, site: SiteId) -> list[bytes]:
        return [text for _, _, text in self.heard[site]]
