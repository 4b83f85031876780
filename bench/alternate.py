"""Whether one tree is slower than another: both are measured alternately, and each figure is a median of ratios.

    python -m bench.alternate OLD NEW [--rounds 10] [--only sim|live|spark] [--json FILE]

OLD and NEW are working trees. Every measurement is a process of its own with one of the trees on its path, started in
the order old, new, new, old ..., so that a machine that slows down slows both. A round gives one ratio, new over old.
Trees are driven through what `import isthmus` offers, or where that has nothing, through the modules in `HOMES`, whose
names differ between trees.

| figure | what it is |
|---|---|
| sim | CPU time per delivery of a simulated run: ten sites, one stack per row, its verdicts included |
| live | CPU time per delivery of three members of a token-site group in one process, on the loopback |
| spark | wall time of all checks of a trace of a million deliveries, in a session that has checked a small one |

Prints a table; `--json` writes all figures. Exits with 1 where a median ratio is above 1.05.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

RATIO_MAX = 1.05
LIMIT_S = 600  # of one measurement
SITES, DELIVERIES = 3, 60_000  # of the live group, together
ROWS, WARM_ROWS = 1_000_000, 100_000  # deliveries in the traces that Spark checks
STACKS = {"token-site": 120, "dynamic-hybrid": 80, "causal-history": 60}  # messages per second of each site
HOMES = {
    "spark_session": ("isthmus.pipeline.engine.session", "isthmus.pipeline.session"),
    "check": ("isthmus.pipeline.check.verdicts", "isthmus.pipeline.verdicts"),
    "PROPERTIES": ("isthmus.judge.oracle", "isthmus.trace.oracle"),
}
LAN = """
[{table}]
name = "bench"
[[{table}.clusters]]
name = "lan"
sites = {sites}
lan = {{ delay = {delay} }}
"""


# One measurement, in a process of its own


def found(name: str) -> Any:
    """A name of the tree that is measured, wherever that has it."""
    for home in HOMES[name]:
        try:
            return getattr(import_module(home), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(f"bench: no {name} in {' or '.join(HOMES[name])}")


def measure_sim(stack: str) -> float:
    """CPU microseconds per delivery of a simulated run."""
    import isthmus

    text = f'name = "bench"\nduration_ms = 4000\n{LAN.format(table="topology", sites=10, delay=20)}'
    text += f'[stack]\nname = "{stack}"\n[[workloads]]\nkind = "poisson"\nrate_per_s = {STACKS[stack]}\n'
    Path("scenario.toml").write_text(text)
    scenario = isthmus.load_scenario(Path("scenario.toml"))
    isthmus.simulate(msgspec.structs.replace(scenario, duration_ms=100.0))  # imports what only runs need
    start_s = time.process_time()
    run = isthmus.simulate(scenario)
    used_s = time.process_time() - start_s  # with the judge: `cpu_s` of older trees leaves it out, of later ones not
    delivered = getattr(run, "summary", run).delivered.count  # older trees have no RunSummary
    assert delivered > 10_000
    return used_s / delivered * 1e6


def measure_live(_case: str) -> float:
    """CPU microseconds per delivery of three live members."""
    from tests.harness.ports import free_ports

    import isthmus

    Path("topology.toml").write_text(
        LAN.format(table="x", sites=SITES, delay=0.1).replace("[x]\n", "").replace("x.", "")
    )
    topology = isthmus.load_topology(Path("topology.toml"))
    names = [site.name for site in topology.sites]
    ports = free_ports(names)
    count = DELIVERIES // SITES // SITES

    def joined(name: str) -> Any:
        if hasattr(isthmus, "join"):
            config = isthmus.SiteConfig(membership="static")
            return isthmus.join(topology, name, addresses=ports, stack="token-site", config=config)
        return isthmus.Group.join(topology, name, ports, "token-site", membership="static")

    async def member(group: Any) -> None:
        async def send() -> None:
            for _ in range(count):
                await group.send(bytes(100))

        sender, left = asyncio.create_task(send()), SITES * count
        async for _ in group:
            left -= 1
            if not left:
                break
        await sender

    async def run() -> float:
        groups = [joined(name) for name in names]
        for group in groups:
            await group.__aenter__()
        start_s = time.process_time()
        await asyncio.gather(*map(member, groups))
        used_s = time.process_time() - start_s
        for group in groups:
            await group.__aexit__(None, None, None)
        return used_s

    return asyncio.run(run()) / (SITES * SITES * count) * 1e6


def measure_spark(trace: str) -> float:
    """Seconds of all checks of a trace, once the session is warm."""
    session, check, properties = (found(name) for name in HOMES)
    with session(master="local[2]", memory="4g", settings={"spark.sql.shuffle.partitions": "8"}) as spark:
        for path in (f"{trace}-warm", trace):
            start_s = time.perf_counter()
            verdicts = check(spark.read.parquet(path), properties).collect()
            assert all(row["status"] != "violated" for row in verdicts), verdicts
        return time.perf_counter() - start_s


MEASURES: dict[str, Callable[[str], float]] = {"sim": measure_sim, "live": measure_live, "spark": measure_spark}


# All measurements


def measured(tree: Path, kind: str, case: str) -> float:
    """One figure of a tree."""
    paths = os.pathsep.join(map(str, (tree / "src", Path(__file__).parents[1])))
    command = [sys.executable, "-P", __file__, "--measure", kind, case]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"bench: {kind} {case} in {tree} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    home, figure = json.loads(done.stdout.splitlines()[-1])
    assert Path(home).is_relative_to(tree), f"measured {home} instead of {tree}"
    return float(figure)


def alternated(old: Path, new: Path, kind: str, case: str, rounds: int) -> dict[str, Any]:
    """The figures of both trees by turns, and the median of the ratios."""
    figures: dict[Path, list[float]] = {old: [], new: []}
    for number in range(rounds):
        for tree in (old, new) if number % 2 == 0 else (new, old):
            figures[tree].append(measured(tree, kind, case))
    ratios = [two / one for one, two in zip(figures[old], figures[new], strict=True)]
    return {"old": figures[old], "new": figures[new], "ratios": ratios, "ratio": median(ratios)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.alternate", description="Compare the speed of two trees.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", choices=list(MEASURES))
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    print(f"{'':22} {'old':>10} {'new':>10} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/trace"
        cases = {"sim": list(STACKS), "live": ["token-site"], "spark": [trace]}
        if given.only in (None, "spark"):
            from bench.traces import write

            write(Path(trace), ROWS)
            write(Path(f"{trace}-warm"), WARM_ROWS)
        for kind, case in [(one, case) for one in MEASURES for case in cases[one]]:
            if given.only in (None, kind):
                name = f"{kind} {Path(case).name}"
                found = alternated(given.old.resolve(), given.new.resolve(), kind, case, given.rounds)
                results[name] = found
                print(
                    f"{name:22} {median(found['old']):10.3f} {median(found['new']):10.3f} {found['ratio']:7.3f}",
                    flush=True,
                )
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))
    slower = [name for name, found in results.items() if found["ratio"] > RATIO_MAX]
    print("slower: " + ", ".join(slower) if slower else f"no ratio above {RATIO_MAX}")
    return int(bool(slower))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        import isthmus

        print(json.dumps([isthmus.__file__, MEASURES[sys.argv[2]](sys.argv[3])]))
    else:
        sys.exit(main())
