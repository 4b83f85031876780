"""The report: one HTML page that needs nothing else, from finished studies and their figures.

The page is text and inline SVG, with its style inside: no script, no font, nothing to load. Whatever comes from a study
passes through `escape`; only the functions here write markup. Verdicts are words with a sign, never a colour alone;
headings go down step by step; tables scroll in boxes of their own. There is no date in it: the same studies give the
same page, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from math import nan
from typing import NamedTuple

from matplotlib.figure import Figure

from isthmus import __version__
from isthmus.report import words
from isthmus.report.figures import draw_plot, inline_svg
from isthmus.report.lines import Plot, plots_of
from isthmus.report.results import STATUSES, Check, ClaimResult, FinishedStudy

MARK = '<meta name="generator" content="Isthmus">'  # by which a report is known
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
    style = (files("isthmus.report") / "style.css").read_text(encoding="utf-8")
    alone = len(parts) == 1
    title = parts[0].study.about.title if alone else f"Results of {len(parts)} studies"
    body = [f'<p class="brand">Isthmus, ordered multicast for a WAN of LANs</p><h1>{escape(title)}</h1>']
    if alone:
        body.append(study_body(parts[0], 2))
    else:
        body.append(index(parts))
        for part in parts:
            head = f'<h2 id="{part.slug}">{escape(part.study.about.title)}</h2>'
            body.append(f'<section class="study">{head}{study_body(part, 3)}</section>')
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
{MARK}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Isthmus: {escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{chr(10).join(body)}
</main>
<footer class="aside"><p>Made by Isthmus {escape(__version__)}. Verdicts: a claim holds, does not hold, or is
unknown where it was not measured; a check is valid, violated, or unknown where a run gave no evidence.</p></footer>
</body>
</html>
"""


def index(parts: list[Section]) -> str:
    """All claims together, then what came out of each study."""
    claims = [claim for part in parts for claim in part.study.claims]
    runs = sum(part.study.about.runs for part in parts)
    failed = sum(part.study.about.failed_runs for part in parts)
    said = f"Over all studies, {words.claims_said(claims)}; {words.count(runs, 'run')}, "
    said += f"{words.number(failed)} of them failed." if failed else "none failed."
    items = [
        f'<li class="answer{mood(part.study)}"><a href="#{part.slug}">{escape(part.study.about.title)}</a>'
        f'<span class="detail">{escape(words.answer(part.study))}</span></li>'
        for part in parts
    ]
    return (
        f'<p class="question">{escape(said)}</p><nav aria-label="Studies"><ol class="index">{"".join(items)}</ol></nav>'
    )


def mood(study: FinishedStudy) -> str:
    """The class of an answer's mark: something is bad, or open, or all is well."""
    statuses = {claim.verdict for claim in study.claims} | {check.status for check in study.checks}
    if statuses & {"violated", "does not hold"} or study.about.failed_runs:
        return " bad"
    return " open" if "unknown" in statuses or not statuses else ""


def study_body(part: Section, level: int) -> str:
    """Everything about one study, with headings from a level on."""
    about, study = part.study.about, part.study
    blocks = [
        f'<p class="question">{escape(about.question)}</p>',
        f'<p class="aside">After {escape(about.source)}.</p>' if about.source else "",
        f'<p class="answer{mood(study)}">{escape(words.answer(study))}</p>',
    ]
    if part.drawn:
        blocks.append(f"<h{level}>Figures</h{level}>")
        blocks += [figure_block(drawn, level + 1) for drawn in part.drawn]
    blocks.append(f"<h{level}>Claims</h{level}>")
    blocks.append(claims_table(part.slug, study.claims) if study.claims else "<p>The study makes no claims.</p>")
    blocks.append(f"<h{level}>Checks</h{level}>")
    blocks.append(checks_table(part.slug, study.checks) if study.checks else "<p>Nothing was checked.</p>")
    blocks.append(f"<h{level}>How it was run</h{level}>{provenance(study)}")
    return "\n".join(block for block in blocks if block)


def figure_block(drawn: Drawn, level: int) -> str:
    spec = drawn.plot.spec
    shown = [line.label for line in (*drawn.plot.ours, *drawn.plot.paper)]
    lines = words.join_and(shown) if drawn.plot.ours else "nothing"
    label = f"{spec.title}. Line chart of {spec.ylabel} against {spec.xlabel}, showing {lines}."
    return f"""<figure>
<h{level}>{escape(spec.title)}</h{level}>
{inline_svg(drawn.figure, drawn.name, escape(label))}
<figcaption>{escape(spec.caption)}</figcaption>
<details><summary>The numbers</summary>{numbers_table(drawn)}</details>
</figure>"""


