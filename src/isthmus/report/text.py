"""Numbers, counts and answers as the text of a report."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite

from isthmus.report.results import CheckedProperty, FinishedStudy
from isthmus.studies.results import ClaimResult, Value

NO_BREAK = "\N{NO-BREAK SPACE}"  # between a number and its unit
SEEDS_MIN = 3  # runs that an interval needs
PHRASES = {  # kind of claim: singular, plural, those that hold, those that do not, if all hold (singular, plural)
    "paper": (
        "claim of the paper",
        "claims of papers",
        "confirmed",
        "not confirmed",
        ("is confirmed", "are confirmed"),
    ),
    "promise": ("promise of ours", "promises of ours", "kept", "broken", ("is kept", "are kept")),
    "sanity": ("sanity check", "sanity checks", "passed", "failed", ("passed", "passed")),
}
OUTCOMES = {  # the word for a verdict on a kind of claim
    (kind, verdict): str(words[place])
    for kind, words in PHRASES.items()
    for place, verdict in ((2, "holds"), (3, "does not hold"))
}
NOTHING = "\N{EN DASH}"  # in an empty cell


def number(value: float) -> str:
    """A number with four digits, or all digits of an integer."""
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
        shown = f"{number(given[0])} to {number(given[1])}" if len(given) == 2 else ", ".join(map(number, given))
    else:
        shown = given if isinstance(given, str) else number(given)
    return f"{shown}{NO_BREAK}{unit}" if unit and shown != NOTHING else shown


def expected(claim: ClaimResult) -> str:
    """The value that a claim expects, after its relation."""
    shown = value(claim.expected, claim.unit)
    return shown if claim.relation == "near" or shown == NOTHING else f"{claim.relation} {shown}"


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
    return {shown: sum(claim.verdict == shown for claim in claims) for shown in ("holds", "does not hold", "unknown")}


def overall(studies: list[FinishedStudy]) -> str:
    claims = [claim for study in studies for claim in study.claims]
    runs, failed = (sum(getattr(study.about, name) for study in studies) for name in ("runs", "failed_runs"))
    ends = f"{number(failed)} of them failed" if failed else "none failed"
    sentence = f"{claims_sentence(claims)}; {count(runs, 'run')}, {ends}"
    return sentence[0].upper() + sentence[1:] + "."


def answer(study: FinishedStudy) -> str:
    parts = [claims_sentence(study.claims), checks_sentence(study.checks)]
    if study.about.failed_runs:
        parts.append(f"{number(study.about.failed_runs)} of {count(study.about.runs, 'run')} failed")
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:] + "."


def claims_sentence(claims: list[ClaimResult]) -> str:
    """The outcome of the claims, each kind in its own words."""
    parts = []
    for kind, (one, more, good, bad, all_good) in PHRASES.items():
        holds, fails, unknown = count_verdicts([claim for claim in claims if claim.kind == kind]).values()
        total = holds + fails + unknown
        if not total:
            continue
        if holds == total:
            every = f"the {one}" if total == 1 else f"both {more}" if total == 2 else f"all {total} {more}"
            parts.append(f"{every} {all_good[total > 1]}")
            continue
        counts = [f"{many} {how}" for many, how in ((holds, good), (fails, bad), (unknown, "unknown")) if many]
        parts.append(f"of {total} {more if total > 1 else one}, {join_and(counts)}")
    return "; ".join(parts) or "the study makes no claims"


def runs_sentence(runs: tuple[int, int] | None, errors: bool) -> str:
    """The number of runs per point of a figure, and whether points have intervals."""
    if runs is None:
        return ""
    fewest, most = runs
    if most == 1:
        return "Single runs: no intervals."
    between = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    if not errors:
        return f"Means of {between} runs" + (": too few for intervals." if most < SEEDS_MIN else ".")
    alone = " Points without a bar have fewer." if fewest < SEEDS_MIN else ""
    return f"Bars: 95{NO_BREAK}% intervals over {between} runs.{alone}"


def checks_sentence(checks: list[CheckedProperty]) -> str:
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


def outcome(check: CheckedProperty) -> str:
    """A check over all runs: valid, violated, unknown, or partly valid where some runs gave no evidence."""
    return "partly valid" if check.status == "unknown" and check.runs("valid") else check.status


def in_quotes(name: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{name}\N{RIGHT DOUBLE QUOTATION MARK}"
