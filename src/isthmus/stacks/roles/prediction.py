"""The expected latency of total order by tickets, for each site's messages, without a simulation.

The problem: which sites should be active depends on every delay and every rate at once; a simulation of each choice
takes too long. The idea: with clocks that agree, a message with a ticket issued at time 0 waits, at a recipient r, for
its data and for the first packet that each other active j sends after time 0, which comes R_j + D(j,r) later. R_j is
the rest (rests.py) of j's packets. The last recipient is the one farthest from j:

    X_j = max over r of D(j,r)
    active p:             E max(X_p, max over active j != p of R_j + X_j)  =  E M_p
    passive p through a:  E max(X_p, D(p,a) + M), with M = M_a where a sends the ticket at once,
                          and M = max over all active j, a too, of R_j + X_j where it waits for a's next packet.

A sequencer that tickets at once sends a packet for each message of its passive sites, so that their streams are added
to its own.

Nulls: an active j sends one once it has been silent for null_ms, or twice that where it is busy, and has heard a ticket
since. Its cycle is the mean of that time and the time until it hears one, whichever is longer. From D(a,j) on it has
heard the ticket of a in question.

Before its message, r must deliver those with earlier tickets. These tickets have come by then, but where a detour is
faster than the direct way, data may not: that of a passive q comes L_q = X_q - D(q,b) after q's sequencer b issued its
ticket. The last one was issued A_q before time 0; A_q is distributed as a rest, and L_q - A_q joins the maximum.

An expectation of a maximum is its lower bound plus the integral of 1 - (product of the distribution functions) from
there on. Nothing is drawn at random.

Left out: the spread of delays (their means count), losses, clocks that disagree, and whatever makes sources depend on
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf, isfinite

import msgspec
import numpy as np

from isthmus.core.validation import BadValue
from isthmus.protocols.total.hybrid.roles import BUSY, PATIENCE
from isthmus.stacks.roles.rests import MessageStream, Rest, Vector, first_of, panels, products

CUTS_MAX = 100  # moments of hearing that become edges of the integral; with more, pieces are short anyway


class Setting(msgspec.Struct, frozen=True, dict=True):
    """The inputs of a prediction, except for the roles."""

    delays_ms: tuple[tuple[float, ...], ...]  # mean delay one way, row to column; own 0
    streams: tuple[tuple[MessageStream, ...], ...]  # of each site; () for a silent one
    eager: bool = True  # a ticket for a passive message is sent at once; otherwise with its sequencer's next packet
    null_ms: float = 0.0  # longest silence of an active site while others wait for it; 0: unbounded

    def __post_init__(self) -> None:
        count = len(self.delays_ms)
        if not count or len(self.streams) != count or any(len(row) != count for row in self.delays_ms):
            found = f"{count} rows for {len(self.streams)} sites"
            raise BadValue("delays_ms", found, "a row and a column for each site")
        if any(not (isfinite(delay) and delay >= 0) for row in self.delays_ms for delay in row):
            raise BadValue("delays_ms", "a delay that is negative or not finite", "finite delays of at least 0")
        if any(self.delays_ms[site][site] for site in range(count)):
            raise BadValue("delays_ms", "a delay from a site to itself", "0 there")
        if not (isfinite(self.null_ms) and self.null_ms >= 0):
            raise BadValue("null_ms", repr(self.null_ms), "a finite number above 0, or 0 for never")

    @property
    def count(self) -> int:
        return len(self.delays_ms)

    @cached_property
    def reach_ms(self) -> tuple[float, ...]:
        """The delay from each site to the one farthest from it: X."""
        return tuple(max(row) for row in self.delays_ms)

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """Messages a millisecond of each site."""
        return tuple(sum(1 / stream.period_ms for stream in own) for own in self.streams)

    @cached_property
    def periods_ms(self) -> tuple[float, ...]:
        """The mean time between messages of each site; inf for a silent one."""
        return tuple(1 / rate if rate else inf for rate in self.rates)


class RoleAssignment(msgspec.Struct, frozen=True):
    """The sequencer of each site: a site that is its own sequencer is active, every other passive."""

    sequencer: tuple[int, ...]  # of each site; always an active one

    def __post_init__(self) -> None:
        for site, sequencer in enumerate(self.sequencer):
            if not 0 <= sequencer < len(self.sequencer) or self.sequencer[sequencer] != sequencer:
                raise BadValue(f"sequencer[{site}]", repr(sequencer), "an active site")

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(site for site, sequencer in enumerate(self.sequencer) if site == sequencer)

    def followers(self, sequencer: int) -> tuple[int, ...]:
        """The passive sites of a sequencer."""
        return tuple(site for site, other in enumerate(self.sequencer) if other == sequencer != site)


class Prediction(msgspec.Struct, frozen=True):
    """The expected latency of a message: to its last delivery, from its submission."""

    site_ms: tuple[float, ...]  # of each site, a silent one too; inf: it would never be delivered
    mean_ms: float  # over all messages


def predict(setting: Setting, roles: RoleAssignment) -> Prediction:
    """The expected latencies under an assignment of roles."""
    assert len(roles.sequencer) == setting.count
    active, delays, reach = roles.active, setting.delays_ms, setting.reach_ms
    place = {site: index for index, site in enumerate(active)}
    rests = rests_of(setting, roles)
    low = max(reach[site] for site in active)  # no M is below
    lags = {p: reach[p] - delays[p][a] for p, a in enumerate(roles.sequencer) if p != a}
    late = [p for p in lags if lags[p] > low and setting.streams[p]]
    ages = [Rest(setting.streams[p]) for p in late]
    edges = list(lags.values())
    edges += [lags[p] - step for p, age in zip(late, ages, strict=True) for step in (*age.kinks_ms(), *age.steps_ms())]
    x, weights = points_of(setting, active, rests, low, edges)
    others, everyone = arrived(setting, active, rests, x)
    blocks = np.array([age.of_streams(np.maximum(0.0, lags[p] - x)) for p, age in zip(late, ages, strict=True)])
    spared, blocked = products(blocks) if late else (blocks, np.ones_like(x))
    site_ms = []
    for p, a in enumerate(roles.sequencer):
        alone = p == a or setting.eager  # a's own next packet need not be awaited
        if forever(setting, rests, place[a] if alone else None):
            site_ms.append(inf)
            continue
        waited = (others if alone else everyone)[place[a]]
        missing = 1.0 - waited * (spared[late.index(p)] if p in late else blocked)
        start = max(low, lags.get(p, low))
        rest_ms = start + float(weights[x > start] @ missing[x > start])
        site_ms.append(rest_ms + delays[p][a])
    return Prediction(tuple(site_ms), weighted(setting.rates, site_ms))


def rests_of(setting: Setting, roles: RoleAssignment) -> list[Rest]:
    """The rest of each active site's packets."""
    active = roles.active
    served = [(site, *roles.followers(site)) for site in active]
    issued = [[stream for source in sources for stream in setting.streams[source]] for sources in served]
    sent = issued if setting.eager else [list(setting.streams[site]) for site in active]
    if not setting.null_ms:
        return [Rest(streams) for streams in sent]
    rests = []
    for index, streams in enumerate(sent):
        heard = [stream for others in (*issued[:index], *issued[index + 1 :]) for stream in others]
        if not setting.eager:  # tickets that wait to be sent are a reason, too
            heard += [stream for source in served[index][1:] for stream in setting.streams[source]]
        busy = setting.periods_ms[active[index]] <= BUSY * setting.null_ms
        null_ms = setting.null_ms * (PATIENCE if busy else 1)
        rests.append(Rest(streams, null_ms, first_of(heard, null_ms)))
    return rests


