"""`python -m bench [NAME...]`: run the benchmarks, print a table each, and fail where a figure falls short.

Without names, all but those that run on demand.
"""

from __future__ import annotations

import sys

from bench import batches, causal, memory, packets, simulator, sweep

BENCHMARKS = {
    "batches": batches.main,
    "causal": causal.main,
    "simulator": simulator.main,
    "memory": memory.main,
    "packets": packets.main,
    "sweep": sweep.main,
}
ON_DEMAND = {"packets", "sweep"}  # take minutes, or a quiet machine: run when named


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"bench: found {unknown[0]!r}; expected one of {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    chosen = names or [name for name in BENCHMARKS if name not in ON_DEMAND]
    short = [name for name in chosen if not BENCHMARKS[name]()]
    for name in short:
        print(f"{name}: below its target")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
