"""Numbers, counts and answers in words: what a report says in sentences."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite

from isthmus.report.results import Check, ClaimResult, FinishedStudy, Value

NO_BREAK = "\N{NO-BREAK SPACE}"  # between a number and its unit
NOTHING = "\N{EN DASH}"  # in a cell where nothing stands


def number(value: float) -> str:
    """A number with the digits that a reader needs: four, or all digits of an integer."""
    if isinstance(value, int) or (isfinite(value) and value == int(value) and abs(value) < 1e15):
        return minus(f"{int(value):,}")
    if not isfinite(value):
        return NOTHING
    size = abs(value)
    if 1e-3 <= size < 1e15:
        return minus(f"{value:,.0f}" if size >= 1e4 else f"{value:,.1f}" if size >= 1e3 else f"{value:.4g}")
    return minus(f"{value:.3g}")


def measured(mean: float, error: float) -> str:
    """A mean with its half-width, the latter to two digits."""
    return f"{number(mean)} \N{PLUS-MINUS SIGN} {number(float(f'{error:.2g}'))}" if error else number(mean)


def minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def value(given: Value, unit: str | None = None) -> str:
    """A claim's value with its unit; a list of two is a range."""
    if given is None or given == [] or given == "":
        return NOTHING
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, list):
        said = f"{number(given[0])} to {number(given[1])}" if len(given) == 2 else ", ".join(map(number, given))
    else:
        said = given if isinstance(given, str) else number(given)
    return f"{said}{NO_BREAK}{unit}" if unit and said != NOTHING else said


def expected(claim: ClaimResult) -> str:
    """The value that a claim expects, after its relation."""
    said = value(claim.expected, claim.unit)
    return said if claim.relation == "near" or said == NOTHING else f"{claim.relation} {said}"


def tolerance(claim: ClaimResult) -> str:
    """The tolerance of a claim: text as given, a number as a share of the expected value."""
    given = claim.tolerance
    if given is None or given in ("", "none", 0):
        return ""
    return f"within {given if isinstance(given, str) else number(100 * given) + ' %'}".replace(" %", f"{NO_BREAK}%")


def count(many: int, one: str, more: str = "") -> str:
    """1 run, 2 runs."""
    return f"{many:,} {one if many == 1 else more or one + 's'}"


def join_and(parts: Iterable[str]) -> str:
    """a, b and c"""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def seeds(given: list[int] | int) -> str:
    """Seeds with consecutive ones shortened: 1 to 5, 9; a bare number counts from 1."""
    order = list(range(1, given + 1)) if isinstance(given, int) else sorted(set(given))
    if not order:
        return "none"
    starts = [order[0], *(b for a, b in pairwise(order) if b != a + 1)]
    ends = [*(a for a, b in pairwise(order) if b != a + 1), order[-1]]
    spans = zip(starts, ends, strict=True)
    return ", ".join(f"{a} to {b}" if b > a + 1 else f"{a}, {b}" if b > a else str(a) for a, b in spans)


def duration(took_s: float) -> str:
    """Seconds up to two minutes, then minutes, then hours."""
    if took_s < 120:
        return f"{took_s:.0f} s" if took_s >= 10 else f"{took_s:.1f} s"
    return f"{took_s / 60:.0f} min" if took_s < 7200 else f"{took_s / 3600:.1f} h"


def count_verdicts(claims: list[ClaimResult]) -> dict[str, int]:
    """The number of claims that hold, do not hold, or are unknown."""
    return {said: sum(claim.verdict == said for claim in claims) for said in ("holds", "does not hold", "unknown")}


def overall(studies: list[FinishedStudy]) -> str:
    """The results of several studies in one sentence."""
    claims = [claim for study in studies for claim in study.claims]
    runs, failed = (sum(getattr(study.about, name) for study in studies) for name in ("runs", "failed_runs"))
    ends = f"{number(failed)} of them failed" if failed else "none failed"
    return f"Over all studies, {claims_said(claims)}; {count(runs, 'run')}, {ends}."


def answer(study: FinishedStudy) -> str:
    """The result of a study in one sentence."""
    parts = [claims_said(study.claims), checks_said(study.checks)]
    if study.about.failed_runs:
        parts.append(f"{number(study.about.failed_runs)} of {count(study.about.runs, 'run')} failed")
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def claims_said(claims: list[ClaimResult]) -> str:
    holds, fails, unknown = count_verdicts(claims).values()
    total = len(claims)
    if not total:
        return "the study makes no claims"
    if holds == total:
        return ("", "the claim holds", "both claims hold")[total] if total < 3 else f"all {total} claims hold"
    parts = [f"{holds} of {count(total, 'claim')} {'holds' if holds == 1 else 'hold'}"] if holds else []
    first = "" if holds else f" of {count(total, 'claim')}"
    if fails:
        parts.append(f"{fails}{first} {'does' if fails == 1 else 'do'} not{'' if holds else ' hold'}")
        first = ""
    if unknown:
        parts.append(f"{unknown}{first} {'is' if unknown == 1 else 'are'} unknown")
    return join_and(parts)


def checks_said(checks: list[Check]) -> str:
    total = len(checks)
    violated = [in_quotes(check.name) for check in checks if check.status == "violated"]
    unknown = [in_quotes(check.name) for check in checks if check.status == "unknown" and not check.runs("valid")]
    partly = [in_quotes(check.name) for check in checks if check.status == "unknown" and check.runs("valid")]
    if not total:
        return "no property was checked"
    if not violated and not unknown and not partly:
        return "the check is valid in every run" if total == 1 else f"all {total} checks are valid in every run"
    if len(unknown) == total:
        return "the check is unknown" if total == 1 else f"all {total} checks are unknown"
    parts = [f"{join_and(violated)} {'was' if len(violated) == 1 else 'were'} violated"] if violated else []
    parts += [f"{join_and(unknown)} {'is' if len(unknown) == 1 else 'are'} unknown"] if unknown else []
    parts += [f"{join_and(partly)} {'is' if len(partly) == 1 else 'are'} unknown in some runs"] if partly else []
    return f"of {count(total, 'check')}, {join_and(parts)}"


def outcome(check: Check) -> str:
    """A check over all runs: valid, violated, unknown, or partly valid where some runs gave no evidence."""
    return "partly valid" if check.status == "unknown" and check.runs("valid") else check.status


def in_quotes(name: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{name}\N{RIGHT DOUBLE QUOTATION MARK}"
