"""The metadata cost of causal order, without a simulation: entries and bytes of timestamps, entries of histories.

What a history tells depends on who talks to whom how often. The idea is a balance of births and ends of entries.
Messages go to sets of sites; L(B) is the rate of those to B, F(B) the front of B: the entries that its own messages
carry.

    A = B      F(B): a sender p tells of the last message of s until s sends again, p tells of it, or p hears of it
               by way of a third sender: E min(Exp(a), D + Exp(b)) = (1 - exp(-aD)) / a + exp(-aD) / (a + b)
    next to B  L(B) / (m(A, B) + L(B) / F(B)), where m(A, B) is the rate of messages to all of A from members of B
    further    L(D) u(D, B) / m(A, D) over the sets D one step nearer, but never more than B has senders

With separators, what concerns some zones is told in these alone. Left out: relays on the way, further savings of
extended timestamps, views, losses, and sets drawn at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from isthmus.core.validation import BadValue
from isthmus.protocols.causal.histories.coding import mask_bytes, put_varints

SETS_MAX = 200  # of destinations; with more, sizes are not predicted
KNOWN_SET_BYTES = 3  # of a set that has a number, with what differs
Sites = frozenset[int]


class SenderFlow(msgspec.Struct, frozen=True):
    """The messages of one site to one set of sites."""

    sender: int
    to: Sites
    rate: float  # messages per ms


class CausalSetting(msgspec.Struct, frozen=True, dict=True):
    """The inputs of a prediction of causal metadata."""

    delays_ms: tuple[tuple[float, ...], ...]  # mean delay one way, row to column
    zones: tuple[int, ...]  # of each site: its LAN
    flows: tuple[SenderFlow, ...]
    count: int  # messages of a mean sender when sizes are looked at: counters grow with them

    def __post_init__(self) -> None:
        if not self.flows:
            raise BadValue("workloads", "no site that sends", "at least one site that sends")

    @cached_property
    def sets(self) -> tuple[Sites, ...]:
        return tuple(dict.fromkeys(flow.to for flow in self.flows))

    @cached_property
    def rate(self) -> dict[Sites, float]:
        """L, by set."""
        found = dict.fromkeys(self.sets, 0.0)
        for flow in self.flows:
            found[flow.to] += flow.rate
        return found

    def reach_ms(self, flow: SenderFlow) -> float:
        return max((self.delays_ms[flow.sender][site] for site in sorted(flow.to)), default=0.0)

    @cached_property
    def latency_ms(self) -> float:
        """The mean time from submit to last delivery, if nothing waits."""
        return sum(flow.rate * self.reach_ms(flow) for flow in self.flows) / sum(self.rate.values())

    @cached_property
    def front(self) -> dict[Sites, float]:
        """F, by set."""
        return {one: self.front_of(one) for one in self.sets}

    def front_of(self, one: Sites) -> float:
        own: dict[int, float] = {}
        for flow in self.flows:
            if flow.to == one:
                own[flow.sender] = own.get(flow.sender, 0.0) + flow.rate
        senders = sorted(own)
        rates = np.array([own[sender] for sender in senders])
        delays = np.array(self.delays_ms)[np.ix_(senders, senders)]
        weights = rates / rates.sum()
        longer = np.maximum(0.0, delays @ (weights[:, None] * delays) - delays)  # row s, column p
        a = rates[:, None] + rates[None, :]
        b = np.maximum(0.0, rates.sum() - a)
        lasts = -np.expm1(-a * longer) / a + np.exp(-a * longer) / (a + b)
        told = rates[:, None] * lasts
        np.fill_diagonal(told, 0.0)
        return float(told.sum(axis=0) @ weights)

    @cached_property
    def broadcasts(self) -> bool:
        everyone = len(self.zones)
        return all(len(flow.to | {flow.sender}) == everyone for flow in self.flows)

    def steps_to(self, goal: Sites) -> dict[Sites, int]:
        """How many overlaps lie between each set and one of them; sets that cannot be reached are left out."""
        found, left = {goal: 0}, [goal]
        for near in left:
            for other in self.sets:
                if other not in found and near & other:
                    found[other] = found[near] + 1
                    left.append(other)
        return found

    def told_rate(self, told: Sites, by: Sites) -> float:
        """Return m: the rate of messages from members of one set to all of another."""
        return sum(flow.rate for flow in self.flows if flow.sender in by and told <= flow.to)

    def share(self, of: Sites, inside: Sites) -> float:
        """The share of the messages to a set whose senders are in another."""
        return sum(flow.rate for flow in self.flows if flow.to == of and flow.sender in inside) / self.rate[of]

    def senders(self, of: Sites) -> int:
        return len({flow.sender for flow in self.flows if flow.to == of})


class Sizes(msgspec.Struct, frozen=True):
    """Means over messages; of the history, over sites."""

    entries: float
    stamp_bytes: float
    history: float


def fixed_sizes(setting: CausalSetting, matrix: bool) -> Sizes:
    """A vector, or a matrix."""
    members = len(setting.zones)
    entries = members**2 if matrix else members
    per_entry = len(put_varints([max(0, round(setting.count / (members if matrix else 1)))]))
    return Sizes(float(entries), float(entries * per_entry), 0.0)


def history_sizes(setting: CausalSetting, separators: bool) -> Sizes | None:
    """Predict the sizes of histories, with or without separators; None where there are too many sets."""
    if len(setting.sets) > SETS_MAX:
        return None
    told = {about: told_of(setting, about, separators) for about in setting.sets}
    every = sum(setting.rate.values())
    entries = size = 0.0
    for about, by_set in told.items():
        per_entry = entry_bytes(setting, about)
        for one, count in by_set.items():
            entries += setting.rate[one] / every * count
            size += setting.rate[one] / every * count * per_entry
    return Sizes(entries, size, history_entries(setting, separators))


def told_of(setting: CausalSetting, about: Sites, separators: bool) -> dict[Sites, float]:
    """u: how many entries of a set's messages those to each set carry."""
    found: dict[Sites, float] = {}
    rate, front = setting.rate, setting.front
    zones = {setting.zones[site] for site in about}
    steps = setting.steps_to(about)
    for one, away in steps.items():  # nearest first
        inside = {setting.zones[site] for site in one} <= zones
        if separators and not inside:
            found[one] = 0.0
        elif away == 0:
            found[one] = front[about]
        elif away == 1:
            ends = setting.told_rate(one, about) + rate[about] / max(1.0, front[about])  # the last is always there
            found[one] = setting.share(one, about) * rate[about] / ends
        else:
            nearer = [near for near in found if steps[near] == away - 1 and near & one]
            births = [(rate[near] * found[near], setting.told_rate(one, near), near) for near in nearer]
            many = sum(setting.share(one, near) * born / ends for born, ends, near in births if ends)
            found[one] = min(many, float(setting.senders(about)))
    return found


def entry_bytes(setting: CausalSetting, about: Sites) -> float:
    """Sender and counter, whom it went to, and a set of two that were told."""
    sites = len(setting.zones)
    number = len(put_varints([sites << 1])) + len(put_varints([setting.count]))
    address = min(KNOWN_SET_BYTES, len(mask_bytes(sum(1 << site for site in sorted(about)))))
    return number + address + min(KNOWN_SET_BYTES, len(mask_bytes(3)))


def history_entries(setting: CausalSetting, separators: bool) -> float:
    """The senders that a site hears of, a mean over sites."""
    counts: list[int] = []
    for site, zone in enumerate(setting.zones):
        own = [one for one in setting.sets if site in one]
        heard = {far for one in own for far in setting.steps_to(one)}
        if separators:
            heard = {one for one in heard if any(setting.zones[member] == zone for member in one)}
        counts.append(len({flow.sender for flow in setting.flows if flow.to in heard}))
    return sum(counts) / len(counts)


def cheapest_of(sizes: Sequence[tuple[str, Sizes]]) -> str:
    """The name with the fewest bytes in a timestamp."""
    return min(sizes, key=lambda pair: pair[1].stamp_bytes)[0]
