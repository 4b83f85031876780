"""The report: one HTML page that needs nothing else, from finished studies and their figures.

The page is text and inline SVG, with its style inside: no script, no font, nothing to load. Markup is in templates/,
which escape all that they are given; only the figures, which are SVG, and the mark of a report are passed as markup.
This file decides what a page shows, words.py how it is said. Verdicts are words with a sign, never a colour alone;
headings go down step by step; wide tables scroll. There is no date in it: the same studies give the
same page, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import nan
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from isthmus import __version__
from isthmus.report import words
from isthmus.report.figures import draw_plot, inline_svg
from isthmus.report.lines import Plot, plots_of
from isthmus.report.results import STATUSES, About, Check, FinishedStudy

MARK = '<meta name="generator" content="Isthmus">'  # by which an earlier report is recognised
SHOWN_MAX = 200  # rows of a figure's numbers
LOOKS = {
    "holds": ("good", "\N{CHECK MARK}"),
    "valid": ("good", "\N{CHECK MARK}"),
    "does not hold": ("bad", "\N{MULTIPLICATION SIGN}"),
    "violated": ("bad", "\N{MULTIPLICATION SIGN}"),
    "unknown": ("open", "?"),
}


class Drawn(NamedTuple):
    """A figure of a study, and the name of its files."""

    name: str
    plot: Plot
    figure: Figure


class NumbersTable(NamedTuple):
    """The numbers of a figure as a table: one row per x, one column per line."""

    heads: list[str]
    rows: list[tuple[str, list[str]]]  # at most SHOWN_MAX
    total: int  # rows there would be


class CheckFinding(NamedTuple):
    """What was found in runs where some checks are not valid, and how to see it again."""

    names: list[str]
    status: str
    runs: int
    said: str
    replay: str


class Section(NamedTuple):
    """A study with its place on the page."""

    slug: str  # unique on the page
    study: FinishedStudy
    drawn: list[Drawn]


def sections(studies: list[FinishedStudy]) -> list[Section]:
    """Studies with their figures drawn, under names that differ."""
    slugs, taken = unique(study.about.name for study in studies), []
    for slug, study in zip(slugs, studies, strict=True):
        plots = plots_of(study)
        names = unique(f"{slug}-{plot.spec.id}" for plot in plots)
        drawn = [Drawn(name, plot, draw_plot(plot)) for name, plot in zip(names, plots, strict=True)]
        taken.append(Section(slug, study, drawn))
    return taken


def unique(names: Iterable[str]) -> list[str]:
    """Names that can be ids and file names, made different by a number where needed."""
    found: list[str] = []
    for name in names:
        plain = first = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "unnamed"
        number = 1
        while plain in found:
            number += 1
            plain = f"{first}-{number}"
        found.append(plain)
    return found


def page(parts: list[Section]) -> str:
    """The whole page."""
    studies = [part.study for part in parts]
    title = studies[0].about.title if len(parts) == 1 else f"Results of {len(parts)} studies"
    return (
        templates()
        .get_template("page.html")
        .render(parts=parts, studies=studies, title=title, version=__version__, mark=Markup(MARK))
    )


def templates() -> Environment:
    """The templates, with what they may call."""
    made = Environment(
        loader=PackageLoader("isthmus.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {
        "words": words,
        "looks": LOOKS,
        "mood": mood,
        "facts": facts,
        "counts": counts,
        "check_findings": check_findings,
        "picture": picture,
        "numbers_of_figure": numbers_of_figure,
    }
    return made


def mood(study: FinishedStudy) -> str:
    """The class of an answer's mark: something is bad, or open, or all is well."""
    statuses = {claim.verdict for claim in study.claims} | {check.status for check in study.checks}
    if statuses & {"violated", "does not hold"} or study.about.failed_runs:
        return " bad"
    return " open" if "unknown" in statuses or not statuses else ""


def picture(drawn: Drawn) -> Markup:
    """A figure as SVG, with a label for screen readers."""
    plot = drawn.plot
    shown = words.join_and(line.label for line in (*plot.ours, *plot.paper)) if plot.ours else "nothing"
    label = f"{plot.spec.title}. Line chart of {plot.spec.ylabel} against {plot.spec.xlabel}, showing {shown}."
    return inline_svg(drawn.figure, drawn.name, label)


def numbers_of_figure(plot: Plot) -> NumbersTable:
    """The numbers that a figure shows."""
    lines = [*plot.ours, *plot.paper]
    points = [dict(zip(line.xs, zip(line.ys, line.errors, strict=True), strict=True)) for line in lines]
    xs = sorted({x for line in lines for x in line.xs})
    rows = [
        (
            plot.categories[int(x)] if plot.categories else words.number(x),
            [words.measured(*of.get(x, (nan, 0.0))) for of in points],
        )
        for x in xs[:SHOWN_MAX]
    ]
    return NumbersTable([plot.spec.xlabel, *(line.label for line in lines)], rows, len(xs))


def counts(check: Check) -> list[int]:
    """The numbers of a check: runs by status, evidence, violations."""
    runs = [check.runs("valid"), check.runs("violated"), check.runs("unknown")]
    return [*runs, sum(row.evidence for row in check.found), sum(row.violations for row in check.found)]


def check_findings(checks: list[Check]) -> list[CheckFinding]:
    """What was found where a check is not valid, the worst first; the same finding of several checks is listed once."""
    alike: dict[tuple[str, int, str, str], list[str]] = {}
    for row in (row for status in STATUSES for check in checks for row in check.found if row.status == status):
        if row.status != "valid":
            said = row.witness or ("no witness was kept" if row.status == "violated" else "no evidence")
            alike.setdefault((row.status, row.runs, said, row.replay or ""), []).append(row.property)
    return [CheckFinding(names, *what) for what, names in alike.items()]


def facts(about: About) -> dict[str, str]:
    """Runs, seeds, scale, time and versions; what is not known is left out."""
    failed = f", {words.number(about.failed_runs)} of them failed" if about.failed_runs else ", none failed"
    others = about.together - 1
    shared = f", with {others} other{'s' if others > 1 else ''}" if others > 0 else ""
    told = {
        "runs": words.number(about.runs) + failed,
        "seeds": words.seeds(about.seeds),
        "scale": about.scale,
        "took": f"{words.duration(about.took_s)} on Spark {about.spark_master}{shared}",
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items() if version),
    }
    return {name: said for name, said in told.items() if said}
