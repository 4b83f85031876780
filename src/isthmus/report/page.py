"""The report: one HTML page that needs nothing else, from finished studies and their figures.

Markup is in templates/, which escape all values; this module decides what a page shows, text.py the wording. Verdicts
are words with a sign, never a colour alone. The page has no date: the same studies give the same bytes.
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
from isthmus.report import text
from isthmus.report.figures import draw_plot, inline_svg
from isthmus.report.lines import Plot, plots_of
from isthmus.report.pictures.distributions import MEANING, draw_spread_plot
from isthmus.report.pictures.network import draw_network
from isthmus.report.results import CheckedProperty, FinishedStudy
from isthmus.stacks.registry import STACKS, SUMMARIES
from isthmus.studies.results import SHARES, STATUSES, About, ClaimKind, ClaimResult
from isthmus.topology.model import Topology

MARK = '<meta name="generator" content="Isthmus">'  # identifies an earlier report
SHOWN_MAX = 200  # rows of a figure's numbers
LOOKS = {  # verdict: class and sign
    "valid": ("good", "\N{CHECK MARK}"),
    "violated": ("bad", "\N{MULTIPLICATION SIGN}"),
    "unknown": ("open", "?"),
}
KINDS: dict[ClaimKind, tuple[str, str]] = {  # heading and explanation, in the order shown
    "paper": (
        "Claims of the paper",
        "A claim that is not confirmed is a finding about the paper, not a defect of ours.",
    ),
    "promise": ("Promises of ours", "A broken promise is a defect."),
    "sanity": ("Sanity checks", "Where one fails, the figures above mean nothing."),
}
CLAIM_LOOKS = {  # kind of claim and verdict: class and sign
    ("paper", "holds"): ("found", "\N{IDENTICAL TO}"),
    ("paper", "does not hold"): ("differs", "\N{NOT EQUAL TO}"),
    ("promise", "holds"): ("good", "\N{CHECK MARK}"),
    ("promise", "does not hold"): ("bad", "\N{MULTIPLICATION SIGN}"),
    ("sanity", "holds"): ("quiet", "\N{CHECK MARK}"),
    ("sanity", "does not hold"): ("bad", "\N{MULTIPLICATION SIGN}"),
}
OWN = "Beyond the papers"  # heading of our own studies


class Drawn(NamedTuple):
    """A figure of a study, and the name of its files."""

    name: str
    plot: Plot
    figure: Figure


class NumbersTable(NamedTuple):
    """The numbers of a figure as a table: one row per x and one column per line, or the other way round."""

    heads: list[str]
    rows: list[tuple[str, list[str]]]  # at most SHOWN_MAX
    total: int  # rows there would be


class CheckFinding(NamedTuple):
    """A finding in runs where some checks are not valid, with its replay command."""

    names: list[str]
    status: str
    runs: int
    witness: str
    replay: str


class NetworkPicture(NamedTuple):
    """A network that a study runs on, as a picture."""

    name: str  # unique on the page
    label: str
    figure: Figure | None  # None: a single cluster, which needs no picture


class Section(NamedTuple):
    """A study with its place on the page."""

    slug: str  # unique on the page
    study: FinishedStudy
    drawn: list[Drawn]
    networks: list[NetworkPicture]


class Chapter(NamedTuple):
    """The studies of one paper, or our own."""

    slug: str
    title: str
    parts: list[Section]


def sections(studies: list[FinishedStudy]) -> list[Section]:
    """Studies with their figures drawn, under unique names."""
    slugs, taken = unique(study.about.name for study in studies), []
    for slug, study in zip(slugs, studies, strict=True):
        plots = plots_of(study)
        names = unique(f"{slug}-{plot.spec.id}" for plot in plots)
        labels = [line.label for plot in plots for line in plot.ours if line.label not in plot.spec.stacks]
        others = list(dict.fromkeys(labels))
        drawn = [Drawn(name, plot, draw(plot, others)) for name, plot in zip(names, plots, strict=True)]
        networks = [network_of(f"{slug}-network-{place}", topology) for place, topology in enumerate(study.networks)]
        taken.append(Section(slug, study, drawn, networks))
    return taken


def draw(plot: Plot, others: list[str]) -> Figure:
    return draw_spread_plot(plot) if plot.spec.kind == "spread" else draw_plot(plot, others)


def network_of(name: str, topology: Topology) -> NetworkPicture:
    sites = text.count(len(topology.sites), "site")
    label = f"The network {topology.name}: {text.count(len(topology.clusters), 'cluster')}, {sites}"
    return NetworkPicture(name, label, draw_network(topology, title=False) if len(topology.clusters) > 1 else None)


def chapters(parts: list[Section]) -> list[Chapter]:
    """The studies by paper, in the order of the first of each; our own last."""
    titles = dict.fromkeys(part.study.about.paper for part in parts)
    order = [*(title for title in titles if title), *(title for title in titles if not title)]
    found = [(title or OWN, [part for part in parts if part.study.about.paper == title]) for title in order]
    slugs = unique(f"chapter-{title}" for title, _ in found)
    return [Chapter(slug, title, own) for slug, (title, own) in zip(slugs, found, strict=True)]


def unique(names: Iterable[str]) -> list[str]:
    """Names that can be ids and file names, made unique by a number where needed."""
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
    studies = [part.study for part in parts]
    title = studies[0].about.title if len(parts) == 1 else "Which order for which network"
    headlines = [drawn for part in parts for drawn in part.drawn if drawn.plot.spec.headline]
    context = {
        "parts": parts,
        "chapters": chapters(parts),
        "studies": studies,
        "advice": [(part, one) for part in parts for one in part.study.advice],
        "headline": headlines[0] if headlines else None,
        "title": title,
        "version": __version__,
        "mark": Markup(MARK),
    }
    return templates().get_template("page.html").render(context)


def templates() -> Environment:
    made = Environment(
        loader=PackageLoader("isthmus.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {
        "words": text,
        "looks": LOOKS,
        "claim_look": claim_look,
        "claims_by_kind": claims_by_kind,
        "stacks": SUMMARIES,
        "promised": {name: text.join_and(stack.properties) for name, stack in STACKS.items()},
        "network_picture": network_picture,
        "figure_notes": figure_notes,
        "mood": mood,
        "facts": facts,
        "counts": counts,
        "check_findings": check_findings,
        "picture": picture,
        "numbers_of_figure": numbers_of_figure,
    }
    return made


def mood(study: FinishedStudy) -> str:
    """The class of an answer's mark: bad for a defect of ours, open for anything unknown, otherwise empty.

    A paper's claim that is not confirmed is not a defect.
    """
    ours = {claim.verdict for claim in study.claims if claim.kind != "paper"}
    statuses = ours | {check.status for check in study.checks}
    if statuses & {"violated", "does not hold"} or study.about.failed_runs:
        return " bad"
    every = statuses | {claim.verdict for claim in study.claims}
    return " open" if "unknown" in every or not every else ""


def claim_look(claim: ClaimResult) -> tuple[str, str, str]:
    """Class, sign and word of a claim's verdict."""
    known = (claim.kind, claim.verdict)
    return (*CLAIM_LOOKS.get(known, LOOKS["unknown"]), text.OUTCOMES.get(known, "unknown"))


