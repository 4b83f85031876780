"""Seventy scenarios over all stacks, memberships, compositions, clocks and networks: their traces do not change.

A digest is that of every row of a run, in order. It changes with any change of behaviour: where one is meant, run
`python tests/test_digests.py` to write them anew, and say in the commit which scenarios changed and why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.harness.bridged import bridged_scenario
from tests.harness.clock_scenarios import random_clock_scenario
from tests.harness.composed_runs import composed_scenario
from tests.harness.random_compositions import random_composition
from tests.harness.recomputed_runs import recomputed_scenario
from tests.harness.ring_runs import random_ring_run
from tests.harness.router_failover import failover_scenario

from isthmus.fuzz.agreed import agreed_scenario
from isthmus.fuzz.large import large_scenario
from isthmus.fuzz.scenarios import hard_scenario, random_scenario
from isthmus.scenario.load import load_scenario
from isthmus.scenario.model import Scenario
from isthmus.sim.simulate import make_run
from isthmus.stacks.registry import STACKS
from isthmus.trace.schema import Row

HERE = Path(__file__).parent
DIGESTS = HERE / "digests.json"
EXAMPLES = HERE.parent / "examples"
PACKETS = """
name = "packets"
duration_ms = 300
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = { kind = "constant", ms = 1 } }
[[topology.clusters]]
name = "a"
sites = 9
[network]
kind = "packets"
engine = "python"
graph = "random"
mean_degree = 3
hops = true
background = { flows = 5, rate_per_s = 50 }
[stack]
name = "flooding"
[[workloads]]
kind = "poisson"
rate_per_s = 20
payload_bytes = 2000
[membership]
detection_ms = 50
[random_faults]
crashes = 1
recover = 1.0
"""


def composed(seed: int) -> Scenario:
    return composed_scenario(random_composition(Random(seed)), seed)


def packets(folder: Path, engine: str) -> Scenario:
    path = folder / "packets.toml"
    path.write_text(PACKETS.replace("python", engine))
    return load_scenario(path, 5)


def scenarios(folder: Path) -> dict[str, Callable[[], Scenario]]:
    """What is run, by a name that says what it is."""
    found: dict[str, Callable[[], Scenario]] = {}
    for stack in STACKS:
        found[f"random {stack}"] = lambda stack=stack: random_scenario(stack, 7)
        found[f"hard {stack}"] = lambda stack=stack: hard_scenario(stack, 11)
    for stack in STACKS:
        found[f"agreed {stack}"] = lambda stack=stack: agreed_scenario(stack, 3)
    for stack in ("fifo", "causal-history", "token-site", "optimistic"):
        found[f"large {stack}"] = lambda stack=stack: large_scenario(stack, 2)
    for seed in range(6):
        found[f"composed {seed}"] = lambda seed=seed: composed(seed)
    for seed in range(2):
        found[f"failover {seed}"] = lambda seed=seed: failover_scenario(seed)
        found[f"failover agreed {seed}"] = lambda seed=seed: failover_scenario(seed, agreed=True)
        found[f"recomputed {seed}"] = lambda seed=seed: recomputed_scenario(seed)
        found[f"ring {seed}"] = lambda seed=seed: random_ring_run(seed).scenario
        found[f"clocks {seed}"] = lambda seed=seed: random_clock_scenario(seed)
    found["bridged"] = lambda: bridged_scenario("token-site", "causal-vector", 4)
    found["packets python"] = lambda: packets(folder, "python")
    found["packets compiled"] = lambda: packets(folder, "compiled")
    for name in ("clocks", "composed-offices", "participants", "rough-day", "three-lans"):
        found[f"example {name}"] = lambda name=name: load_scenario(EXAMPLES / f"{name}.toml", 3)
    return found


def digest(scenario: Scenario) -> str:
    """The digest of all rows of a run."""
    rows: list[Row] = []
    make_run(msgspec.structs.replace(scenario, trace="wire"), rows).execute()
    assert rows
    made = hashlib.sha256()
    for row in rows:
        made.update(msgspec.msgpack.encode(row))
    return made.hexdigest()


KEPT: dict[str, str] = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}


@pytest.mark.parametrize("name", KEPT)
def test_the_trace_is_the_same_as_ever(tmp_path: Path, name: str) -> None:
    assert digest(scenarios(tmp_path)[name]()) == KEPT[name]


def test_every_scenario_has_a_digest(tmp_path: Path) -> None:
    assert list(scenarios(tmp_path)) == list(KEPT)


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = {name: digest(make()) for name, make in scenarios(Path(folder)).items()}
    DIGESTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
