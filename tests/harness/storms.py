"""Storms: schedules of the agreement on a bench in virtual time, each the function of one seed.

Problem: much that is wrong with an agreement does not break an order but brings the group to a stand, and shows only in
what happens after faults have ended: who waits for whom, for how long, and whether it ever ends. Whole scenarios show
that, but a thousand of them take an hour.

Idea: the bench's few sites, with a delay for each packet and nothing else of a network. A third of the storms strike
the coordinator or its deputy at one of the first 45 packets that they send of a view change: a crash in the middle of a
multicast, or a cut. Beside that: partitions, cuts one way or of one pair, everybody suspecting everybody, loss, delays
of up to 17 round trips, duplication, weights, leavers, multicasts to some, crashes of several sites, most of which come
back. Failure detectors tell the truth, late, but for suspicion that is wrong on purpose.

Once faults have ended (some cuts and some crashes stay for good, as far as a quorum is connected and up) the group must
come to rest: one view, nobody in it with a reason to change it, all in it that can be; and stay there. Rest is looked
for once the last packet of the storm has arrived: one of them may still give a group at rest a reason for another view.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import combinations, permutations
from random import Random

from tests.harness.membership_bench import QUICK, ROUND_NS, Bench, Kind
from tests.harness.membership_bench_checks import wrong

from isthmus.core.layer import View
from isthmus.core.message import SiteId
from isthmus.fuzz.states import StateChecks
from isthmus.protocols.membership.agreement import Agreement
from isthmus.protocols.membership.quorum import quorum
from isthmus.protocols.membership.wire import Here, Join, MembershipMessage, Nack, Nudge, Prepare

TROUBLE = 40  # round trips during which faults begin
TAIL_MAX = 17.0  # round trips that a packet may take
REST_MAX = 400 + 10_000  # round trips within which a group must come to rest: 60, but quiet ones speak every 2,000
REST_FOR = 40  # and stay there
STATE_MAX_BYTES = 500_000
STATE_TIME = 15.0  # round trips that a snapshot or a restore may take
STRIKE_MAX = 45  # packets
STEPS_MAX = 60_000  # of one storm; right ones take 20,000 at the most


class Storm:
    """One schedule under way."""

    def __init__(self, seed: int, kind: Kind = Agreement, with_states: bool = False) -> None:
        random = self.random = Random(f"storm/{seed}")
        self.random_state = Random(f"state-times/{seed}")
        count = random.choice([2, 3, 3, 4, 4, 5, 6])
        weights = {}
        if random.random() < 0.25:
            weights = {SiteId(site): random.choice([0, 1, 1, 2, 3]) for site in range(count)}
            weights[SiteId(random.randrange(count))] = 1
        files, safe = random.random() < 0.5, random.random() < 0.3
        self.faults: list[str] = []  # of the applications' states
        states = StateChecks(Random(f"state/{seed}"), STATE_MAX_BYTES, self.faults.append) if with_states else None
        self.bench = Bench(count, files, kind, weights, safe, QUICK, states, self.soon)
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.counter = 0
        self.cuts: dict[tuple[SiteId, SiteId], int] = {}  # how many cuts there are from one to another
        self.loss = random.choice([0.0, 0.0, 0.05, 0.3])
        self.tail = random.choice([0.5, 0.5, 3.0, TAIL_MAX])  # round trips that a packet may take
        self.victim: SiteId | None = None  # who is struck
        self.strike_left = 0  # packets of its own until then
        self.set_back = 0  # by how much clocks are behind when a site comes back
        self.ended = False
        self.steps_left = STEPS_MAX
        self.plan()
        self.plan_numbers(Random(f"storm-numbers/{seed}"))
        self.drain()

    # Time

    def after(self, rounds: float, action: Callable[[], None]) -> None:
        self.counter += 1
        heappush(self.heap, (self.bench.now_ns + round(rounds * ROUND_NS), self.counter, action))

    def soon(self, action: Callable[[], None]) -> None:
        """Have an application take a snapshot, or restore one, in its time."""
        self.after(self.random_state.choice([0.0, 1.0, self.random_state.uniform(0, STATE_TIME)]), action)

    def later(self, rounds: float, action: Callable[[], None]) -> None:
        """Have something go wrong, or end to; what has not by the end of faults stays as it is."""
        self.after(rounds, lambda: None if self.ended else action())

    def pass_time(self, rounds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass, until something holds; whether it came to hold."""
        bench, end_ns = self.bench, self.bench.now_ns + round(rounds * ROUND_NS)
        while self.steps_left:
            self.steps_left -= 1
            timer = min(
                [
                    (at_ns, place, port.stack.layers.index(layer), key)
                    for place, port in enumerate([bench.at[site] for site in bench.sites])
                    for (layer, key), at_ns in port.timers.items()
                ],
                default=None,
            )
            next_ns = min([entry[0] for entry in (timer, *self.heap[:1]) if entry is not None], default=end_ns + 1)
            if next_ns > end_ns:
                bench.now_ns = end_ns
                return until is None or until()
            bench.now_ns = next_ns
            if timer is not None and timer[0] == next_ns:
                port = bench.at[bench.sites[timer[1]]]
                layer, key = port.stack.layers[timer[2]], timer[3]
                del port.timers[layer, key]
                bench.event(port.site, lambda layer=layer, key=key: layer.timer(key))  # type: ignore[misc]
                if until is not None and layer is port.agreement and until():
                    return True
            else:
                heappop(self.heap)[2]()
            self.drain()
        return False

    # The network

    def drain(self) -> None:
        """Send what was sent on its way, with a delay; the site that is struck gets no further than so many packets."""
        bench, random = self.bench, self.random
        pool, bench.pool = bench.pool, []
        for source, target, view_id, message in pool:
            if source == self.victim and isinstance(message, MembershipMessage):
                if not self.strike_left:
                    self.strike(source)
                self.strike_left -= 1
            if not bench.at[source].alive or self.cuts.get((source, target)):
                continue
            if source != target and random.random() < self.loss:
                continue
            for _ in range(1 + (random.random() < 0.02)):
                rounds = random.uniform(0.2, 0.5) if random.random() < 0.9 else random.uniform(0.2, self.tail)
                self.after(
                    rounds if source != target else 0.0,
                    lambda s=source, t=target, v=view_id, m=message: self.arrive(s, t, v, m),  # type: ignore[misc]
                )

    def arrive(self, source: SiteId, target: SiteId, view_id: int, message: object) -> None:
        if not self.cuts.get((source, target)):
            site = self.bench.at[target]
            self.bench.event(target, lambda: site.take(source, view_id, message))  # type: ignore[arg-type]

    # What goes wrong

    def plan(self) -> None:
        random, sites = self.random, self.bench.sites
        for _ in range(random.choice([0, 3, 12, 40])):
            self.later(random.uniform(0, TROUBLE), self.submit)
        troubles = [self.cut_sides, self.cut_one_way, self.cut_pair, self.doubt, self.crash_some, self.crash_some]
        if len(sites) > 2:
            troubles.append(self.leave)
        for _ in range(random.choice([1, 1, 2, 3])):
            self.later(random.uniform(0, TROUBLE), random.choice(troubles))
        if random.random() < 0.35:
            self.later(random.uniform(0, TROUBLE / 2), self.aim)
        self.later(random.uniform(0, TROUBLE / 2), self.doubt if random.random() < 0.5 else self.crash_some)

    def plan_numbers(self, random: Random) -> None:
        """Have lives end while their processes live, clocks be set back and numbers be forged, in a third of storms."""
        if random.random() < 0.2:
            for _ in range(random.choice([1, 1, 2])):
                site = random.choice(self.bench.sites)
                self.later(random.uniform(0, TROUBLE), lambda site=site: self.end_life(site))  # type: ignore[misc]
        if random.random() < 0.1 and not self.bench.files:
            self.set_back = random.choice([1, 2, 5])
        if random.random() < 0.15:
            for _ in range(random.choice([1, 3])):
                self.later(random.uniform(0, TROUBLE), lambda: self.forge(random))

    def end_life(self, site: SiteId) -> None:
        """End a life as if that of another group of the site had ended."""
        agreement = self.bench.at[site].agreement
        if self.bench.at[site].alive and not agreement.leaving:
            self.bench.forgot = True  # a life that ends takes the state along
            self.bench.event(site, lambda: agreement.end_life(None, keep_seat=True))

    def forge(self, random: Random) -> None:
        """Have a packet with a number that nobody has come from a site."""
        source, target = random.sample(self.bench.sites, 2)
        agreement = self.bench.at[source].agreement
        life, seat, view_id = agreement.host.incarnation, max(agreement.seat, 0), agreement.view.view_id
        number = random.choice([1 << 20, (1 << 31) - 1, 1 << 40])
        found = random.choice(
            [
                Here(number, seat, view_id, True, False),
                Join(number, self.bench.now_ns, ()),
                Nudge(life, seat, view_id, (), number),
                Nack(life, seat, view_id, (number, source, life)),
                Prepare(life, seat, view_id, (number, source, life)),
            ]
        )
        site = self.bench.at[target]
        self.bench.event(target, lambda: site.take(source, 0, found))
        self.bench.refused.clear()  # it may well be refused: a seat that is not there

    def submit(self) -> None:
        """Have a site multicast a few messages at once, each to all or to some."""
        random, bench = self.random, self.bench
        site = random.choice(bench.sites)
        for _ in range(random.choice([1, 1, 2, 4])):
            some = random.sample(bench.sites, random.randint(1, len(bench.sites)))
            bench.submit(site, tuple(sorted(some)) if random.random() < 0.3 else ())

    def aim(self) -> None:
        """Choose the coordinator or its deputy to be struck at one of its next packets."""
        self.victim = self.bench.sites[self.random.choice([0, 0, 1])]
        self.strike_left = self.random.randrange(STRIKE_MAX)
        if self.random.random() < 0.5:
            self.crash(self.bench.sites[-1])

    def strike(self, victim: SiteId) -> None:
        self.victim = None
        others = [site for site in self.bench.sites if site != victim]
        if self.random.random() < 0.6:
            self.crash(victim)
        else:
            some = self.random.sample(others, self.random.randint(1, len(others)))
            ways = [(victim, site) for site in some] + [(site, victim) for site in some]
            self.cut(ways if self.random.random() < 0.7 else ways[: len(some)])

    def cut_sides(self) -> None:
        sites = self.bench.sites
        side = self.random.sample(sites, self.random.randint(1, len(sites) - 1))
        self.cut([(a, b) for a, b in permutations(sites, 2) if (a in side) != (b in side)])

    def cut_one_way(self) -> None:
        sites = self.bench.sites
        side = self.random.sample(sites, self.random.randint(1, len(sites) - 1))
        self.cut([(a, b) for a, b in permutations(sites, 2) if a in side and b not in side])

    def cut_pair(self) -> None:
        a, b = self.random.sample(self.bench.sites, 2)
        self.cut([(a, b), (b, a)][: self.random.choice([1, 2])])

    def cut(self, ways: list[tuple[SiteId, SiteId]]) -> None:
        """Let nothing pass on some ways, for a while or for good."""
        for way in ways:
            self.cuts[way] = self.cuts.get(way, 0) + 1
        self.review_soon()
        if self.random.random() < 0.8:
            self.later(self.random.uniform(1, TROUBLE), lambda: self.mend(ways))

    def mend(self, ways: list[tuple[SiteId, SiteId]]) -> None:
        for way in ways:
            self.cuts[way] = max(0, self.cuts[way] - 1)
        self.review_soon()

    def doubt(self) -> None:
        """Have some sites suspect others without reason, for a while."""
        sites, random = self.bench.sites, self.random
        pairs = list(permutations(sites, 2))
        chosen = pairs if random.random() < 0.3 else random.sample(pairs, random.randint(1, len(pairs)))
        for one, other in chosen:
            self.bench.suspect(one, other, suspected=True)
        self.later(random.uniform(1, 12), self.review_soon)

    def crash_some(self) -> None:
        for site in self.random.sample(self.bench.sites, self.random.choice([1, 1, 2, 3]) % len(self.bench.sites) or 1):
            self.later(self.random.choice([0.0, self.random.uniform(0, 6)]), lambda site=site: self.crash(site))  # type: ignore[misc]

    def crash(self, site: SiteId) -> None:
        if not self.bench.at[site].alive:
            return
        self.bench.crash(site)
        self.review_soon()
        if self.random.random() < 0.75:
            self.later(self.random.uniform(0, TROUBLE / 2), lambda: self.recover(site))

    def recover(self, site: SiteId) -> None:
        if site not in self.bench.gone:
            self.bench.recover(site, self.set_back)
            self.review_soon()

    def leave(self) -> None:
        site = self.random.choice(self.bench.sites)
        if self.bench.at[site].alive:
            self.bench.leave(site)

    # Failure detectors

    def review_soon(self) -> None:
        """Have every site find out about every other, sooner or later."""
        for one, other in permutations(self.bench.sites, 2):
            self.after(self.random.uniform(0.5, 8), lambda one=one, other=other: self.review(one, other))  # type: ignore[misc]

    def review(self, one: SiteId, other: SiteId) -> None:
        suspected = not self.bench.at[other].alive or bool(self.cuts.get((other, one)))
        if suspected != ((one, other) in self.bench.suspicions):
            self.bench.suspect(one, other, suspected)

    # The end

    def end(self) -> None:
        """End all faults but for cuts and crashes that leave a connected quorum of what counts."""
        bench = self.bench
        self.ended, self.loss, self.tail, self.victim = True, 0.0, 0.5, None
        if not self.has_core():
            self.cuts.clear()
            for site in bench.sites:
                self.recover(site)
        self.review_soon()

    def has_core(self) -> bool:
        """Whether the group can go on.

        It can if some who are up and reach each other are a quorum of the last view and of any that may follow it, and
        one of them knows that view. Seats of earlier lives count where there are files.
        """
        layers = {site: port.agreement for site, port in self.bench.at.items() if port.alive}
        last = max([layer.view for layer in layers.values()], key=lambda view: view.view_id, default=View(0, ()))
        knowing = [site for site, layer in layers.items() if layer.view == last]
        accepted = [layers[site].ledger.accepted for site in knowing]
        views = [last, *(one[1].view for one in accepted if one is not None)]
        for size in range(len(layers), 0, -1):
            for some in combinations(layers, size):
                voices = [life for site in some for life in (layers[site].me, layers[site].sitting)]
                knows = any(site in knowing for site in some)
                if knows and self.is_connected(some) and all(quorum(view, voices) for view in views):
                    return True
        return False

    def is_connected(self, some: tuple[SiteId, ...]) -> bool:
        return not any(self.cuts.get(way) for way in permutations(some, 2))

    def last_id(self) -> int:
        return max([port.agreement.view.view_id for port in self.bench.at.values()])

    def is_at_rest(self) -> bool:
        """Whether there is one last view, nobody in it has a reason to change it, and all who could be in it are."""
        bench = self.bench
        up = [site for site in bench.sites if bench.at[site].alive]
        layers = {site: bench.at[site].agreement for site in up}
        last = max([layer.view for layer in layers.values()], key=lambda view: view.view_id, default=View(0, ()))
        inside = [site for site, layer in layers.items() if layer.view == last and layer.me in last.lives()]
        if len(inside) < len(last.members) or any(layers[site].leaving for site in inside):
            return False
        if not all(layers[site].is_idle() for site in inside):
            return False
        if not self.is_connected(tuple(inside)):
            return False
        return not any(self.is_connected((*inside, site)) for site in up if site not in inside)

    def compare_states(self) -> list[str]:
        """What is wrong with the states of the members that came to rest."""
        inside = [port for port in self.bench.at.values() if port.alive and port.agreement.stateful]
        for port in inside:
            if port.top.state_keeper is not None:
                port.top.state_keeper.finish()
        return self.faults


def storm(seed: int, kind: Kind = Agreement, with_states: bool = False) -> list[str]:
    """What goes wrong in the storm that a seed stands for."""
    made = Storm(seed, kind, with_states)
    made.pass_time(TROUBLE)
    made.end()
    made.pass_time(TAIL_MAX)
    rests = made.pass_time(REST_MAX, made.is_at_rest)
    found = [*wrong(made.bench), *made.faults]
    if found or not made.has_core():
        return found
    if not rests:
        return ["the group does not come to rest"]
    last_id = made.last_id()
    made.pass_time(REST_FOR)
    if made.last_id() != last_id:
        return [*wrong(made.bench), "the group does not stay at rest"]
    return [*wrong(made.bench), *made.compare_states()]
