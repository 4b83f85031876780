"""`isthmus compose`: the order that groups joined by routers guarantee end to end; a picture and a plan of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from isthmus.advise.composition.counterexample import PROCESSES_MAX, Found, counterexample
from isthmus.advise.composition.remedy import Remedy, remedy
from isthmus.cli.compose_plan import plan
from isthmus.cli.console import print_whole, wide_console
from isthmus.cli.files import refuse_overwrite, writing
from isthmus.cli.options import HELP, PATH, force_option, json_option, output_option, print_json
from isthmus.core.errors import InputError
from isthmus.core.validation import read_toml
from isthmus.judge.verdict import exit_code
from isthmus.judge.witness import sentence
from isthmus.protocols.routing.calculus.model import Composition, OrderingDomain, connected_domains
from isthmus.protocols.routing.calculus.semantics import Decision, decide, decide_wanted
from isthmus.protocols.routing.calculus.walks import network_of
from isthmus.scenario.load import is_scenario, load_composition_of

GIVEN, REFUSED = "guaranteed", "refused"
HOW_TO_RUN = """To run it: a scenario with composition = "{path.name}" (relative to its own file), a [topology] with a
site for each process and router, and to_groups in its [[workloads]]; by isthmus sim or isthmus live."""
RUN_SCENARIO = "To run it: isthmus sim {path}, or isthmus live {path}."
COLORS = {GIVEN: "green", REFUSED: "red"}


@click.group(context_settings=HELP)
def command() -> None:
    """Join groups by routers, and derive the end-to-end order.

    A composition is a TOML file with groups, IGPs (protocols between groups), routers, and ordering domains with the
    semantics they want. `isthmus init FOLDER --examples` copies four examples; docs/design/routing.md has every key.

    \b
    Examples:
      isthmus init demo --examples
      isthmus compose plan demo/scenario.toml --wants total -o composition.toml
      isthmus compose check composition.toml
      isthmus compose show composition.toml -o composition.svg
    """


command.add_command(plan)


@command.command(context_settings=HELP)
@click.argument("path", type=PATH, metavar="COMPOSITION.toml")
@output_option("Folder for the counterexamples, as space-time diagrams.", Path("out/compose"))
@click.option("--png", is_flag=True, help="Draw the counterexamples as PNG, too.")
@click.option("--no-pictures", is_flag=True, help="Do not draw.")
@json_option
def check(path: Path, output: Path, png: bool, no_pictures: bool, as_json: bool) -> None:
    """Decide which order each domain of a composition gets, and by which rule.

    A refusal includes an execution that breaks the order, drawn as a space-time diagram, and the cheapest change that
    would guarantee it. Domains that share groups are also decided together, since one may weaken another. Given a
    scenario, check its composition.

    Exit code 0: every domain gets what it wants; 1: one does not; 2: bad input.

    \b
    Examples:
      isthmus compose check composition.toml
      isthmus compose check composition.toml -o out/refused --png
      isthmus compose check scenario.toml
      isthmus compose check composition.toml --json
    """
    composition = load_composition_of(path)
    with Console(stderr=True).status("deciding"):
        decided = [judged(composition, domain) for domain in composition.domains]
    names = process_names(composition)
    pictures: dict[str, list[str]] = {}
    if not no_pictures:
        for domain, decision, found, _ in decided:
            if found is not None:
                pictures[domain.name] = draw(composition, domain, decision, found, output, png)
    together = [
        decide(composition, part, "all" if all(one.scope == "all" for one in part) else "inter")
        for part in connected_domains(composition.domains)
        if len(part) > 1
    ]
    given = all(is_given(domain, decision) for domain, decision, _, _ in decided)
    if as_json:
        domains = [domain_document(*one, pictures.get(one[0].name, []), names) for one in decided]
        document = {"composition": composition.name, "status": GIVEN if given else REFUSED, "domains": domains}
        print_json(document | {"together": [decision_document(decision) for decision in together]})
    else:
        print_check(decided, together, pictures, names)
        if given:
            click.echo((RUN_SCENARIO if is_scenario(read_toml(path)) else HOW_TO_RUN).format(path=path))
    sys.exit(exit_code(["valid" if given else "violated"]))


JudgedDomain = tuple[OrderingDomain, Decision, Found | None, Remedy | None]


def judged(composition: Composition, domain: OrderingDomain) -> JudgedDomain:
    """Decide a domain; for a refusal, find an execution that breaks the order and a remedy."""
    decision = decide_wanted(composition, domain)
    if is_given(domain, decision):
        return domain, decision, None, None
    lacking = decision.lacking(domain.wants)
    decided = tuple(one for one in composition.domains if one.name in decision.domains)
    network = network_of(composition, decided, domain.scope)
    random = Random(f"{composition.name}/{domain.name}/{lacking.order}")
    return domain, decision, counterexample(network, domain.scope, lacking.order, random), remedy(composition, domain)


def is_given(domain: OrderingDomain, decision: Decision) -> bool:
    return decision.gives(domain.wants)


def process_names(composition: Composition) -> dict[int, str]:
    """The names of the processes of a counterexample, by their numbers in it."""
    names = [member for group in composition.groups for member in group.members[:PROCESSES_MAX]]
    return dict(enumerate(names))


def draw(
    composition: Composition, domain: OrderingDomain, decision: Decision, found: Found, folder: Path, png: bool
) -> list[str]:
    """Draw a counterexample; return the files."""
    from isthmus.report.pictures.canvas import save_picture
    from isthmus.report.pictures.counterexample import draw_counterexample

    order = decision.lacking(domain.wants).order
    stem = re.sub(r"[^\w.-]+", "-", f"{domain.name}-{order}")
    executions = {stem: found} | ({f"{stem}-reordered": found.reordered} if found.reordered else {})
    paths = []
    with writing(folder / stem):
        for name, execution in executions.items():
            title = f"{order} is not guaranteed in {domain.name}"
            figure = draw_counterexample(execution, title, process_names(composition))
            for ending in (".svg", ".png") if png else (".svg",):
                save_picture(figure, folder / f"{name}{ending}")
                paths.append(str(folder / f"{name}{ending}"))
    return paths


def print_check(
    decided: list[JudgedDomain], together: list[Decision], pictures: Mapping[str, list[str]], names: Mapping[int, str]
) -> None:
    """Print the table, then the reasons of each verdict."""
    table = Table()
    for head in ("domain", "scope", "forwarding", "wants", "gets", "verdict"):
        table.add_column(head)
    for domain, decision, _, _ in decided:
        verdict = GIVEN if is_given(domain, decision) else REFUSED
        cells = (domain.name, domain.scope, domain.forwarding, domain.wants, decision.gets)
        table.add_row(*map(escape, cells), f"[{COLORS[verdict]}]{verdict}[/]")
    console = wide_console()
    print_whole(console, table)
    lines: list[str] = []
    for domain, decision, found, change in decided:
        others = [name for name in decision.domains if name != domain.name]
        head = f"{domain.name}, which shares groups with {', '.join(others)}:" if others else f"{domain.name}:"
        lines += [head, *order_lines(decision)]
        if not is_given(domain, decision):
            lines.append(f"  Counterexample: {found_text(found, names)}" if found else "  No counterexample was found.")
            lines += [f"  Drawn: {name}" for name in pictures.get(domain.name, [])]
            lines.append(f"  Cheapest change: {remedy_text(domain, change)}.")
    for decision in together:
        lines += [f"{', '.join(decision.domains)} together, over {decision.scope}:", *order_lines(decision)]
    for line in lines:
        console.print(escape(line), highlight=False, soft_wrap=True)


def order_lines(decision: Decision) -> list[str]:
    """One line per order: the theorem, or the reason against it."""
    return [
        f"  {one.order:<7} {one.rule if one.holds else f'no, {one.rule}'}: {one.reason}." for one in decision.guarantees
    ]


def found_text(found: Found, names: Mapping[int, str]) -> str:
    if found.verdict is not None and found.verdict.shown is not None:
        return f"{sentence(found.verdict.shown, found.verdict.group, names)}."
    lost = f"a message is lost on its way, and {len(found.missing)} of its receivers never deliver it."
    return f"{lost} Also, {found_text(found.reordered, names)}" if found.reordered else lost


def remedy_text(domain: OrderingDomain, change: Remedy | None) -> str:
    if change is None:
        less = "ask for less, " + ("for scope inter, " if domain.scope == "all" else "")
        return f"no change of protocols or forwarding suffices; {less}or list the flows that occur"
    return "; ".join(change.changes)


def decision_document(decision: Decision) -> dict[str, Any]:
    guarantees = [
        {"order": one.order, "guaranteed": one.holds, "rule": one.rule, "reason": one.reason}
        for one in decision.guarantees
    ]
    return {"domains": decision.domains, "scope": decision.scope, "gets": decision.gets, "orders": guarantees}


def domain_document(
    domain: OrderingDomain,
    decision: Decision,
    found: Found | None,
    change: Remedy | None,
    pictures: list[str],
    names: Mapping[int, str],
) -> dict[str, Any]:
    """One domain as JSON."""
    document: dict[str, Any] = {"name": domain.name, "wants": domain.wants, "forwarding": domain.forwarding}
    document["verdict"] = GIVEN if is_given(domain, decision) else REFUSED
    document |= decision_document(decision)
    if not is_given(domain, decision):
        document["counterexample"] = None if found is None else found_text(found, names)
        document["pictures"] = pictures
        document["change"] = None if change is None else {"changes": change.changes, "cost": change.cost}
    return document


@command.command(context_settings=HELP)
@click.argument("path", type=PATH, metavar="COMPOSITION.toml")
@output_option("The picture: .svg or .png.", Path("composition.svg"))
@force_option
@json_option
def show(path: Path, output: Path, force: bool, as_json: bool) -> None:
    """Draw a composition, or that of a scenario: groups, IGPs, routers, and the domains that use them.

    \b
    Examples:
      isthmus compose show composition.toml
      isthmus compose show composition.toml -o composition.png --force
    """
    composition = load_composition_of(path)
    gets = {domain.name: decide_wanted(composition, domain).gets for domain in composition.domains}
    if output.suffix not in (".svg", ".png"):
        raise InputError("-o", str(output), f"the ending {output.suffix!r}", "svg or png")
    refuse_overwrite(output, force, path)
    from isthmus.report.pictures.composition import save_composition

    with writing(output):
        save_composition(composition, gets, output)
    if as_json:
        print_json({"composition": composition.name, "picture": output, "gets": gets})
    else:
        click.echo(f"wrote {output}")
