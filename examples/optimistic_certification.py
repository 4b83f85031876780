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

from isthmus.core.layer import Finality, Host, Stack
from isthmus.core.message import ONLY_GROUP, Cast
from isthmus.protocols.application import Application
from isthmus.protocols.total.optimistic.compensation import OptimisticOptions
from isthmus.scenario.model import Scenario, StackSpec
from isthmus.scenario.workload import Poisson
from isthmus.sim.run import Run
from isthmus.stacks.registry import STACKS, StackOptions
from isthmus.studies.optimistic.setup import cloud_topology

WORK_MS = 20.0
RATE_PER_S = 20.0  # transactions of all replicas together
DURATION_MS = 60_000.0
WARM_UP_MS = 10_000.0  # the delay rule learns the network
KEYS = 200
MS = 1_000_000


class Transaction(msgspec.Struct):
    """What a transaction saw and wants."""

    reads: dict[str, int]  # key: version
    writes: dict[str, int]  # key: value


class Replica:
    """One copy of the store; `clock` tells the time, `work` is done one piece after the other."""

    def __init__(self, clock: Callable[[], int], optimistic: bool) -> None:
        self.clock = clock
        self.optimistic = optimistic
        self.committed: dict[str, tuple[int, int]] = {}  # key: value and version
        self.guessed: dict[str, tuple[int, int]] = {}  # on top of it: what is certified and not final
        self.ahead: list[list[Any]] = []  # certified on the guess: the transaction, and when that is done
        self.free_ns = 0  # when the work in hand is done
        self.order: list[tuple[int, int, bool]] = []  # what was decided
        self.right = self.wrong = 0
        self.submitted_ns: dict[tuple[int, int], int] = {}
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

    def work(self) -> int:
        """Do one piece of work after what is in hand; when it will be done."""
        self.free_ns = max(self.free_ns, self.clock()) + round(WORK_MS * MS)
        return self.free_ns

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
        now_ns = self.clock()
        place = next((at for at, guess in enumerate(self.ahead) if guess[0] == cast), None)
        self.right += place == 0
        self.wrong += place != 0
        passed = self.ahead[:place]
        moved = [guess for guess in passed if self.share_a_key(guess[0], cast)]
        done_ns = self.work() if place is None or moved else self.ahead[place][1]
        del self.ahead[len(passed) : len(passed) + 1]
        result = self.certify(cast, self.committed)
        for guess in moved:
            guess[1] = self.work()
        self.guessed = {}
        for guess in self.ahead:
            self.certify(guess[0], self.guessed)
        self.order.append((cast.sender, cast.number, result))
        if now_ns >= WARM_UP_MS * MS:
            self.waits_ms.append(max(0, done_ns - now_ns) / MS)
            if (submitted_ns := self.submitted_ns.get((cast.sender, cast.number))) is not None:
                self.latencies_ms.append((max(now_ns, done_ns) - submitted_ns) / MS)

    @staticmethod
    def share_a_key(one: Cast, other: Cast) -> bool:
        first, second = (msgspec.msgpack.decode(cast.payload, type=Transaction) for cast in (one, other))
        return not {*first.reads, *first.writes}.isdisjoint((*second.reads, *second.writes))


def run_store(optimistic: bool, seed: int) -> list[Replica]:
    """Let all replicas but the sequencer's run transactions; the same ones whatever the delivery."""
    topology = cloud_topology("continents, sequencer apart")
    scenario = Scenario(
        name="certification",
        topology=topology,
        stack=StackSpec(name="optimistic", optimistic=OptimisticOptions(policy="stamped")),
        workloads=(Poisson(rate_per_s=1, count=0),),  # the clients below send instead
        seed=seed,
        duration_ms=DURATION_MS,
    )
    replicas: list[Replica] = []
    applications: list[Application] = []

    def build(host: Host, application: Application, options: StackOptions) -> Stack:
        replicas.append(Replica(lambda: run.scheduler.now_ns, optimistic))
        application.on_deliver, application.wants = replicas[-1].deliver, tuple(Finality)
        applications.append(application)
        return STACKS["optimistic"].build(host, application, options)

    run = Run(scenario, build=build)
    clients = len(topology.sites) - 1

    def client(site: int, random: Random) -> None:
        def act(_a: object, _b: object) -> None:
            run.sites[site].ports[ONLY_GROUP].run(submit)
            arrange()

        def submit() -> None:
            sent = applications[site].cast(replicas[site].begin(random))
            replicas[site].submitted_ns[sent.sender, sent.number] = run.scheduler.now_ns

        def arrange() -> None:
            when_ns = run.scheduler.now_ns + round(random.expovariate(RATE_PER_S / clients) * 1e9)
            if when_ns < DURATION_MS * MS:
                run.scheduler.at(when_ns, act)

        arrange()

    for site in range(1, len(topology.sites)):
        client(site, Random(f"{seed}/client/{site}"))
    run.execute()
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
