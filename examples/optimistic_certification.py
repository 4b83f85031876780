"""A replicated key-value store that certifies transactions on a tentative order and commits them on the final one.

Nine replicas on three continents, the sequencer on a fourth, simulated. A client runs a transaction at its replica
without locks, and multicasts what it read (keys with their versions) and what it wants to write. Every replica
certifies it: it commits if nothing that it read has changed since; all decide alike, because they decide in one order.

Certifying takes WORK_MS of a replica's time. With tentative deliveries it starts before the order is final. If the
guess was right the result is there, or nearly, when the final order comes. If it was wrong, transactions that share a
key with one that has moved are certified again. The store prints how much of the work the window hid, beside the same
traffic certified on final deliveries only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from statistics import fmean
from typing import Any

import msgspec

from isthmus import (
    Cast,
    Channel,
    Cluster,
    Finality,
    Gamma,
    OptimisticOptions,
    Poisson,
    Scenario,
    SimulatedProgram,
    StackSpec,
    Topology,
    TopologySite,
    WanLink,
)

WORK_MS = 20.0
RATE_PER_S = 20.0  # transactions of all replicas together
DURATION_MS = 60_000.0
WARM_UP_MS = 10_000.0  # the delay rule learns the network
KEYS = 200
SITES = {"asia": 1, "east": 3, "west": 3, "europe": 3}  # the one in Asia is the sequencer
DELAYS_MS = {
    ("east", "west"): 32.0,
    ("east", "europe"): 41.0,
    ("east", "asia"): 84.0,
    ("west", "europe"): 69.0,
    ("west", "asia"): 54.0,
    ("europe", "asia"): 112.0,
}


class Transaction(msgspec.Struct):
    """What a transaction saw and wants."""

    reads: dict[str, int]  # key: version
    writes: dict[str, int]  # key: value


class Replica:
    """One copy of the store, by the time of `clock`; pieces of work are done one after the other."""

    def __init__(self, clock: Callable[[], float], optimistic: bool) -> None:
        self.clock = clock
        self.optimistic = optimistic
        self.committed: dict[str, tuple[int, int]] = {}  # key: value and version
        self.guessed: dict[str, tuple[int, int]] = {}  # on top of it: what is certified and not final
        self.ahead: list[list[Any]] = []  # certified on the guess: the transaction, and when that is done
        self.free_ms = 0.0  # when the work in hand is done
        self.order: list[tuple[int, int, bool]] = []  # what was decided
        self.right = self.wrong = 0
        self.submitted_ms: dict[tuple[int, int], float] = {}
        self.waits_ms: list[float] = []  # from the final order to the commit
        self.latencies_ms: list[float] = []  # of own transactions, from submit to commit

    def begin(self, random: Random) -> bytes:
        """Run a transaction on the local copy; what it did, as a message."""
        keys = random.sample(range(KEYS), 3)
        reads = {f"k{key}": self.committed.get(f"k{key}", (0, 0))[1] for key in keys}
        return msgspec.msgpack.encode(Transaction(reads, {f"k{keys[0]}": random.randrange(1000)}))

    def deliver(self, cast: Cast, finality: Finality) -> None:
        if finality is Finality.FINAL:
            self.commit(cast)
        elif finality is Finality.TENTATIVE and self.optimistic:
            self.certify(cast, self.guessed)
            self.ahead.append([cast, self.work()])

    def work(self) -> float:
        """Do one piece of work after what is in hand; return when it will be done."""
        self.free_ms = max(self.free_ms, self.clock()) + WORK_MS
        return self.free_ms

    def certify(self, cast: Cast, copy: dict[str, tuple[int, int]]) -> bool:
        """Decide a transaction on a copy of the store, and write there what it writes if it commits."""
        transaction = msgspec.msgpack.decode(cast.payload, type=Transaction)
        keys = (*transaction.reads, *transaction.writes)
        known = {key: copy.get(key, self.committed.get(key, (0, 0))) for key in keys}
        if any(known[key][1] != version for key, version in transaction.reads.items()):
            return False
        copy.update({key: (value, known[key][1] + 1) for key, value in transaction.writes.items()})
        return True

    def commit(self, cast: Cast) -> None:
        """Decide a transaction for good. Those guessed before it come after it now: if they touch its keys, anew."""
        now_ms = self.clock()
        place = next((at for at, guess in enumerate(self.ahead) if guess[0] == cast), None)
        self.right += place == 0
        self.wrong += place != 0
        passed = self.ahead[:place]
        moved = [guess for guess in passed if self.share_a_key(guess[0], cast)]
        done_ms = self.work() if place is None or moved else self.ahead[place][1]
        del self.ahead[len(passed) : len(passed) + 1]
        result = self.certify(cast, self.committed)
        for guess in moved:
            guess[1] = self.work()
        self.guessed = {}
        for guess in self.ahead:
            self.certify(guess[0], self.guessed)
        self.order.append((cast.sender, cast.number, result))
        if now_ms >= WARM_UP_MS:
            self.waits_ms.append(max(0.0, done_ms - now_ms))
            if (submitted_ms := self.submitted_ms.get((cast.sender, cast.number))) is not None:
                self.latencies_ms.append(max(now_ms, done_ms) - submitted_ms)

    @staticmethod
    def share_a_key(one: Cast, other: Cast) -> bool:
        first, second = (msgspec.msgpack.decode(cast.payload, type=Transaction) for cast in (one, other))
        return not {*first.reads, *first.writes}.isdisjoint((*second.reads, *second.writes))


def continents() -> Topology:
    """A network of clusters with the distances of a cloud provider."""
    sites: list[TopologySite] = []
    clusters: list[Cluster] = []
    lan = Channel(Gamma(0.3, 0.03**2, 0.15), fifo=False)
    for number, (name, count) in enumerate(SITES.items()):
        ids = tuple(range(len(sites), len(sites) + count))
        sites += [TopologySite(f"{name}-{place}", number) for place in range(count)]
        clusters.append(Cluster(name, ids, ids[0], lan))
    places = {name: number for number, name in enumerate(SITES)}
    links = []
    for (a, b), mean_ms in DELAYS_MS.items():
        wan = Channel(Gamma(mean_ms, (0.03 * mean_ms) ** 2, 0.9 * mean_ms), loss=0.0005, fifo=False)
        links.append(WanLink(places[a], places[b], wan, wan))
    return Topology("continents", tuple(sites), tuple(clusters), tuple(links))


def run_store(optimistic: bool, seed: int) -> list[Replica]:
    """Let all replicas but the sequencer's run transactions; the same ones whatever the delivery."""
    topology = continents()
    scenario = Scenario(
        name="certification",
        topology=topology,
        stack=StackSpec(name="optimistic", optimistic=OptimisticOptions(policy="stamped")),
        workloads=(Poisson(rate_per_s=1, count=0),),  # the clients below send instead
        seed=seed,
        duration_ms=DURATION_MS,
    )
    simulation = SimulatedProgram(scenario, lambda site, cast, finality: replicas[site].deliver(cast, finality))
    replicas = [Replica(lambda: simulation.now_ms, optimistic) for _ in topology.sites]
    clients = len(topology.sites) - 1

    def client(site: int, random: Random) -> None:
        def act() -> None:
            sent = simulation.send(site, replicas[site].begin(random))
            replicas[site].submitted_ms[sent.sender, sent.number] = simulation.now_ms
            arrange()

        def arrange() -> None:
            when_ms = simulation.now_ms + 1e3 * random.expovariate(RATE_PER_S / clients)
            if when_ms < DURATION_MS:
                simulation.at(when_ms, act)

        arrange()

    for site in range(1, len(topology.sites)):
        client(site, Random(f"{seed}/client/{site}"))
    simulation.run()
    return replicas