def numbers_table(drawn: Drawn) -> str:
    """What a figure shows, as a table for those who cannot or will not read it off: a row an x, a column a line."""
    plot = drawn.plot
    lines = [*plot.ours, *plot.paper]
    points = [dict(zip(line.xs, zip(line.ys, line.errors, strict=True), strict=True)) for line in lines]
    xs = sorted({x for line in lines for x in line.xs})
    rows = []
    for x in xs[:SHOWN_MAX]:
        at = escape(plot.categories[int(x)]) if plot.categories else words.number(x)
        cells = "".join(f'<td class="n">{words.measured(*of.get(x, (nan, 0.0)))}</td>' for of in points)
        rows.append(f'<tr><th scope="row">{at}</th>{cells}</tr>')
    more = f'<p class="aside">The first {SHOWN_MAX} of {len(xs):,} rows.</p>' if len(xs) > SHOWN_MAX else ""
    heads = (plot.spec.xlabel, *(line.label for line in lines))
    name = f"{plot.spec.title}: the numbers"
    return f'<p class="aside">{escape(plot.spec.ylabel)}</p>{table(f"{drawn.name}-numbers", name, heads, rows)}{more}'


def claims_table(slug: str, claims: list[ClaimResult]) -> str:
    rows = []
    for claim in claims:
        detail = f'<span class="detail">{escape(claim.detail)}</span>' if claim.detail else ""
        room = words.tolerance(claim)
        within = f'<span class="detail">{escape(room)}</span>' if room else ""
        rows.append(
            f"<tr><td>{badge(claim.verdict)}</td><td>{escape(claim.statement)}{detail}</td>"
            f"<td>{escape(words.expected(claim))}{within}</td>"
            f"<td>{escape(words.value(claim.measured, claim.unit))}</td><td>{escape(claim.source)}</td></tr>"
        )
    heads = ("verdict", "claim", "expected", "measured", "source")
    return table(f"{slug}-claims", "Claims", heads, rows, kind="claims", left=len(heads))


def checks_table(slug: str, checks: list[Check]) -> str:
    """Verdicts of every check over all runs, then what was found where one is not valid."""
    rows = []
    for check in checks:
        runs = [check.runs("valid"), check.runs("violated"), check.runs("unknown")]
        cells = [*runs, sum(row.evidence for row in check.found), sum(row.violations for row in check.found)]
        numbers = "".join(f'<td class="n">{words.number(cell)}</td>' for cell in cells)
        shown = badge(check.status, words.outcome(check))
        rows.append(f'<tr><th scope="row">{escape(check.name)}</th><td>{shown}</td>{numbers}</tr>')
    heads = ("property", "verdict", "valid", "violated", "unknown", "evidence", "violations")
    alike: dict[tuple[str, int, str, str], list[str]] = {}  # what is the same of several checks is said once
    for row in (row for status in STATUSES for check in checks for row in check.found if row.status == status):
        if row.status != "valid":
            alike.setdefault((row.status, row.runs, row.witness or "", row.replay or ""), []).append(row.property)
    found = [finding(names, *what) for what, names in alike.items()]
    more = f'<ul class="found">{"".join(found)}</ul>' if found else ""
    lead = "In how many runs each property was valid, violated or unknown; evidence: where it could have broken."
    return f'<p class="aside">{lead}</p>' + table(f"{slug}-checks", "Checks", heads, rows, left=2) + more


def finding(names: list[str], status: str, runs: int, witness: str, replay: str) -> str:
    """One finding: what was seen, and the command that shows it again."""
    said = escape(witness or ("no witness was kept" if status == "violated" else "no evidence"))
    again = command_block(replay) if replay else ""
    who = escape(words.join_and(names))
    return f"<li>{badge(status)} <strong>{who}</strong> in {words.count(runs, 'run')}: {said}{again}</li>"


def provenance(study: FinishedStudy) -> str:
    """Runs, seeds, versions, and the command that does it again."""
    about = study.about
    failed = f", {words.number(about.failed_runs)} of them failed" if about.failed_runs else ", none failed"
    others = about.together - 1
    shared = f", with {others} other{'s' if others > 1 else ''}" if others > 0 else ""
    facts = {
        "runs": words.number(about.runs) + failed,
        "seeds": words.seeds(about.seeds),
        "scale": about.scale,
        "took": f"{words.duration(about.took_s)} on Spark {about.spark_master}{shared}",
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items() if version),
    }
    terms = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in facts.items() if said)
    return f"<dl>{terms}</dl><p>To run it again:</p>{command_block(about.command)}"


def command_block(command: str) -> str:
    """A command to copy, which is broken between its words only."""
    parts = [f"<span>{escape(part)}</span>" for part in command.split()]
    return f"<pre><code>{' '.join(parts)}</code></pre>"


def badge(verdict: str, said: str = "") -> str:
    """A verdict as a sign and words."""
    kind, sign = LOOKS[verdict]
    return f'<span class="verdict {kind}"><span aria-hidden="true">{sign} </span>{escape(said or verdict)}</span>'


def table(slug: str, name: str, heads: tuple[str, ...], rows: list[str], kind: str = "", left: int = 1) -> str:
    """A table in a box that scrolls by itself; the first `left` columns are texts, the others numbers."""
    marks = [' scope="col"' if at < left else ' scope="col" class="n"' for at, _ in enumerate(heads)]
    cells = [f"<th{mark}>{escape(head)}</th>" for mark, head in zip(marks, heads, strict=True)]
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}" id="{slug}">'
        f'<table class="{kind}"><thead><tr>{"".join(cells)}</tr></thead>\n'
        f"<tbody>{chr(10).join(rows)}</tbody></table></div>"
    )
