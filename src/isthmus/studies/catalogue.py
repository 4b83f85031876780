"""All studies by name, in the order in which they are run and reported; those that no paper asks for come last."""

from __future__ import annotations

from isthmus.studies.causal.claims import STUDY as CAUSAL
from isthmus.studies.churn.claims import STUDY as CHURN
from isthmus.studies.clocks.claims import STUDY as CLOCKS
from isthmus.studies.composition.claims import STUDY as COMPOSITION
from isthmus.studies.dynamic_roles.claims import STUDY as DYNAMIC_ROLES
from isthmus.studies.internet_scale.claims import STUDY as INTERNET_SCALE
from isthmus.studies.isolation.claims import STUDY as ISOLATION
from isthmus.studies.model import Study
from isthmus.studies.nine_scenarios.claims import STUDY as NINE_SCENARIOS
from isthmus.studies.optimistic.claims import STUDY as OPTIMISTIC
from isthmus.studies.overlay.claims import STUDY as OVERLAY
from isthmus.studies.regret.claims import STUDY as REGRET
from isthmus.studies.token_site.claims import STUDY as TOKEN_SITE

PAPERS = (TOKEN_SITE, ISOLATION, NINE_SCENARIOS, DYNAMIC_ROLES, OPTIMISTIC, CAUSAL, OVERLAY, COMPOSITION, CLOCKS)
STUDIES: dict[str, Study] = {study.name: study for study in (*PAPERS, REGRET, INTERNET_SCALE, CHURN)}
