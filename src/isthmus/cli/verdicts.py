"""Verdicts as a table on the terminal, the same in every command that judges."""

from __future__ import annotations

from collections.abc import Mapping

from rich.markup import escape
from rich.table import Table

from isthmus.cli.console import wide_console
from isthmus.judge.verdict import Verdict
from isthmus.trace.schema import NONE

COLORS = {"valid": "green", "violated": "red", "unknown": "yellow"}
VERDICT_LINES = 60  # a longer table omits valid verdicts first, then whatever exceeds it


def print_verdicts(verdicts: list[tuple[int, Verdict]], run_count: int, names: Mapping[int, str] | None = None) -> None:
    """Print verdicts as a table and their counts as a line; a long table omits valid verdicts."""
    shown = verdicts
    if len(shown) > VERDICT_LINES:
        shown = [(run, verdict) for run, verdict in verdicts if verdict.status != "valid"]
        shown.sort(key=lambda item: item[1].status != "violated")
    table = Table()
    for name in ("run", "group", "property", "verdict", "evidence", "violations", "witness"):
        table.add_column(name, justify="right" if name in ("run", "group", "evidence", "violations") else "left")
    for run, verdict in shown[:VERDICT_LINES]:
        table.add_row(
            "" if run == NONE else str(run),
            escape(verdict.domain or (names or {}).get(verdict.group, str(verdict.group))),
            verdict.property,
            f"[{COLORS[verdict.status]}]{verdict.status}[/]",
            str(verdict.evidence_count),
            str(verdict.violation_count),
            escape(verdict.witness),
        )
    console = wide_console()
    if shown:
        console.print(table)
    counts = {status: sum(verdict.status == status for _, verdict in verdicts) for status in COLORS}
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    console.print(f"{run_count} run{'s' if run_count != 1 else ''}: {told}.", soft_wrap=True)
