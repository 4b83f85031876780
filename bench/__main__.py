"""`python -m bench [NAME...]`: run the benchmarks, print a table each, and fail where a figure falls short."""

from __future__ import annotations

import sys

from bench import memory, simulator

BENCHMARKS = {"simulator": simulator.main, "memory": memory.main}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"bench: found {unknown[0]!r}; expected one of {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    short = [name for name in names or BENCHMARKS if not BENCHMARKS[name]()]
    for name in short:
        print(f"{name}: below its target")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
