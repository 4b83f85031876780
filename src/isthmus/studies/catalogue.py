"""All studies by name, in the order in which they are listed and run."""

from __future__ import annotations

from isthmus.studies import optimistic, token_site
from isthmus.studies.model import Study

STUDIES: dict[str, Study] = {study.name: study for study in (token_site.STUDY, optimistic.STUDY)}
