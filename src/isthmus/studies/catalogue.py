"""All studies by name, in the order in which they are run, and of the story that they tell: what we add comes last."""

from __future__ import annotations

from isthmus.studies.causal import study as causal
from isthmus.studies.clocks import study as clocks
from isthmus.studies.composition import study as composition
from isthmus.studies.dynamic_roles import study as dynamic_roles
from isthmus.studies.internet_scale import study as internet_scale
from isthmus.studies.isolation import study as isolation
from isthmus.studies.model import Study
from isthmus.studies.nine_scenarios import study as nine_scenarios
from isthmus.studies.optimistic import study as optimistic
from isthmus.studies.overlay import study as overlay
from isthmus.studies.regret import study as regret
from isthmus.studies.token_site import study as token_site

ALL = (
    *(token_site, isolation, nine_scenarios, dynamic_roles, optimistic, causal, overlay, composition),
    *(clocks, regret, internet_scale),
)
STUDIES: dict[str, Study] = {module.STUDY.name: module.STUDY for module in ALL}
