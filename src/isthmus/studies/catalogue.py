"""All studies by name, in the order in which they are run, and of the story that they tell: what we add comes last."""

from __future__ import annotations

from isthmus.studies import (
    causal_separators,
    clocks,
    composition,
    dynamic_roles,
    internet_scale,
    isolation,
    nine_scenarios,
    optimistic,
    overlay,
    regret,
    token_site,
)
from isthmus.studies.model import Study

ALL = (
    *(token_site, isolation, nine_scenarios, dynamic_roles, optimistic, causal_separators, overlay, composition),
    *(clocks, regret, internet_scale),
)
STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in ALL}
