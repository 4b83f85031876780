"""The same seed gives the same trace, byte for byte, in any process and under any hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROUGH = """
name = "rough"
duration_ms = 2000
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = { kind = "normal", mean_ms = 1, sd_ms = 0.3 }, loss = 0.05, fifo = false }
wan = { delay = { kind = "gamma", mean_ms = 30, variance_ms2 = 9, shift_ms = 20 }, loss = 0.1, duplicate = 0.05 }
[[topology.clusters]]
name = "a"
sites = 3
[[topology.clusters]]
name = "b"
sites = 2
[stack]
name = "token-site"
[[workloads]]
kind = "poisson"
rate_per_s = 30
[[workloads]]
kind = "on-off"
rate_per_s = 50
on_ms = 200
off_ms = 200
to = 2
[[workloads]]
kind = "reply"
probability = 0.1
[random_faults]
crashes = 2
recover = 1.0
partitions = 1
losses = 1
delay_shifts = 1
clock_jumps = 2
[clocks]
offset_ms = 20
drift_ppm = 100
[[participants]]
name = "ann"
group = "orders"
site = "a-0"
period_ms = 50
[[participants]]
name = "bob"
group = "orders"
site = "b-1"
join_ms = 300
leave_ms = 1500
period_ms = 30
"""


GROUPED = """
name = "grouped"
duration_ms = 2000
turn_ms = 5
payloads = "varied"
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = { kind = "uniform", low_ms = 0, high_ms = 2 }, loss = 0.05, fifo = false }
wan = { delay = { kind = "normal", mean_ms = 20, sd_ms = 5 }, loss = 0.1, duplicate = 0.05, fifo = false }
[[topology.clusters]]
name = "a"
sites = 3
[[topology.clusters]]
name = "b"
sites = 3
[stack]
name = "dynamic-hybrid"
[stack.hybrid]
rule = "restless"
[[groups]]
name = "all"
[[groups]]
name = "some"
sites = ["a", "b-0"]
[groups.stack]
name = "optimistic"
[[workloads]]
kind = "poisson"
rate_per_s = 20
[[workloads]]
kind = "burst"
period_ms = 500
burst_count = 20
one_turn = true
[[workloads]]
kind = "poisson"
group = "some"
rate_per_s = 20
to = 2
[membership]
detection_ms = 20
stagger_ms = 100
hasty = true
majority = true
[random_faults]
crashes = 1
recover = 1.0
partitions = 1
losses = 1
clock_jumps = 1
[clocks]
offset_ms = 20
drift_ppm = 100
"""
FLOODS = """
name = "floods"
duration_ms = 3000
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = { kind = "uniform", low_ms = 0, high_ms = 5 }, loss = 0.05, fifo = false }
wan = { delay = { kind = "gamma", mean_ms = 10, variance_ms2 = 9, shift_ms = 5 }, loss = 0.05, duplicate = 0.05 }
[[topology.clusters]]
name = "a"
sites = 5
[[topology.clusters]]
name = "b"
sites = 4
[stack]
name = "flooding-dynamic"
[[groups]]
name = "steady"
[[groups]]
name = "viewed"
[groups.stack]
name = "flooding"
[groups.stack.overlay]
kind = "random"
ids = "topology"
[[workloads]]
kind = "poisson"
rate_per_s = 10
[[workloads]]
kind = "poisson"
group = "viewed"
rate_per_s = 10
[[workloads]]
kind = "reply"
probability = 0.05
[membership]
detection_ms = 20
stagger_ms = 30
absent = ["b-3"]
[[faults]]
kind = "recover"
at_ms = 400
site = "b-3"
[[faults]]
kind = "crash"
at_ms = 900
site = "a-1"
[[faults]]
kind = "leave"
at_ms = 1500
site = "a-2"
"""
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
CLOCKED = """
name = "clocked"
duration_ms = 6000
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = { kind = "uniform", low_ms = 0.1, high_ms = 1 }, loss = 0.02 }
wan = { delay = { kind = "normal", mean_ms = 20, sd_ms = 5 }, loss = 0.05, fifo = false }
[[topology.clusters]]
name = "a"
sites = 4
references = ["a-0", "a-1", "a-2"]
[[topology.clusters]]
name = "b"
sites = 3
[stack]
name = "dynamic-hybrid"
[stack.hybrid]
clock = "synchronised"
[[workloads]]
kind = "poisson"
rate_per_s = 5
[membership]
detection_ms = 100
[clocks]
offset_ms = 20
drift_ppm = 100
granularity_us = 1
[clocks.broadcast]
repeat = 0.3
loss = 0.05
[clocks.service]
period_ms = 500
rate_correction = true
[random_faults]
crashes = 1
recover = 1.0
losses = 1
[[faults]]
kind = "reference-lie"
site = "a-0"
at_ms = 2000
by_ms = 50
"""
COSTS = """
name = "costs"
duration_ms = 300
trace = "wire"
[topology]
[topology.defaults]
lan = { delay = 0.005, loss = 0.02 }
[[topology.clusters]]
name = "a"
sites = 5
[stack]
name = "ring"
[network.costs]
receive_us = 100
[[groups]]
name = "all"
[[groups]]
name = "some"
sites = ["a-0", "a-1", "a-2"]
[groups.stack]
name = "symmetric"
[[workloads]]
kind = "closed"
burst_count = 5
rounds = 4
[[workloads]]
kind = "poisson"
group = "some"
rate_per_s = 30
[membership]
detection_ms = 50
[random_faults]
crashes = 1
recover = 1.0
"""
SCENARIOS = {
    "costs": COSTS,
    "rough": ROUGH,
    "clocked": CLOCKED,
    "grouped": GROUPED,
    "floods": FLOODS,
    "packets": PACKETS,
    "compiled": PACKETS.replace("python", "compiled"),
}


def simulate(folder: Path, name: str, out: str, hash_seed: str, seed: int = 3) -> str:
    """Run a scenario in a process of its own; the digest of its trace."""
    (folder / f"{name}.toml").write_text(SCENARIOS[name])
    command = [sys.executable, "-c", "from isthmus.cli.main import main; main()", "sim", f"{name}.toml"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [*command, "--seed", str(seed), "-o", out],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr  # 3: some seeds leave a small group without evidence
    digest = hashlib.sha256()
    for path in sorted((folder / out).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", ["rough", "clocked", "grouped", "floods", "packets"])
def test_same_seed_same_bytes_in_two_processes_under_two_hash_seeds(tmp_path, name):
    first = simulate(tmp_path, name, "one", "1")
    assert simulate(tmp_path, name, "two", "2") == first
    assert simulate(tmp_path, name, "three", "random") == first


@pytest.mark.parametrize("name", SCENARIOS)
def test_another_seed_gives_another_trace(tmp_path, name):
    assert simulate(tmp_path, name, "one", "1", seed=3) != simulate(tmp_path, name, "two", "1", seed=4)


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("seed", range(10, 30))
def test_same_seed_same_bytes_for_more_seeds(tmp_path, name, seed):
    assert simulate(tmp_path, name, "one", "1", seed) == simulate(tmp_path, name, "two", "2", seed)


def test_both_engines_of_the_packet_network_write_the_same_bytes(tmp_path):
    pytest.importorskip("numba")
    assert simulate(tmp_path, "packets", "plain", "1") == simulate(tmp_path, "compiled", "fast", "2")
