"""Advice while a group runs: the plan for what its members have measured, where it is worth a change."""

from __future__ import annotations

from math import isfinite

from isthmus.protocols.total.hybrid.planned import RoleSituation
from isthmus.stacks.roles.assignment import evaluate, plan
from isthmus.stacks.roles.multicasts import multicast_rate
from isthmus.stacks.roles.prediction import RoleAssignment, Setting
from isthmus.stacks.roles.rests import MessageStream

GAIN = 0.05  # of the mean latency that a change must gain: changing sites pause for a round trip
SAVING = 0.05  # or of the multicasts, where it is no slower,
SAVING_SLOWER = 0.2  # and where it is, within SLACK: all active may be the fastest by a hair, at twice as many
SLACK = 0.03  # of the least mean latency: assignments that close are equals, and the fewest multicasts decide


def advise(situation: RoleSituation) -> tuple[int, ...] | None:
    """The sequencers of the plan; None where the roles as they are cost hardly more.

    For the same estimates no plan leads away from a plan: it is within SLACK of the fastest, so none gains GAIN on it,
    and of those it takes the fewest multicasts. Estimates that vary a little change roles once, not to and fro.
    """
    streams = tuple(
        (MessageStream("periodic" if regular else "poisson", period_ms),) if isfinite(period_ms) else ()
        for period_ms, regular in zip(situation.periods_ms, situation.regular, strict=True)
    )
    setting = Setting(situation.delays_ms, streams, situation.eager, situation.null_ms)
    now, best = evaluate(setting, RoleAssignment(situation.sequencers)), plan(setting, SLACK)
    if best.mean_ms < (1 - GAIN) * now.mean_ms:
        return best.roles.sequencer
    if best.mean_ms > (1 + SLACK) * now.mean_ms:
        return None  # the search has missed what we have
    saving = SAVING if best.mean_ms <= now.mean_ms else SAVING_SLOWER
    saves = multicast_rate(setting, best.roles) < (1 - saving) * multicast_rate(setting, now.roles)
    return best.roles.sequencer if saves else None
