"""Advice while a group runs: the plan for what its members have measured, where it is worth a change."""

from __future__ import annotations

from math import isfinite

from isthmus.planning.assignment import evaluate, plan
from isthmus.planning.prediction import Roles, Setting
from isthmus.planning.rests import MessageStream
from isthmus.protocols.total.planned import Situation

GAIN = 0.05  # of the mean latency, that a change must promise: it stops those who change for a round trip


def advise(situation: Situation) -> tuple[int, ...] | None:
    """The sequencers of the plan; None where the roles as they are cost hardly more.

    A plan in which some active sites are passive, and nothing else, saves their nulls, so it need not be faster by as
    much. The way back does need it: estimates that vary a little change roles once, not to and fro.
    """
    streams = tuple(
        (MessageStream("periodic" if regular else "poisson", period_ms),) if isfinite(period_ms) else ()
        for period_ms, regular in zip(situation.periods_ms, situation.regular, strict=True)
    )
    setting = Setting(situation.delays_ms, streams, situation.eager, situation.null_ms)
    now, best = evaluate(setting, Roles(situation.sequencers)), plan(setting)
    fewer = set(best.roles.active) < set(now.roles.active)
    return best.roles.sequencer if best.mean_ms < (1 if fewer else 1 - GAIN) * now.mean_ms else None
