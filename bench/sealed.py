"""What sealing costs: live groups with keys beside the same in clear, CPU per delivery, in pairs of one run.

    python -m bench.sealed [PAIRS] [NAME...]

A pair is a run in clear and one with keys, one after the other, in an order that changes with each pair; its ratio is
the CPU seconds per delivery of all three members, sealed over clear. The median over all pairs counts, and is to be
measured on a quiet machine: at least ten pairs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from bench.live import Case, cpu_per_million, run_members
from isthmus.live.seal.key_file import write_run_key

PAIRS = 10
CASES = {
    "100 B, full frames": Case("token-site", 100, 300_000),
    "1 KiB": Case("token-site", 1024, 150_000),
    "100 B, 1,400-byte datagrams": Case("token-site", 100, 150_000, datagram_bytes=1400),
    "one message at a time": Case("token-site", 100, 1_500, paced=True),
}
BARS = {"100 B, full frames": 1.25, "1 KiB": 1.35, "100 B, 1,400-byte datagrams": 1.35, "one message at a time": 1.4}


def pair(case: Case, keys: Path, number: int) -> tuple[float, float]:
    """CPU seconds per million deliveries, in clear and sealed."""
    costs: dict[bool, float] = {}
    for sealed in (False, True) if number % 2 == 0 else (True, False):
        results = run_members("member", [case._replace(keys=str(keys) if sealed else None)])
        assert len({result["digest"] for result in results}) == 1 or case.paced, "members delivered in different orders"
        costs[sealed] = cpu_per_million(results)
    return costs[False], costs[True]


def main(pairs: int, names: list[str]) -> bool:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    with TemporaryDirectory() as folder:
        keys = write_run_key(Path(folder, "run.key"))
        for number in range(pairs):
            for name in names:
                found[name].append(pair(CASES[name], keys, number))
    table = Table(title=f"three members on the loopback, CPU s per million deliveries, {pairs} pairs")
    for column in ("", "clear", "sealed", "ratio", "least", "most", "bar"):
        table.add_column(column, justify="left" if not column else "right")
    good = True
    for name, costs in found.items():
        ratios = [sealed / clear for clear, sealed in costs]
        good &= median(ratios) <= BARS[name]
        clear, sealed = (median(side) for side in zip(*costs, strict=True))
        shown = (f"{clear:.2f}", f"{sealed:.2f}", f"{median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}")
        table.add_row(name, *shown, f"{BARS[name]:.2f}")
    Console(width=120).print(table)
    return good


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    sys.exit(0 if main(given, sys.argv[2:] or list(CASES)) else 1)