def points_of(
    setting: Setting, active: Sequence[int], rests: Sequence[Rest], low: float, edges: list[float]
) -> tuple[Vector, Vector]:
    """Points and weights for the integral from `low` to where all that is waited for has come."""
    reach, delays = setting.reach_ms, setting.delays_ms
    high = max([low, *edges])
    for j, rest in zip(active, rests, strict=True):
        edges += [reach[j] + kink for kink in rest.kinks_ms()]
        heard = max(delays[a][j] for a in active)
        end_ms = min(rest.longest_ms, max(rest.null_ms, min(rest.cycle_ms, heard)))
        high = max(high, reach[j] + end_ms) if isfinite(end_ms) else high  # a silent site is handled by `forever`
    if irregular := [j for j, rest in zip(active, rests, strict=True) if setting.null_ms and not rest.is_regular]:
        cuts = sorted({reach[j] + delays[a][j] for a in active for j in irregular})
        edges += cuts[:: 1 + len(cuts) // CUTS_MAX]
    rate = max(rest.rate for rest in rests)
    step = 0.5 / rate if rate else inf
    while low + step < high:
        edges.append(low + step)
        step *= 2
    return panels(low, high, edges)


def arrived(
    setting: Setting, active: Sequence[int], rests: Sequence[Rest], x: Vector
) -> tuple[Sequence[Vector], Sequence[Vector]]:
    """For a ticket of each active site, the probability that the packets of all others, or of all, have come by x."""
    after = [x - setting.reach_ms[j] for j in active]
    ahead = np.array([rest.survival(y) for y, rest in zip(after, rests, strict=True)])
    if not setting.null_ms or all(rest.is_regular for rest in rests):
        rows, everyone = products(1.0 - ahead)
        return list(rows), [everyone] * len(active)
    ahead_heard = np.array([rest.survival_heard(y) for y, rest in zip(after, rests, strict=True)])
    others: list[Vector] = []
    everyone_of: list[Vector] = []
    for index, a in enumerate(active):
        hears = np.array([setting.reach_ms[j] + setting.delays_ms[a][j] for j in active])
        below = 1.0 - np.where(x < hears[:, None], ahead, ahead_heard)
        everyone_of.append(below.prod(axis=0))
        below[index] = 1.0
        others.append(below.prod(axis=0))
    return others, everyone_of


def forever(setting: Setting, rests: Sequence[Rest], spared: int | None) -> bool:
    """Whether a packet is awaited that never comes: of a silent active site, where there are no nulls."""
    silent = [index for index, rest in enumerate(rests) if not setting.null_ms and not isfinite(rest.longest_ms)]
    return any(index != spared for index in silent)


def weighted(rates: Sequence[float], values: Sequence[float]) -> float:
    """The mean over messages; if there are none, over sites."""
    pairs = [(rate, value) for rate, value in zip(rates, values, strict=True) if rate] or [(1.0, v) for v in values]
    return sum(rate * value for rate, value in pairs) / sum(rate for rate, _ in pairs)