def main() -> int:
    print(f"{RATE_PER_S:g} transactions a second, {WORK_MS:g} ms to certify each, on three continents.")
    hidden_ms = 0.0
    for optimistic in (False, True):
        replicas = run_store(optimistic, seed=1)
        if any((one.order, one.committed) != (replicas[0].order, replicas[0].committed) for one in replicas):
            print("the replicas differ")
            return 1
        clients, decided = replicas[1:], [result for _, _, result in replicas[0].order]
        wait_ms = fmean(wait for replica in clients for wait in replica.waits_ms)
        latency_ms = fmean(latency for replica in clients for latency in replica.latencies_ms)
        how = "tentative" if optimistic else "final"
        print(f"On {how} deliveries: {len(decided)} transactions, of which {100 * fmean(decided):.1f} % commit,")
        print(f"  decided {latency_ms:.1f} ms after submit, {wait_ms:.1f} ms of it after the final delivery.")
        if not optimistic:
            hidden_ms = wait_ms
            continue
        right, wrong = sum(replica.right for replica in clients), sum(replica.wrong for replica in clients)
        print(f"{100 * right / (right + wrong):.1f} % of the guesses were right.")
        print(f"The window hid {hidden_ms - wait_ms:.1f} of {hidden_ms:.1f} ms of work. All replicas are equal.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
