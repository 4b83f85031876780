"""One scenario with every stack in the simulator, then live, each judged; a page shows what came out.

Everything goes to out/tour; what an earlier tour left there is replaced. Exit code 1 where a promise was not kept.
"""

from __future__ import annotations

import asyncio
import sys
import time
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from isthmus.core.document import read_toml
from isthmus.live.run import measure, run_live
from isthmus.report.network import save_network
from isthmus.scenario.load import load_scenario
from isthmus.sim.run import Run
from isthmus.stacks import STACKS
from isthmus.trace.oracle import PROPERTIES, Oracle, Verdict
from isthmus.trace.reader import read_rows
from isthmus.trace.summary import Summary
from isthmus.trace.writer import TraceWriter

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE, OUT = ROOT / "examples" / "three-lans.toml", ROOT / "out" / "tour"
LIVE_STACK, LIVE_MS = "token-site", 5_000
SHARES = (50, 90, 99)
ASKED = [name for name in PROPERTIES if any(name in stack.properties for stack in STACKS.values())]
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b2330; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto; aspect-ratio: 3 } pre { background: #f3f5f8; padding: .8rem; overflow-x: auto }
table { border-collapse: collapse } td, th { padding: .3rem 1rem; text-align: right; border-bottom: 1px solid #d5dae1 }
td:first-child, th:first-child { text-align: left } .aside { color: #5b6573 } .valid { color: #1a7f37 }
.violated, .unknown { color: #b3261e; font-weight: bold }
"""


class Outcome(NamedTuple):
    """What came out of one run."""

    stack: str
    title: str
    summary: Summary
    verdicts: list[Verdict]

    def figures(self) -> list[str]:
        latency = self.summary.delivered
        times_ns = [*map(latency.percentile, SHARES), latency.maximum]
        return [f"{latency.count:,}", *(f"{time_ns / 1e6:.1f}" for time_ns in times_ns)]

    def promised(self, verdict: Verdict) -> bool:
        return verdict.property in STACKS[self.stack].properties

    def broken(self) -> bool:
        return any(self.promised(verdict) and verdict.status != "valid" for verdict in self.verdicts)


def variant(name: str, stack: str, **changes: Any) -> Path:
    """The example with another stack, as a file that can be run again."""
    tables = read_toml(EXAMPLE) | changes
    tables["stack"] = tables["stack"] | {"name": stack}
    path = OUT / f"{name}.toml"
    path.write_text(tomli_w.dumps(tables), encoding="utf-8")
    return path


def simulate(stack: str) -> Outcome:
    scenario, folder = load_scenario(variant(stack, stack)), OUT / stack
    with TraceWriter(folder, {"scenario": scenario.name, "stack": stack}, overwrite=True) as writer:
        summary = Run(scenario, writer).execute()
    return Outcome(stack, f"{stack}, sim", summary, Oracle(read_rows(folder)).verdicts(ASKED))


def live(stack: str) -> Outcome:
    path, folder = variant("live", stack, duration_ms=LIVE_MS), OUT / "live"
    scenario = load_scenario(path)
    for old in folder.glob("*.parquet"):
        old.unlink()
    asyncio.run(run_live(scenario, path, folder))
    summary = measure(folder, len(scenario.topology.sites))
    return Outcome(stack, f"{stack}, live", summary, Oracle(read_rows(folder)).verdicts(ASKED))


def comparison(outcomes: list[Outcome]) -> Table:
    table = Table(title="from submit to delivery, ms", title_justify="left", box=SIMPLE)
    for head in ("stack", "deliveries", *(f"p{share}" for share in SHARES), "max", "promises"):
        table.add_column(head, justify="left" if head in ("stack", "promises") else "right")
    for one in outcomes:
        table.add_row(one.title, *one.figures(), "[red]broken[/]" if one.broken() else "[green]kept[/]")
    return table


def rows(*lines: list[str]) -> str:
    """An HTML table, its first line as headings."""
    cells = [[f"<{'td' if number else 'th'}>{cell}" for cell in line] for number, line in enumerate(lines)]
    return "<table>" + "".join("<tr>" + "".join(line) for line in cells) + "</table>"


def verdict_cell(one: Outcome, verdict: Verdict) -> str:
    kind, more = (verdict.status, "") if one.promised(verdict) else ("aside", ", not promised")
    return f'<span class="{kind}" title="{escape(verdict.witness)}">{verdict.status}{more}</span>'


def page(outcomes: list[Outcome], svg: str) -> str:
    """Everything on one page that needs no other file."""
    heads = ["stack", "deliveries", *(f"p{share}" for share in SHARES), "max"]
    verdicts = [[name, *(verdict_cell(o, o.verdicts[at]) for o in outcomes)] for at, name in enumerate(ASKED)]
    found = [(one, verdict) for one in outcomes for verdict in one.verdicts if verdict.status == "violated"]
    witnesses = [f"<p class=aside>{o.title}: {v.property} violated: {escape(v.witness)}.</p>" for o, v in found]
    again = [f"isthmus sim out/tour/{stack}.toml --overwrite -o out/tour/{stack}" for stack in STACKS]
    again += ["isthmus live out/tour/live.toml --overwrite -o out/tour/live", "isthmus check out/tour/live"]
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Isthmus: a tour</title><style>{STYLE}</style>
<h1>Three LANs, three stacks</h1>
<p>Seven sites; each multicasts 20 messages a second to all. One-way mean delays; links to Tokyo lose packets.</p>
{svg[svg.index("<svg") :].replace("<svg ", '<svg preserveAspectRatio="xMidYMid slice" ', 1)}
<h2>What an order costs</h2><p>Milliseconds from a message's submit to each of its deliveries.</p>
{rows(heads, *([one.title, *one.figures()] for one in outcomes))}
<h2>What was promised, what was kept</h2>
{rows(["property", *(one.title for one in outcomes)], *verdicts)}{"".join(witnesses)}
<h2>Again</h2><pre>{chr(10).join(f".venv/bin/{line}" for line in again)}</pre></html>
"""


def main() -> int:
    console, started = Console(highlight=False), time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    picture = OUT / "network.svg"
    save_network(load_scenario(EXAMPLE).topology, picture)
    outcomes = []
    for stack in STACKS:
        with console.status(f"simulating {stack}"):
            outcomes.append(simulate(stack))
    with console.status(f"running {LIVE_STACK} live for {LIVE_MS / 1e3:g} s, one process a site"):
        outcomes.append(live(LIVE_STACK))
    console.print(comparison(outcomes))
    (OUT / "index.html").write_text(page(outcomes, picture.read_text(encoding="utf-8")), encoding="utf-8")
    console.print(f"{time.monotonic() - started:.0f} s. The page to look at: {OUT / 'index.html'}", soft_wrap=True)
    return 1 if any(one.broken() for one in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