def claims_by_kind(claims: list[ClaimResult]) -> list[tuple[str, str, list[ClaimResult]]]:
    """Claims by kind, each kind with a heading and the meaning of a failure."""
    found = [(*KINDS[kind], [claim for claim in claims if claim.kind == kind]) for kind in KINDS]
    return [(heading, meaning, own) for heading, meaning, own in found if own]


def network_picture(network: NetworkPicture) -> Markup:
    assert network.figure is not None
    return inline_svg(network.figure, network.name, network.label, outlines=True)


def figure_notes(plot: Plot) -> str:
    """The meaning of a figure's points or rows."""
    if plot.spec.kind == "spread":
        return MEANING[0].upper() + MEANING[1:] + "."
    return text.runs_sentence(plot.runs, any(error for line in plot.ours for error in line.errors))


def picture(drawn: Drawn, prefix: str = "") -> Markup:
    """A figure as SVG, with a label for screen readers; a figure shown twice needs a prefix for its ids."""
    plot = drawn.plot
    if plot.spreads:
        shown = text.join_and(one.label for one in plot.spreads)
        label = f"{plot.spec.title}. Distributions of {plot.spec.ylabel}, showing {shown}."
        return inline_svg(drawn.figure, prefix + drawn.name, label)
    shown = text.join_and(line.label for line in (*plot.ours, *plot.paper)) if plot.ours else "nothing"
    label = f"{plot.spec.title}. Line chart of {plot.spec.ylabel} against {plot.spec.xlabel}, showing {shown}."
    return inline_svg(drawn.figure, prefix + drawn.name, label)


