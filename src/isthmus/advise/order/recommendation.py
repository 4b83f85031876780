"""What to recommend for a setting: the planned roles beside the three alternatives that people know.

The token site is evaluated with tickets sent at once whatever the setting says, because that is what its stack does.
The planned choice is never worse than any alternative: the search starts from all of them, and the token site's prompt
tickets are compared at the end.
"""

from __future__ import annotations

import msgspec

from isthmus.stacks.roles.assignment import (
    RoleChoice,
    best_token_site,
    cheapest,
    evaluate,
    paper_rule,
    plan,
    symmetric_roles,
)
from isthmus.stacks.roles.prediction import Setting


class Recommendation(msgspec.Struct, frozen=True):
    """The planned choice, and what it is compared with."""

    planned: RoleChoice
    token_site: RoleChoice
    symmetric: RoleChoice
    paper: RoleChoice  # by the rule of paper 001


def recommend(setting: Setting) -> Recommendation:
    token = best_token_site(msgspec.structs.replace(setting, eager=True))
    return Recommendation(
        planned=cheapest((token, plan(setting))),
        token_site=token,
        symmetric=evaluate(setting, symmetric_roles(setting.count)),
        paper=evaluate(setting, paper_rule(setting.delays_ms, setting.periods_ms)),
    )
