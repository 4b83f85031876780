"""How many multicasts an assignment of roles takes: messages, tickets for others, and nulls.

Two assignments may be equally fast and far apart in what they send. A busy passive site next to its sequencer costs a
packet of tickets for each of its messages where they leave at once; a quiet active one costs a null every `null_ms`
while others send. So a plan among equals goes by this rate.

    messages:  the rate of every site
    tickets:   the rate of every passive site, where its sequencer tickets at once; otherwise they ride on other packets
    nulls:     per active site, as often as a gap between its own packets outlasts its cycle (rests.py): with
               exponential gaps of rate s and cycle c, s / (exp(s c) - 1)

Left out: probes, requests and plans, which are few, and messages that are held back and then leave as one.
"""

from __future__ import annotations

from math import expm1, floor, isfinite

from isthmus.stacks.roles.prediction import RoleAssignment, Setting, rests_of
from isthmus.stacks.roles.rests import Rest

LONGEST = 700.0  # beyond, the exponential is as good as infinite


def multicast_rate(setting: Setting, roles: RoleAssignment) -> float:
    """Multicasts a millisecond under an assignment of roles."""
    rate = sum(setting.rates)
    if setting.eager:
        rate += sum(own for site, own in enumerate(setting.rates) if roles.sequencer[site] != site)
    return rate + sum(null_rate(rest) for rest in rests_of(setting, roles))


def null_rate(rest: Rest) -> float:
    """Nulls a millisecond of one active site."""
    if not isfinite(rest.null_ms) or not isfinite(rest.cycle_ms):
        return 0.0  # it sends none, or never hears of anything
    cycle_ms = rest.cycle_ms
    if rest.periods_ms and not rest.rate and len(rest.periods_ms) == 1:
        return floor(rest.periods_ms[0] / cycle_ms) / rest.periods_ms[0]
    rate = rest.rate + sum(1 / period_ms for period_ms in rest.periods_ms)
    if not rate:
        return 1 / cycle_ms
    return rate / expm1(rate * cycle_ms) if rate * cycle_ms < LONGEST else 0.0
