"""The verdict on one property, and what verdicts amount to: one status for a whole run, one exit code for a command.

Every command that gives a verdict ends with the code that `exit_code` maps its statuses to: 0 all valid, 1 a violation
or an error, 3 unknown. Where nothing was judged the status is unknown, never valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from isthmus.judge.witness import Witness, WitnessEvent

Status = Literal["valid", "violated", "unknown"]
STATUSES: tuple[Status, ...] = ("valid", "violated", "unknown")
EXIT_CODES = {"valid": 0, "violated": 1, "unknown": 3}


class Verdict(msgspec.Struct, frozen=True):
    """The verdict on one property in one group or domain of a run."""

    property: str
    status: Status
    evidence_count: int  # how often the property could have been violated
    violation_count: int
    witness: str  # the first violation as a sentence; for unknown, the reason; empty for valid
    group: int = 0  # NONE: a domain
    domain: str = ""  # its name
    shown: Witness | None = None  # the first violation, as fields
    events: tuple[WitnessEvent, ...] = ()  # and the rows that show it


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdicts on one property as one: violated if any is, unknown only if all are."""
    statuses = [verdict.status for verdict in verdicts]
    status = next(status for status in ("violated", "valid", "unknown") if status in statuses)
    return msgspec.structs.replace(
        verdicts[statuses.index(status)],
        evidence_count=sum(verdict.evidence_count for verdict in verdicts),
        violation_count=sum(verdict.violation_count for verdict in verdicts),
    )


def worst_status(statuses: Iterable[str]) -> Status:
    """The status of the whole: violated if any is, else unknown if any is; of nothing, unknown."""
    found = set(statuses)
    return "violated" if "violated" in found else "unknown" if "unknown" in found or not found else "valid"


def worst_code(codes: Iterable[int]) -> int:
    """The exit code of a command over several results, each with a code of its own."""
    return exit_code(status for code in codes for status, its in EXIT_CODES.items() if its == code)


def exit_code(statuses: Iterable[str], failed: bool = False) -> int:
    """The exit code of a command that gives verdicts; `failed`: an error ended a run."""
    return 1 if failed else EXIT_CODES[worst_status(statuses)]