def numbers_of_figure(plot: Plot) -> NumbersTable:
    if plot.spreads:
        heads = [plot.spec.xlabel, "mean", *(f"{share} %" for share in SHARES)]
        cells = [
            (one.label, [text.number(one.mean), *map(text.number, one.percentiles.values())]) for one in plot.spreads
        ]
        return NumbersTable(heads, cells, len(cells))
    lines = [*plot.ours, *plot.paper]
    points = [dict(zip(line.xs, zip(line.ys, line.errors, strict=True), strict=True)) for line in lines]
    xs = sorted({x for line in lines for x in line.xs})
    names = [plot.categories[int(x)] if plot.categories else text.number(x) for x in xs]
    values = [[text.measured(*of.get(x, (nan, 0.0))) for of in points] for x in xs[:SHOWN_MAX]]
    labels = [line.label for line in lines]
    if len(xs) < len(lines):  # the longer side goes down the page
        by_line = [[row[place] for row in values] for place in range(len(lines))]
        return NumbersTable([plot.spec.xlabel, *names], list(zip(labels, by_line, strict=True)), len(lines))
    return NumbersTable([plot.spec.xlabel, *labels], list(zip(names[:SHOWN_MAX], values, strict=True)), len(xs))


def counts(check: CheckedProperty) -> list[int]:
    """The numbers of a check: runs by status, evidence, violations."""
    runs = [check.runs("valid"), check.runs("violated"), check.runs("unknown")]
    return [*runs, sum(row.evidence for row in check.found), sum(row.violations for row in check.found)]


def check_findings(checks: list[CheckedProperty]) -> list[CheckFinding]:
    """The findings of checks that are not valid, the worst first; a finding common to several checks is listed once."""
    alike: dict[tuple[str, int, str, str], list[str]] = {}
    for row in (row for status in STATUSES for check in checks for row in check.found if row.status == status):
        if row.status != "valid":
            witness = row.witness or ("no witness was kept" if row.status == "violated" else "no evidence")
            alike.setdefault((row.status, row.runs, witness, row.replay or ""), []).append(row.property)
    return [CheckFinding(names, *what) for what, names in alike.items()]


def facts(about: About) -> dict[str, str]:
    """Runs, seeds, scale, time and versions; unknown ones are omitted."""
    failed = f", {text.number(about.failed_runs)} of them failed" if about.failed_runs else ", none failed"
    others = about.together - 1
    shared = f", with {others} other{'s' if others > 1 else ''}" if others > 0 else ""
    found = {
        "runs": text.number(about.runs) + failed,
        "seeds": text.seeds(about.seeds),
        "scale": about.scale,
        "took": f"{text.duration(about.took_s)} on Spark {about.spark_master}{shared}",
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items() if version),
    }
    return {name: fact for name, fact in found.items() if fact}
